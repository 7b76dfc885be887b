//! Keeps an index of the objects of one kind by application, updated by the events of one watch.

use super::Key;
use kube::runtime::watcher::Event;
use parking_lot::{Mutex, RwLock};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{BuildHasher, RandomState},
    mem,
};
use tokio::sync::watch as state;

/// For each application: the records of its objects, by the name of the object.
pub(super) type Records<R> = BTreeMap<Key, BTreeMap<String, R>>;

/// Whether the objects of a kind are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The first list is not complete yet.
    Begins,
    /// The cluster does not have the kind, or the operator may not watch it: no watch reports its objects.
    Unwatched,
    Known,
}

/// The records of all objects of one kind that the watch has reported. A record is the part of an object that the
/// operator needs: there are thousands of objects of each kind.
#[derive(Debug)]
pub(super) struct ApplicationIndex<R> {
    pub(super) records: RwLock<Records<R>>,
    /// The records of a list that is not complete yet. They replace `records` when the list is complete.
    listed: Mutex<Records<R>>,
    /// The objects that have a record, as hashes of their namespaces and names. Users who may edit an object can make
    /// it name one application after the other, and no record may stay with a former application.
    known: Mutex<HashSet<u64>>,
    hasher: RandomState,
    pub(super) state: state::Sender<State>,
}

impl<R> Default for ApplicationIndex<R> {
    fn default() -> Self {
        Self {
            records: RwLock::default(),
            listed: Mutex::default(),
            known: Mutex::default(),
            hasher: RandomState::default(),
            state: state::Sender::new(State::Begins),
        }
    }
}

impl<R: Clone + PartialEq> ApplicationIndex<R> {
    /// Waits until all objects that existed at the start are known, or until it is clear that the kind cannot be watched.
    /// Until then, an object that is not in the index may still exist.
    pub(super) async fn synced(&self) {
        // The sender lives as long as `self`, so this wait cannot fail.
        drop(self.state.subscribe().wait_for(|state| *state != State::Begins).await);
    }

    /// Returns the records of an application, by the names of the objects.
    pub(super) fn of(&self, application: &Key) -> BTreeMap<String, R> {
        self.records.read().get(application).cloned().unwrap_or_default()
    }

    /// Applies one event of the watch. `place` returns namespace and name of an object, `record` its application and
    /// its record, or `None` if the object belongs to no application. `is_going` receives the last record of each
    /// object that does not exist any more, before the record leaves the index; `uid` returns the uid in a record, by
    /// which a complete list shows that an object still exists. Returns the applications whose objects have changed.
    pub(super) fn apply<K>(
        &self,
        event: Event<K>,
        place: impl Fn(&K) -> Key,
        record: impl Fn(K) -> Option<(Key, R)>,
        uid: impl Fn(&R) -> &str,
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
                // An object in the list exists, whichever application it names now.
                let uids: HashSet<_> = listed.values().flat_map(BTreeMap::values).map(&uid).collect();
                for (key, record) in
                    records.iter().flat_map(|(key, of)| of.values().map(move |record| (key, record)))
                {
                    if !uids.contains(uid(record)) {
                        is_going(key, record);
                    }
                }
                drop(uids);
                let before = mem::replace(&mut *records, listed);
                let places = records.iter().flat_map(|((namespace, _), of)| {
                    of.keys().map(move |name| self.hasher.hash_one((namespace, name)))
                });
                *self.known.lock() = places.collect();
                let differs = |key: &&Key| before.get(*key) != records.get(*key);
                changed.extend(before.keys().chain(records.keys()).filter(differs).cloned());
                // Unlocked first: a reader of the state may wait for the records while it holds the state.
                drop(records);
                self.state.send_replace(State::Known);
            }
            Event::Apply(object) => {
                let place = place(&object);
                let now = record(object);
                let mut records = self.records.write();
                let before = self.take(&mut records, &place, now.as_ref());
                if before != now {
                    changed.extend([&before, &now].into_iter().flatten().map(|(key, _)| key.clone()));
                }
                if let Some((key, record)) = now {
                    self.known.lock().insert(self.hasher.hash_one((&place.0, &place.1)));
                    records.entry(key).or_default().insert(place.1, record);
                }
            }
            Event::Delete(object) => {
                let place = place(&object);
                let last = record(object);
                let mut records = self.records.write();
                let before = self.take(&mut records, &place, last.as_ref());
                changed.extend(before.as_ref().map(|(key, _)| key.clone()));
                if let Some((key, record)) = last.or(before) {
                    is_going(&key, &record);
                    changed.insert(key);
                }
            }
        }
        changed
    }

    /// Removes the record of the object at `place` from `records` and returns it, if there is one: the record under the
    /// application that the object names `now`, or else under any application of the namespace.
    fn take(&self, records: &mut Records<R>, place: &Key, now: Option<&(Key, R)>) -> Option<(Key, R)> {
        let (namespace, name) = place;
        if !self.known.lock().remove(&self.hasher.hash_one((namespace, name))) {
            return None;
        }
        let has = |of: &BTreeMap<String, R>| of.contains_key(name);
        let key = match now.filter(|(key, _)| records.get(key).is_some_and(has)) {
            Some((key, _)) => key.clone(),
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
            |object| object.uid,
            |_, object| gone.push(object.uid),
        );
        (changed.into_iter().map(|(_, name)| name).collect(), gone)
    }

    const NOTHING: (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());

    #[test]
    fn an_application_is_reported_if_one_of_its_objects_has_changed() {
        let index = ApplicationIndex::default();
        let object = |port| Object { name: "a", uid: "1", port };
        let pi = || (vec!["pi".to_owned()], Vec::new());
        assert_eq!(applied(&index, Event::Apply((Some("pi"), object(1)))), pi());
        assert_eq!(applied(&index, Event::Apply((Some("pi"), object(1)))), NOTHING, "the same again");
        assert_eq!(applied(&index, Event::Apply((Some("pi"), object(2)))), pi());
        assert_eq!(index.of(&key("pi"))["a"], object(2));
        let gone = applied(&index, Event::Delete((Some("pi"), object(2))));
        assert_eq!(gone, (vec!["pi".to_owned()], vec!["1"]));
        assert_eq!(applied(&index, Event::Delete((None, object(2)))), NOTHING, "it has no record any more");
        assert!(index.records.read().is_empty() && index.known.lock().is_empty());
    }

    /// In an earlier version, each edit of the label left a record behind, until the memory of the operator was full.
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
        assert_eq!(gone, (names(&["b"]), vec!["1"]), "it no longer names an application and is deleted");
        applied(&index, Event::InitApply((Some("d"), object(1))));
        applied(&index, Event::InitDone);
        assert_eq!(applied(&index, Event::Apply((Some("e"), object(1)))).0, ["d", "e"]);
        assert_eq!((index.records.read().len(), index.known.lock().len()), (1, 1));
        applied(&index, Event::InitApply((Some("f"), object(1))));
        assert_eq!(
            applied(&index, Event::InitDone),
            (names(&["e", "f"]), vec![]),
            "in the list it names another application"
        );
    }

    #[test]
    fn a_complete_list_replaces_all_records() {
        let index = ApplicationIndex::default();
        let object = |name, uid| Object { name, uid, port: 1 };
        applied(&index, Event::Apply((Some("pi"), object("same", "1"))));
        applied(&index, Event::Apply((Some("old"), object("gone", "2"))));
        applied(&index, Event::Apply((Some("made-anew"), object("again", "3"))));
        assert_eq!(applied(&index, Event::Init), NOTHING);
        // Objects from an interrupted list are ignored.
        applied(&index, Event::InitApply((Some("never"), object("never", "5"))));
        assert_eq!(applied(&index, Event::Init), NOTHING);
        for (application, object) in
            [("pi", object("same", "1")), ("made-anew", object("again", "4")), ("new", object("new", "6"))]
        {
            assert_eq!(applied(&index, Event::InitApply((Some(application), object))), NOTHING);
        }
        assert!(index.of(&key("new")).is_empty(), "the list is not complete");
        let (changed, gone) = applied(&index, Event::InitDone);
        assert_eq!(changed, ["made-anew", "new", "old"]);
        assert_eq!(gone, ["3", "2"], "of made-anew and of old");
        assert!(index.of(&key("old")).is_empty() && index.of(&key("pi")).contains_key("same"));
    }
}
