//! Keeps an index of the objects of one kind by application, updated by the events of one watch.

use super::Key;
use kube::runtime::watcher::Event;
use parking_lot::{Mutex, RwLock};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    mem,
};
use tokio::sync::SetOnce;

/// For each application: the records of its objects, by the name of the object.
pub(super) type Records<R> = BTreeMap<Key, BTreeMap<String, R>>;

/// The part of an object that the operator needs. Only this part is kept, because there are thousands of objects of
/// each kind.
pub(super) trait Record: Clone + PartialEq {
    fn uid(&self) -> &str;
}

/// The records of all objects of one kind that the watch has reported.
#[derive(Debug)]
pub(super) struct ApplicationIndex<R> {
    pub(super) records: RwLock<Records<R>>,
    /// The records of a list that is not complete yet. They replace `records` when the list is complete.
    listed: Mutex<Records<R>>,
    /// The application of each object, both as hashes. Whoever may edit an object can have it name one application after
    /// the other, and no record may stay with a former one.
    places: Mutex<HashMap<u64, u64>>,
    hasher: RandomState,
    synced: SetOnce<()>,
}

impl<R> Default for ApplicationIndex<R> {
    fn default() -> Self {
        Self {
            records: RwLock::default(),
            listed: Mutex::default(),
            places: Mutex::default(),
            hasher: RandomState::default(),
            synced: SetOnce::new(),
        }
    }
}

impl<R: Record> ApplicationIndex<R> {
    /// Waits until all objects that existed at the start are known. Until then, an object that is not in the index may
    /// still exist.
    pub(super) async fn synced(&self) {
        self.synced.wait().await;
    }

    /// Returns the records of an application, by the names of the objects.
    pub(super) fn of(&self, namespace: &str, application: &str) -> BTreeMap<String, R> {
        let key = (namespace.to_owned(), application.to_owned());
        self.records.read().get(&key).cloned().unwrap_or_default()
    }

    /// Applies one event of the watch. `place` returns namespace and name of an object, `record` its application and its
    /// record, or none if the object belongs to no application. `is_going` receives the last record of each object that does
    /// not exist any more, before the record leaves the index. Returns the applications whose objects have changed.
    pub(super) fn apply<K>(
        &self,
        event: Event<K>,
        place: impl Fn(&K) -> Key,
        record: impl Fn(K) -> Option<(Key, R)>,
        mut is_going: impl FnMut(&Key, &R),
    ) -> BTreeSet<Key> {
        let mut changed = BTreeSet::new();
        match event {
            Event::Init => self.listed.lock().clear(),
            Event::InitApply(object) => {
                let (_, name) = place(&object);
                if let Some((key, record)) = record(object) {
                    self.listed.lock().entry(key).or_default().insert(name, record);
                }
            }
            Event::InitDone => {
                let listed = mem::take(&mut *self.listed.lock());
                let mut records = self.records.write();
                // Whichever application an object names now, it is there.
                let uids: HashSet<_> = listed.values().flat_map(BTreeMap::values).map(R::uid).collect();
                for (key, record) in
                    records.iter().flat_map(|(key, of)| of.values().map(move |record| (key, record)))
                {
                    if !uids.contains(record.uid()) {
                        is_going(key, record);
                    }
                }
                drop(uids);
                let before = mem::replace(&mut *records, listed);
                *self.places.lock() = self.places_of(&records);
                // Later lists are no news.
                self.synced.set(()).ok();
                let differs = |key: &&Key| before.get(*key) != records.get(*key);
                changed.extend(before.keys().chain(records.keys()).filter(differs).cloned());
            }
            Event::Apply(object) => {
                let place = place(&object);
                let record = record(object);
                let mut records = self.records.write();
                let former = self.moved(&mut records, &place, record.as_ref().map(|(key, _)| key));
                changed.extend(former.map(|(key, _)| key));
                if let Some((key, record)) = record {
                    let known = records.entry(key.clone()).or_default();
                    if known.get(&place.1) != Some(&record) {
                        known.insert(place.1, record);
                        changed.insert(key);
                    }
                }
            }
            Event::Delete(object) => {
                let place = place(&object);
                let last = record(object);
                let mut records = self.records.write();
                let was_known = self.places.lock().remove(&self.hash(&place.0, &place.1));
                let known =
                    was_known.and_then(|_| take(&mut records, &place, last.as_ref().map(|(key, _)| key)));
                changed.extend(known.as_ref().map(|(key, _)| key.clone()));
                if let Some((key, record)) = last.or(known) {
                    is_going(&key, &record);
                    changed.insert(key);
                }
            }
        }
        changed
    }

    /// Records that the object at `place` belongs to the application `key`, or to none. If it has belonged to another one,
    /// takes that one's record out of `records` and returns it.
    fn moved(&self, records: &mut Records<R>, place: &Key, key: Option<&Key>) -> Option<(Key, R)> {
        let (place_hash, now) = (self.hash(&place.0, &place.1), key.map(|key| self.hash(&key.0, &key.1)));
        let mut places = self.places.lock();
        let before = match now {
            Some(now) => places.insert(place_hash, now),
            None => places.remove(&place_hash),
        };
        before.filter(|before| now != Some(*before)).and_then(|_| take(records, place, None))
    }

    fn places_of(&self, records: &Records<R>) -> HashMap<u64, u64> {
        let of_application = |((namespace, application), of): (&Key, &BTreeMap<String, R>)| {
            let now = self.hash(namespace, application);
            of.keys().map(|name| (self.hash(namespace, name), now)).collect::<Vec<_>>()
        };
        records.iter().flat_map(of_application).collect()
    }

    fn hash(&self, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((namespace, name))
    }
}

/// Takes the record of the object at `place` out of `records`: that of the application `key` if there is one, else that of
/// any application of the namespace.
fn take<R>(records: &mut Records<R>, (namespace, name): &Key, key: Option<&Key>) -> Option<(Key, R)> {
    let has = |of: &BTreeMap<String, R>| of.contains_key(name);
    let key = match key.filter(|key| records.get(*key).is_some_and(has)) {
        Some(key) => key.clone(),
        None => {
            let of_namespace = records.range((namespace.clone(), String::new())..);
            let mut of_namespace = of_namespace.take_while(|(key, _)| key.0 == *namespace);
            of_namespace.find(|(_, of)| has(of))?.0.clone()
        }
    };
    let known = records.get_mut(&key)?;
    let record = known.remove(name)?;
    if known.is_empty() {
        records.remove(&key);
    }
    Some((key, record))
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
        fn uid(&self) -> &str {
            self.uid
        }
    }

    fn key(application: &str) -> Key {
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
            |(_, object)| ("default".to_owned(), object.name.to_owned()),
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
        assert_eq!(index.of("default", "pi")["a"], object(2));
        let gone = applied(&index, Event::Delete((Some("pi"), object(2))));
        assert_eq!(gone, (vec!["pi".to_owned()], vec!["1"]));
        assert_eq!(applied(&index, Event::Delete((None, object(2)))), NOTHING, "nobody knows it");
        assert!(index.records.read().is_empty() && index.places.lock().is_empty());
    }

    /// Once, each edit of the label left a record behind, until the memory of the operator was full.
    #[test]
    fn an_object_belongs_to_the_application_that_it_names_last() {
        let index = ApplicationIndex::default();
        let object = |port| Object { name: "a", uid: "1", port };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (application, changed) in [
            (Some("b"), vec!["b"]),
            (Some("c"), vec!["b", "c"]),
            (None, vec!["c"]),
            (None, vec![]),
            (Some("b"), vec!["b"]),
        ] {
            let (found, gone) = applied(&index, Event::Apply((application, object(1))));
            assert_eq!((found, gone), (names(&changed), vec![]), "{application:?}");
            assert_eq!(index.records.read().len(), usize::from(application.is_some()));
        }
        let gone = applied(&index, Event::Delete((None, object(1))));
        assert_eq!(gone, (names(&["b"]), vec!["1"]), "it has ceased to name one and is deleted");
        applied(&index, Event::InitApply((Some("d"), object(1))));
        applied(&index, Event::InitDone);
        assert_eq!(applied(&index, Event::Apply((Some("e"), object(1)))).0, ["d", "e"]);
        assert_eq!((index.records.read().len(), index.places.lock().len()), (1, 1));
        applied(&index, Event::InitApply((Some("f"), object(1))));
        assert_eq!(
            applied(&index, Event::InitDone),
            (names(&["e", "f"]), vec![]),
            "a list finds it elsewhere"
        );
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
