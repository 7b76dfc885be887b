//! Which applications has each schedule made? An index of them by owner, fed by the watch of applications.

use super::{super::Watched, ScheduleRef};
use crate::{
    api::{SparkApplication, State},
    plan::schedule::Child,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{ResourceExt, runtime::watcher::Event};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard},
};
use tokio::sync::mpsc;

/// Namespace and name of an application.
type Key = (String, String);

/// What each schedule has made, as far as the watch and our own writes tell.
pub(in crate::controller) struct Children {
    index: Mutex<Index>,
    /// Who hears of schedules whose applications have changed in what matters to them.
    changed: mpsc::UnboundedSender<ScheduleRef>,
}

#[derive(Default)]
struct Index {
    /// By the schedule's uid.
    families: HashMap<String, Family>,
    /// The schedule of each application: its uid and name.
    owners: HashMap<Key, (String, String)>,
    /// What a list that is not complete yet has named.
    listed: BTreeSet<Key>,
}

#[derive(Clone, Default)]
struct Family {
    children: BTreeMap<String, Child>,
    /// Of those that we have made, the ones of which the watch has not told yet.
    unconfirmed: BTreeSet<String>,
    /// Names of those that we may have made: nobody answered.
    doubted: BTreeSet<String>,
    /// Names of those that are being made just now: whoever makes them knows of them.
    expected: BTreeSet<String>,
    /// The latest by slot, and by trigger: that they were made is known also when they are gone.
    latest: Option<Child>,
    triggered: Option<Child>,
}

impl Children {
    pub(in crate::controller) fn new(changed: mpsc::UnboundedSender<ScheduleRef>) -> Self {
        Self { index: Mutex::default(), changed }
    }

    /// The applications of the schedule with this uid; and the latest of those that are gone.
    pub(super) fn of(&self, uid: &str) -> (Vec<Child>, Vec<Child>) {
        let family = self.locked().families.get(uid).cloned().unwrap_or_default();
        let latest = [family.latest, family.triggered].into_iter().flatten();
        let departed = latest.filter(|child| !family.children.contains_key(&child.name)).collect();
        (family.children.into_values().collect(), departed)
    }

    /// The names of those that we have made and the watch has not told of.
    pub(super) fn unconfirmed(&self, uid: &str) -> BTreeSet<String> {
        self.locked().families.get(uid).map(|family| family.unconfirmed.clone()).unwrap_or_default()
    }

    /// This one is about to be made.
    pub(super) fn expect(&self, uid: &str, name: &str) {
        self.locked().families.entry(uid.to_owned()).or_default().expected.insert(name.to_owned());
    }

    /// It was made, or it was not.
    pub(super) fn expect_no_more(&self, uid: &str, name: &str) {
        if let Some(family) = self.locked().families.get_mut(uid) {
            family.expected.remove(name);
        }
    }

    /// Whether this one was made nobody knows: the API server has not answered.
    pub(super) fn doubt(&self, uid: &str, name: &str) {
        self.locked().families.entry(uid.to_owned()).or_default().doubted.insert(name.to_owned());
    }

    /// The names of those.
    pub(super) fn doubted(&self, uid: &str) -> BTreeSet<String> {
        self.locked().families.get(uid).map(|family| family.doubted.clone()).unwrap_or_default()
    }

    /// Now somebody does.
    pub(super) fn believe(&self, uid: &str, name: &str) {
        if let Some(family) = self.locked().families.get_mut(uid) {
            family.doubted.remove(name);
        }
    }

    /// We have made this one.
    pub(super) fn add(&self, application: &SparkApplication) {
        if let Some((owner, child)) = Child::of(&application.metadata, application.state()) {
            let mut index = self.locked();
            let family = index.families.entry(owner.uid.clone()).or_default();
            // The watch may have told of it already, and of what has become of it.
            if family.children.get(&child.name).is_none_or(|known| known.uid != child.uid) {
                family.unconfirmed.insert(child.name.clone());
                index.insert(key(application), owner, child);
            }
        }
    }

    /// We have deleted this one: it goes, if it is not gone.
    pub(super) fn goes(&self, uid: &str, name: &str, child_uid: &str) {
        let mut index = self.locked();
        let child = index.families.get_mut(uid).and_then(|family| family.children.get_mut(name));
        if let Some(child) = child.filter(|child| child.uid == child_uid) {
            child.is_going = true;
        }
    }

    /// There is no such application, whatever we have heard.
    pub(super) fn remove(&self, namespace: &str, name: &str) {
        self.locked().remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// There is no such schedule any more.
    pub(super) fn forget(&self, uid: &str) {
        let mut index = self.locked();
        index.families.remove(uid);
        index.owners.retain(|_, (owner, _)| owner != uid);
    }

    /// Takes in what the watch of applications tells.
    pub(in crate::controller) fn apply(&self, event: &Event<Watched>) {
        let mut index = self.locked();
        let changed = match event {
            Event::Init => {
                index.listed.clear();
                Vec::new()
            }
            Event::InitApply(application) | Event::Apply(application) => {
                let key = key(application);
                if matches!(event, Event::InitApply(_)) {
                    index.listed.insert(key.clone());
                }
                // What cannot be read has not ended, for all that we know.
                let (metadata, state) = match &application.0 {
                    Ok(application) => (&application.metadata, application.state()),
                    Err(invalid) => (&invalid.metadata, State::Unknown),
                };
                match Child::of(metadata, state) {
                    Some((owner, child)) => index.confirm(key, owner, child).into_iter().collect(),
                    None => index.remove(&key).into_iter().collect(),
                }
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut index.listed);
                let gone: Vec<_> = index
                    .owners
                    .keys()
                    .filter(|key| !listed.contains(*key) && !index.is_unconfirmed(key))
                    .cloned()
                    .collect();
                gone.iter().filter_map(|key| index.remove(key)).collect()
            }
            Event::Delete(application) => index.remove(&key(application)).into_iter().collect(),
        };
        drop(index);
        for schedule in changed {
            // Nobody listens any more when the process is about to end.
            self.changed.send(schedule).ok();
        }
    }

    fn locked(&self) -> MutexGuard<'_, Index> {
        self.index.lock().expect("no code panics while it holds this lock")
    }
}

impl Index {
    /// The schedule, if it matters to it.
    fn confirm(&mut self, key: Key, owner: &OwnerReference, mut child: Child) -> Option<ScheduleRef> {
        let schedule = ScheduleRef::new(&owner.name).within(&key.0);
        let family = self.families.entry(owner.uid.clone()).or_default();
        family.unconfirmed.remove(&child.name);
        // The watch may be behind our own deletion, which nobody takes back.
        let known = family.children.get(&child.name).filter(|known| known.uid == child.uid);
        child.is_going |= known.is_some_and(|known| known.is_going);
        let matters = |child: &Child| (child.is_over(), child.is_going);
        let is_news = match family.children.get(&child.name) {
            Some(known) => (matters(known), &known.uid) != (matters(&child), &child.uid),
            None => !family.expected.contains(&child.name) || matters(&child) != (false, false),
        };
        self.insert(key, owner, child);
        is_news.then_some(schedule)
    }

    fn insert(&mut self, key: Key, owner: &OwnerReference, child: Child) {
        let family = self.families.entry(owner.uid.clone()).or_default();
        if child.slot.is_some() && family.latest.as_ref().is_none_or(|latest| latest.slot <= child.slot) {
            family.latest = Some(child.clone());
        }
        let is_later = |triggered: &Child| triggered.created <= child.created;
        if child.trigger.is_some() && family.triggered.as_ref().is_none_or(is_later) {
            family.triggered = Some(child.clone());
        }
        family.children.insert(child.name.clone(), child);
        self.owners.insert(key, (owner.uid.clone(), owner.name.clone()));
    }

    /// The schedule that has lost the application, if one has.
    fn remove(&mut self, key: &Key) -> Option<ScheduleRef> {
        let (uid, schedule) = self.owners.remove(key)?;
        if let Some(family) = self.families.get_mut(&uid) {
            family.children.remove(&key.1);
            family.unconfirmed.remove(&key.1);
        }
        Some(ScheduleRef::new(&schedule).within(&key.0))
    }

    fn is_unconfirmed(&self, key: &Key) -> bool {
        let family = self.owners.get(key).and_then(|(uid, _)| self.families.get(uid));
        family.is_some_and(|family| family.unconfirmed.contains(&key.1))
    }
}

fn key(application: &impl ResourceExt) -> Key {
    (application.namespace().unwrap_or_default(), application.name_any())
}
