//! Keeps an index of the applications that each schedule has created, updated by the watch of applications.

use super::super::{Key, Watched, key, schedule_owner::Owner, source::Source};
use api::ScheduledSparkApplication;
use kube::runtime::{reflector::ObjectRef, watcher::Event};
use parking_lot::Mutex;
use schedules::Child;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The applications of each schedule, as far as the watch and this process's own writes show.
pub(crate) struct Children {
    index: Mutex<Index>,
    /// The schedules. One is queued when its applications have changed in a way that matters to it.
    source: Source<ScheduledSparkApplication, ()>,
}

#[derive(Default)]
struct Index {
    families: HashMap<Owner, Family>,
    /// The schedule of each application.
    owners: HashMap<Key, Owner>,
    /// Whether the cache of schedules is complete. Until then, a schedule that it does not have may exist.
    knows_schedules: bool,
}

/// The applications of one schedule, as far as they are known.
#[derive(Clone, Default)]
pub(super) struct Family {
    pub children: BTreeMap<String, Child>,
    /// The names of applications that this process has created and the watch has not reported yet. One that is not
    /// among `children` may not exist: the API server did not answer its creation.
    pub unconfirmed: BTreeSet<String>,
    /// The application of the latest slot (a time at which the schedule is due); `triggered` is the application of the
    /// latest manual trigger. Both stay recorded after they are deleted, so that it stays known that they were created.
    latest: Option<Child>,
    triggered: Option<Child>,
    /// The names of applications that were deleted before they had ended, and whose pods may still run.
    pub lost: BTreeSet<String>,
    /// Whether the API server has reported that no pods of deleted applications run. Only pods of applications in
    /// `lost` may run since then.
    pub is_searched: bool,
}

/// How many lost applications (see `Family::lost`) of a schedule are remembered. If there are more, the API server is
/// asked for their pods instead.
const MOST_LOST: usize = 100;

impl Children {
    pub(crate) fn new(source: Source<ScheduledSparkApplication, ()>) -> Self {
        Self { index: Mutex::default(), source }
    }

    fn exists(&self, owner: &Owner) -> bool {
        let (namespace, name) = &owner.key;
        let schedule = self.source.cache.get(&ObjectRef::new(name).within(namespace));
        schedule.is_some_and(|schedule| Owner::of(&*schedule) == *owner)
    }

    /// Returns the applications of a schedule, and the latest applications (by slot and by trigger) that are gone.
    pub(super) fn of(&self, owner: &Owner) -> (Vec<Child>, Vec<Child>) {
        let family = self.index.lock().families.get(owner).cloned().unwrap_or_default();
        let latest = [family.latest, family.triggered].into_iter().flatten();
        let departed = latest.filter(|child| !family.children.contains_key(&child.name)).collect();
        (family.children.into_values().collect(), departed)
    }

    /// Calls `with` with the record of the schedule's applications.
    pub(super) fn with<T>(&self, owner: &Owner, with: impl FnOnce(&mut Family) -> T) -> T {
        with(self.index.lock().families.entry(owner.clone()).or_default())
    }

    /// Records an application that this process has created.
    pub(super) fn add(&self, application: &Watched) {
        if let Some((owner, child)) = application.kept.child.clone() {
            let mut index = self.index.lock();
            let family = index.families.entry(owner.clone()).or_default();
            // The watch may have reported this application already, in a later state.
            if family.children.get(&child.name).is_none_or(|known| known.uid != child.uid) {
                family.unconfirmed.insert(child.name.clone());
                index.insert(key(application), owner, child);
            }
        }
    }

    /// Removes an application of this schedule that does not exist, although this process has created it, or may have.
    pub(super) fn remove(&self, owner: &Owner, name: &str) {
        let mut index = self.index.lock();
        let key = (owner.key.0.clone(), name.to_owned());
        // An application of another schedule may have the name.
        if index.owners.get(&key) == Some(owner) {
            index.remove(&key);
        }
        if let Some(family) = index.families.get_mut(owner) {
            family.unconfirmed.remove(name);
            // The application may have existed for a while, and may have left pods.
            family.is_searched = false;
        }
    }

    /// Forgets all schedules that do not exist, now that the cache of schedules is complete.
    pub(super) fn forget_others(&self) {
        let mut index = self.index.lock();
        // Applications may outlive their schedule for a moment, or refer to a schedule that never existed.
        index.families.retain(|owner, family| self.exists(owner) || !family.children.is_empty());
        index.knows_schedules = true;
    }

    /// Forgets a schedule that does not exist any more.
    pub(super) fn forget(&self, owner: &Owner) {
        let mut index = self.index.lock();
        index.families.remove(owner);
        index.owners.retain(|_, of| of != owner);
    }

    /// Applies one event of the watch of applications, which the cache of applications already has.
    pub(crate) fn apply(&self, event: &Event<Watched>) {
        let mut index = self.index.lock();
        let changed = match event {
            Event::Init => Vec::new(),
            Event::InitApply(application) | Event::Apply(application) => {
                let key = key(application);
                match application.kept.child.clone() {
                    Some((owner, child)) => {
                        // The application may have named another schedule before.
                        let has_left = index.owners.get(&key).is_some_and(|before| *before != owner);
                        let left = if has_left { index.remove(&key) } else { None };
                        left.into_iter().chain(index.confirm(key, owner, child)).collect()
                    }
                    None => index.remove(&key).into_iter().collect(),
                }
            }
            Event::InitDone => {
                let is_gone = |key: &&Key| {
                    self.source.cluster.application(&key.0, &key.1).is_none() && !index.is_unconfirmed(key)
                };
                let gone: Vec<_> = index.owners.keys().filter(is_gone).cloned().collect();
                gone.iter().filter_map(|key| index.remove(key)).collect()
            }
            Event::Delete(application) => index.remove(&key(application)).into_iter().collect(),
        };
        for owner in changed {
            let (namespace, name) = &owner.key;
            self.source.queue.push(namespace, name);
            // Nothing is kept for a schedule that does not exist: any user may create applications that refer to such a
            // schedule.
            let is_empty = index.families.get(&owner).is_some_and(|family| family.children.is_empty());
            if is_empty && index.knows_schedules && !self.exists(&owner) {
                index.families.remove(&owner);
            }
        }
    }
}

impl Index {
    /// Adds or updates an application that the watch reports. Returns its schedule, if the change matters to the
    /// schedule.
    fn confirm(&mut self, key: Key, owner: Owner, mut child: Child) -> Option<Owner> {
        let family = self.families.entry(owner.clone()).or_default();
        family.unconfirmed.remove(&child.name);
        // The watch may be behind this process's own deletion of the application. A deletion is never taken back.
        let known = family.children.get(&child.name).filter(|known| known.uid == child.uid);
        child.is_going |= known.is_some_and(|known| known.is_going);
        let matters = |child: &Child| (child.is_over(), child.is_going);
        let differs = |known: &Child| (matters(known), &known.uid) != (matters(&child), &child.uid);
        let is_news = family.children.get(&child.name).is_none_or(differs);
        self.insert(key, owner.clone(), child);
        is_news.then_some(owner)
    }

    fn insert(&mut self, key: Key, owner: Owner, child: Child) {
        let family = self.families.entry(owner.clone()).or_default();
        if child.slot.is_some() && family.latest.as_ref().is_none_or(|latest| latest.slot <= child.slot) {
            family.latest = Some(child.clone());
        }
        let is_later = |triggered: &Child| triggered.created <= child.created;
        if child.trigger.is_some() && family.triggered.as_ref().is_none_or(is_later) {
            family.triggered = Some(child.clone());
        }
        family.children.insert(child.name.clone(), child);
        self.owners.insert(key, owner);
    }

    /// Removes an application. Returns the schedule that has lost the application, if there is one.
    fn remove(&mut self, key: &Key) -> Option<Owner> {
        let owner = self.owners.remove(key)?;
        if let Some(family) = self.families.get_mut(&owner) {
            let child = family.children.remove(&key.1);
            if child.is_some_and(|child| !child.is_over()) {
                family.lost.insert(key.1.clone());
                if family.lost.len() > MOST_LOST {
                    family.lost.clear();
                    family.is_searched = false;
                }
            }
            family.unconfirmed.remove(&key.1);
        }
        Some(owner)
    }

    fn is_unconfirmed(&self, key: &Key) -> bool {
        let family = self.owners.get(key).and_then(|owner| self.families.get(owner));
        family.is_some_and(|family| family.unconfirmed.contains(&key.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, Setup, kept::Kept, tests::api_server};
    use kube::runtime::reflector::{self, store::Writer};
    use serde_json::{from_value, json};
    use std::{collections::HashSet, future::pending};

    type Schedule = Kept<ScheduledSparkApplication, ()>;

    /// Returns an application in `namespace` that has a slot and names the schedule `owner` (name and uid) as its
    /// owner.
    fn watched(namespace: &str, owner: (&str, &str)) -> Watched {
        let (name, uid) = owner;
        let metadata = json!({
            "name": format!("{name}-1"), "namespace": namespace, "uid": format!("application-in-{namespace}"),
            "annotations": {"sparkoperator.k8s.io/scheduled-time": "2026-01-01T00:00:00Z"},
            "ownerReferences": [{
                "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "ScheduledSparkApplication", "name": name, "uid": uid,
            }],
        });
        from_value(crate::tests::application(&metadata)).unwrap()
    }

    /// Returns an index, and the writer of the cache of schedules.
    fn children() -> (Children, Writer<Schedule>) {
        let setup = Setup::of_tests(api_server(|_| pending()), "a");
        let cluster = Cluster::new(&setup, reflector::store().0);
        let (schedules, writer) = reflector::store();
        (Children::new(Source::new(cluster, &setup.workloads.schedules, schedules)), writer)
    }

    fn schedule(Owner { key: (namespace, name), uid }: &Owner) -> Schedule {
        from_value(json!({"metadata": {"name": name, "namespace": namespace, "uid": uid}})).unwrap()
    }

    fn nightly() -> Owner {
        Owner { key: ("a".to_owned(), "nightly".to_owned()), uid: "of-nightly".to_owned() }
    }

    /// In an earlier version, a user who knew the uid of another tenant's schedule could keep the schedule from
    /// starting anything.
    #[tokio::test]
    async fn an_application_that_names_a_schedule_of_another_namespace_is_not_its_child() {
        let (children, _schedules) = children();
        for forged in [
            watched("b", ("nightly", "of-nightly")),
            watched("a", ("hourly", "of-nightly")),
            watched("a", ("nightly", "of-another")),
        ] {
            assert!(!forged.kept.is_of(&nightly()), "{forged:?}");
            children.apply(&Event::Apply(forged));
        }
        assert_eq!(children.of(&nightly()), (Vec::new(), Vec::new()));

        let own = watched("a", ("nightly", "of-nightly"));
        assert!(own.kept.is_of(&nightly()));
        children.apply(&Event::Apply(own));
        children.apply(&Event::Delete(watched("b", ("nightly", "of-nightly"))));
        let (there, departed) = children.of(&nightly());
        assert_eq!(there.iter().map(|child| &*child.uid).collect::<Vec<_>>(), ["application-in-a"]);
        assert_eq!(departed, Vec::new());
    }

    /// In an earlier version, each edit of the owner reference left the application with its former schedule for ever.
    #[tokio::test]
    async fn an_application_belongs_to_the_schedule_that_it_names_last() {
        let (children, _schedules) = children();
        children.forget_others();
        for uid in ["1", "2", "3"] {
            children.apply(&Event::Apply(watched("a", ("nightly", uid))));
        }
        let known: Vec<_> = children.index.lock().families.keys().map(|owner| owner.uid.clone()).collect();
        assert_eq!(known, ["3"]);
    }

    #[tokio::test]
    async fn schedules_that_do_not_exist_are_forgotten() {
        let (children, mut schedules) = children();
        let known = || children.index.lock().families.keys().cloned().collect::<HashSet<_>>();
        let hourly = Owner { key: ("a".to_owned(), "hourly".to_owned()), ..nightly() };
        let of = |owner: &Owner| watched(&owner.key.0, (&*owner.key.1, &*owner.uid));
        for owner in [nightly(), hourly.clone()] {
            children.apply(&Event::Apply(of(&owner)));
            children.apply(&Event::Delete(of(&owner)));
        }
        schedules.apply_watcher_event(&Event::Apply(schedule(&nightly())));
        children.forget_others();
        assert_eq!(known(), HashSet::from([nightly()]), "a schedule that exists stays known");

        schedules.apply_watcher_event(&Event::Apply(schedule(&hourly)));
        children.apply(&Event::Apply(of(&hourly)));
        schedules.apply_watcher_event(&Event::Delete(schedule(&nightly())));
        children.forget(&nightly());
        // The garbage collector has not deleted the application of the deleted schedule yet.
        children.apply(&Event::Apply(of(&nightly())));
        children.apply(&Event::Delete(of(&nightly())));
        assert_eq!(known(), HashSet::from([hourly]));
    }
}
