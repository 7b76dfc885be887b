//! Keeps an index of the applications that each schedule has created, updated by the watch of applications.

use super::super::{Key, Watched, key, queue::Queue, schedule_owner::Owner};
use kube::runtime::{
    reflector::{ObjectRef, Store},
    watcher::Event,
};
use parking_lot::Mutex;
use schedules::Child;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// The applications of each schedule, as far as the watch and this process's own writes show.
pub(crate) struct Children {
    index: Mutex<Index>,
    /// The cache of applications.
    applications: Store<Watched>,
    /// The queue of schedules, for those whose applications have changed in a way that matters to the schedule.
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Index {
    families: HashMap<Owner, Family>,
    /// The schedule of each application.
    owners: HashMap<Key, Owner>,
    /// The schedules that exist; none until they have been listed.
    schedules: Option<HashSet<Owner>>,
}

/// The applications of one schedule, as far as they are known.
#[derive(Clone, Default)]
pub(super) struct Family {
    pub children: BTreeMap<String, Child>,
    /// The names of applications that this process has made and the watch has not reported yet. One of them that is not among
    /// `children` may not exist: the API server did not answer.
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
    pub(crate) fn new(applications: Store<Watched>, queue: Arc<Queue>) -> Self {
        Self { index: Mutex::default(), applications, queue }
    }

    /// Returns the applications of a schedule, and the latest applications (by slot and by trigger) that are gone.
    pub(super) fn of(&self, owner: &Owner) -> (Vec<Child>, Vec<Child>) {
        let family = self.index.lock().families.get(owner).cloned().unwrap_or_default();
        let latest = [family.latest, family.triggered].into_iter().flatten();
        let departed = latest.filter(|child| !family.children.contains_key(&child.name)).collect();
        (family.children.into_values().collect(), departed)
    }

    /// Gives access to what is known of a schedule.
    pub(super) fn with<T>(&self, owner: &Owner, with: impl FnOnce(&mut Family) -> T) -> T {
        with(self.index.lock().families.entry(owner.clone()).or_default())
    }

    /// Records an application that this process has made.
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

    /// Removes an application of this schedule that does not exist, although this process has made it, or may have.
    pub(super) fn remove(&self, owner: &Owner, name: &str) {
        let mut index = self.index.lock();
        let key = (owner.key.0.clone(), name.to_owned());
        // One of another schedule may have the name.
        if index.owners.get(&key) == Some(owner) {
            index.remove(&key);
        }
        if let Some(family) = index.families.get_mut(owner) {
            family.unconfirmed.remove(name);
            // The application may have existed for a while, and may have left pods.
            family.is_searched = false;
        }
    }

    /// Records that this schedule exists.
    pub(super) fn begin(&self, owner: Owner) {
        if let Some(schedules) = &mut self.index.lock().schedules {
            schedules.insert(owner);
        }
    }

    /// Forgets all schedules that are not `listed`.
    pub(super) fn forget_others(&self, listed: HashSet<Owner>) {
        let mut index = self.index.lock();
        // Applications may outlive their schedule for a moment, or refer to a schedule that never existed.
        index.families.retain(|owner, family| listed.contains(owner) || !family.children.is_empty());
        index.schedules = Some(listed);
    }

    /// Forgets a schedule that does not exist any more.
    pub(super) fn forget(&self, owner: &Owner) {
        let mut index = self.index.lock();
        if let Some(schedules) = &mut index.schedules {
            schedules.remove(owner);
        }
        index.families.remove(owner);
        index.owners.retain(|_, of| of != owner);
    }

    /// Applies one event of the watch of applications, which the cache has by then.
    pub(crate) fn apply(&self, event: &Event<Watched>) {
        let mut index = self.index.lock();
        let changed = match event {
            Event::Init => Vec::new(),
            Event::InitApply(application) | Event::Apply(application) => {
                let key = key(application);
                match application.kept.child.clone() {
                    Some((owner, child)) => {
                        // It may have named another schedule before.
                        let has_left = index.owners.get(&key).is_some_and(|before| *before != owner);
                        let left = if has_left { index.remove(&key) } else { None };
                        left.into_iter().chain(index.confirm(key, owner, child)).collect()
                    }
                    None => index.remove(&key).into_iter().collect(),
                }
            }
            Event::InitDone => {
                let is_gone = |key: &&Key| {
                    let application = ObjectRef::new(&key.1).within(&key.0);
                    self.applications.get(&application).is_none() && !index.is_unconfirmed(key)
                };
                let gone: Vec<_> = index.owners.keys().filter(is_gone).cloned().collect();
                gone.iter().filter_map(|key| index.remove(key)).collect()
            }
            Event::Delete(application) => index.remove(&key(application)).into_iter().collect(),
        };
        drop(index);
        for (namespace, name) in changed {
            self.queue.push(&namespace, &name);
        }
    }
}

impl Index {
    /// Adds or updates an application that the watch reports. Returns its schedule, if the change matters to the
    /// schedule.
    fn confirm(&mut self, key: Key, owner: Owner, mut child: Child) -> Option<Key> {
        let schedule = owner.key.clone();
        let family = self.families.entry(owner.clone()).or_default();
        family.unconfirmed.remove(&child.name);
        // The watch may be behind this process's own deletion of the application. A deletion is never taken back.
        let known = family.children.get(&child.name).filter(|known| known.uid == child.uid);
        child.is_going |= known.is_some_and(|known| known.is_going);
        let matters = |child: &Child| (child.is_over(), child.is_going);
        let differs = |known: &Child| (matters(known), &known.uid) != (matters(&child), &child.uid);
        let is_news = family.children.get(&child.name).is_none_or(differs);
        self.insert(key, owner, child);
        is_news.then_some(schedule)
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
    fn remove(&mut self, key: &Key) -> Option<Key> {
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
            // Nothing is kept for a schedule that does not exist: any user may create applications that refer to such a
            // schedule.
            let is_nobody_s = self.schedules.as_ref().is_some_and(|schedules| !schedules.contains(&owner));
            if family.children.is_empty() && is_nobody_s {
                self.families.remove(&owner);
            }
        }
        Some(owner.key)
    }

    fn is_unconfirmed(&self, key: &Key) -> bool {
        let family = self.owners.get(key).and_then(|owner| self.families.get(owner));
        family.is_some_and(|family| family.unconfirmed.contains(&key.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workloads;
    use kube::runtime::reflector;
    use prometheus_client::registry::Registry;
    use serde_json::{from_value, json};

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

    fn children() -> Children {
        let queue = Queue::new(Workloads::new(&mut Registry::default(), 1).schedules);
        Children::new(reflector::store().0, queue)
    }

    fn nightly() -> Owner {
        Owner { key: ("a".to_owned(), "nightly".to_owned()), uid: "of-nightly".to_owned() }
    }

    /// Once, a user who knew the uid of another tenant's schedule could keep the schedule from starting anything.
    #[test]
    fn an_application_that_names_a_schedule_of_another_namespace_is_not_its_child() {
        let children = children();
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

    /// Once, each edit of the owner left the application with its former schedule, which nothing forgot.
    #[test]
    fn an_application_belongs_to_the_schedule_that_it_names_last() {
        let children = children();
        children.forget_others(HashSet::new());
        for uid in ["1", "2", "3"] {
            children.apply(&Event::Apply(watched("a", ("nightly", uid))));
        }
        let known: Vec<_> = children.index.lock().families.keys().map(|owner| owner.uid.clone()).collect();
        assert_eq!(known, ["3"]);
    }

    #[test]
    fn nothing_is_remembered_of_schedules_that_there_are_not() {
        let children = children();
        let known = || children.index.lock().families.keys().cloned().collect::<HashSet<_>>();
        let hourly = Owner { key: ("a".to_owned(), "hourly".to_owned()), ..nightly() };
        let of = |owner: &Owner| watched(&owner.key.0, (&*owner.key.1, &*owner.uid));
        for owner in [nightly(), hourly.clone()] {
            children.apply(&Event::Apply(of(&owner)));
            children.apply(&Event::Delete(of(&owner)));
        }
        children.forget_others(HashSet::from([nightly()]));
        assert_eq!(known(), HashSet::from([nightly()]), "what was made for it is known also when it is gone");

        children.begin(hourly.clone());
        children.apply(&Event::Apply(of(&hourly)));
        children.forget(&nightly());
        // The garbage collector has not deleted the application of the deleted schedule yet.
        children.apply(&Event::Apply(of(&nightly())));
        children.apply(&Event::Delete(of(&nightly())));
        assert_eq!(known(), HashSet::from([hourly]));
    }
}
