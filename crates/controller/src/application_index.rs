//! Keeps an index of the objects of one kind by application, updated by the events of one watch.

use super::ApplicationRef;
use kube::runtime::watcher::Event;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

/// Namespace and name of an application.
pub(super) type ApplicationKey = (String, String);
/// For each application: the records of its objects, by the name of the object.
pub(super) type Records<R> = BTreeMap<ApplicationKey, BTreeMap<String, R>>;

/// The part of an object that the operator needs. Only this part is kept, because there are thousands of objects of
/// each kind.
pub(super) trait Record: Clone + PartialEq {
    fn name(&self) -> &str;
    fn uid(&self) -> &str;
}

/// The records of all objects of one kind that the watch has reported.
#[derive(Debug)]
pub(super) struct ApplicationIndex<R> {
    records: RwLock<Records<R>>,
    /// The records of a list that is not complete yet. They replace `records` when the list is complete.
    listed: Mutex<Records<R>>,
}

impl<R> Default for ApplicationIndex<R> {
    fn default() -> Self {
        Self { records: RwLock::default(), listed: Mutex::default() }
    }
}

impl<R: Record> ApplicationIndex<R> {
    /// Returns all records.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Records<R>> {
        self.records.read()
    }

    /// Returns the records of an application, by the names of the objects.
    pub(super) fn of(&self, namespace: &str, application: &str) -> BTreeMap<String, R> {
        let key = (namespace.to_owned(), application.to_owned());
        self.records.read().get(&key).cloned().unwrap_or_default()
    }

    /// Applies one event of the watch. `record` returns the application and the record of an object, or none if the
    /// object belongs to no application. `is_going` receives the last record of each object that does not exist any
    /// more, before the record leaves the index. Returns the applications whose objects have changed.
    pub(super) fn apply<K>(
        &self,
        event: Event<K>,
        record: impl Fn(K) -> Option<(ApplicationKey, R)>,
        mut is_going: impl FnMut(&ApplicationKey, &R),
    ) -> BTreeSet<ApplicationKey> {
        match event {
            Event::Init => {
                self.listed.lock().clear();
                BTreeSet::new()
            }
            Event::InitApply(object) => {
                if let Some((key, record)) = record(object) {
                    self.listed.lock().entry(key).or_default().insert(record.name().to_owned(), record);
                }
                BTreeSet::new()
            }
            Event::InitDone => {
                let listed = mem::take(&mut *self.listed.lock());
                let mut records = self.records.write();
                for (key, record) in
                    records.iter().flat_map(|(key, of)| of.values().map(move |record| (key, record)))
                {
                    let now = listed.get(key).and_then(|of| of.get(record.name()));
                    if now.is_none_or(|now| now.uid() != record.uid()) {
                        is_going(key, record);
                    }
                }
                let before = mem::replace(&mut *records, listed);
                let differs = |key: &&ApplicationKey| before.get(*key) != records.get(*key);
                before.keys().chain(records.keys()).filter(differs).cloned().collect()
            }
            Event::Apply(object) => {
                let Some((key, record)) = record(object) else { return BTreeSet::new() };
                let mut records = self.records.write();
                let known = records.entry(key.clone()).or_default();
                if known.get(record.name()) == Some(&record) {
                    return BTreeSet::new();
                }
                known.insert(record.name().to_owned(), record);
                BTreeSet::from([key])
            }
            Event::Delete(object) => {
                let Some((key, record)) = record(object) else { return BTreeSet::new() };
                is_going(&key, &record);
                let mut records = self.records.write();
                if let Some(known) = records.get_mut(&key) {
                    known.remove(record.name());
                    if known.is_empty() {
                        records.remove(&key);
                    }
                }
                BTreeSet::from([key])
            }
        }
    }
}

/// Returns the references by which kube's controller reconciles these applications.
pub(super) fn references(keys: BTreeSet<ApplicationKey>) -> impl Iterator<Item = ApplicationRef> {
    keys.into_iter().map(|(namespace, name)| ApplicationRef::new(&name).within(&namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Object {
        name: &'static str,
        uid: &'static str,
        port: u16,
    }

    impl Record for Object {
        fn name(&self) -> &str {
            self.name
        }

        fn uid(&self) -> &str {
            self.uid
        }
    }

    fn key(application: &str) -> ApplicationKey {
        ("default".to_owned(), application.to_owned())
    }

    /// Applies an event about objects, each with the name of its application (if it has one). Returns the names of the
    /// changed applications, and the uids of the objects that are gone.
    fn applied(
        index: &ApplicationIndex<Object>,
        event: Event<(Option<&str>, Object)>,
    ) -> (Vec<String>, Vec<&'static str>) {
        let mut gone = Vec::new();
        let changed = index.apply(
            event,
            |(application, object)| Some((key(application?), object)),
            |_, object| gone.push(object.uid),
        );
        (changed.into_iter().map(|(_, name)| name).collect(), gone)
    }

    const NOTHING: (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());

    #[test]
    fn an_application_is_named_if_one_of_its_objects_differs() {
        let index = ApplicationIndex::default();
        let object = |port| Object { name: "a", uid: "1", port };
        let pi = || (vec!["pi".to_owned()], Vec::new());
        assert_eq!(applied(&index, Event::Apply((Some("pi"), object(1)))), pi());
        assert_eq!(applied(&index, Event::Apply((Some("pi"), object(1)))), NOTHING, "the same again");
        assert_eq!(applied(&index, Event::Apply((Some("pi"), object(2)))), pi());
        assert_eq!(applied(&index, Event::Apply((None, object(3)))), NOTHING, "it has no application");
        assert_eq!(index.of("default", "pi")["a"], object(2));
        let gone = applied(&index, Event::Delete((Some("pi"), object(2))));
        assert_eq!(gone, (vec!["pi".to_owned()], vec!["1"]));
        assert!(index.read().is_empty());
    }

    #[test]
    fn a_complete_list_replaces_what_was_known() {
        let index = ApplicationIndex::default();
        let object = |name, uid| Object { name, uid, port: 1 };
        applied(&index, Event::Apply((Some("pi"), object("same", "1"))));
        applied(&index, Event::Apply((Some("old"), object("gone", "2"))));
        applied(&index, Event::Apply((Some("made-anew"), object("again", "3"))));
        assert_eq!(applied(&index, Event::Init), NOTHING);
        // Objects from a list that was broken off are ignored.
        applied(&index, Event::InitApply((Some("never"), object("never", "5"))));
        assert_eq!(applied(&index, Event::Init), NOTHING);
        for (application, object) in
            [("pi", object("same", "1")), ("made-anew", object("again", "4")), ("new", object("new", "6"))]
        {
            assert_eq!(applied(&index, Event::InitApply((Some(application), object))), NOTHING);
        }
        assert!(index.of("default", "new").is_empty(), "the list is not complete");
        let (changed, gone) = applied(&index, Event::InitDone);
        assert_eq!(changed, ["made-anew", "new", "old"]);
        assert_eq!(gone, ["3", "2"], "of made-anew and of old");
        assert!(index.of("default", "old").is_empty() && index.of("default", "pi").contains_key("same"));
    }
}
