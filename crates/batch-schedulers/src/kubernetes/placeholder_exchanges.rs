//! Exchanges the placeholders of a gang for executors, which get the room on a node that the placeholders hold.
//!
//! A placeholder holds room for the executor with its number. The executor is created with a scheduling gate, so that
//! the scheduler does not try to place it. The exchange of the two takes four steps, each of which is decided from the
//! objects that exist, so that a crash repeats at most one step:
//!
//! 1. The executor is nominated to the node of its placeholder. From then on, the scheduler reserves room there for the
//!    executor, in addition to the placeholder.
//! 2. The placeholder is deleted.
//! 3. When the placeholder no longer exists, the executor's gate is removed.
//! 4. The scheduler places the executor on the node to which it is nominated. No pod of equal or lower priority can take
//!    the room in between.
//!
//! While a node has both a nominated executor and its placeholder, the scheduler counts that room twice. Any executor
//! that it tries there finds no room and loses its nomination. So step 1 waits while another executor is to be placed on
//! the node next (steps 3 and 4), and step 3 waits while another one is between steps 1 and 3 there. An executor also
//! waits for executors of other gangs, but for each of them at most for [`PATIENCE`], since a tenant could keep one in
//! this state; and for all of them together at most for [`LONGEST_TURN`], since a tenant could add ever new ones. If it
//! then continues, an executor of another gang that the scheduler tries at the same time loses its nomination.
//!
//! An executor without a placeholder, such as the replacement of a lost executor, loses its gate at once, and every
//! executor loses it after [`LONGEST_EXCHANGE`] at the latest.

use super::{excess, is_gated, is_placeholder, nominate, nomination, ungate};
use jiff::{SignedDuration, Timestamp};
use plan::{Action, Observed, Plan, events::Event, extension::PodsOfOthers};
use pods::{Placement, PodSummary};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

/// The maximum time for which one pod of another application keeps executors waiting, from when this process first saw it
/// do so.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);
/// The maximum time for which an executor waits for executors of other gangs on the node of its placeholder, from when
/// this process first saw the waiting executor.
const LONGEST_TURN: SignedDuration = SignedDuration::from_mins(2);
/// The maximum time for which an executor waits for the room of its placeholder, from when this process first saw it.
const LONGEST_EXCHANGE: SignedDuration = SignedDuration::from_mins(3);
/// The pause before exchanges of other applications are checked again: their changes cause no event of this application.
const RECHECK: Duration = Duration::from_secs(1);

/// The nodes on which executors are taking the room of their placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanges {
    /// The nodes with an executor that is nominated, is not placed yet, and has lost its placeholder or its gate.
    pub to_be_placed: BTreeSet<String>,
    /// The nodes with a placeholder that is being deleted, or about to be.
    pub under_way: BTreeSet<String>,
}

/// A pod that makes executors wait for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    pub uid: String,
    pub node: String,
    /// `true` for an executor that is to be placed on the node next; `false` for a pod of an exchange under way there.
    pub is_to_be_placed: bool,
}

impl Blocker {
    /// Returns those pods of an application that make executors wait.
    pub fn among<'a>(pods: impl Iterator<Item = &'a PodSummary> + Clone) -> Vec<Self> {
        let placeholders = pods.clone().filter(|pod| is_placeholder(pod));
        let placeholders = placeholders.filter_map(|pod| Some((pod, pod.placement()?.node.as_ref()?)));
        let leaving = placeholders.clone().filter(|(pod, _)| pod.terminating);
        let leaving = leaving.map(|(pod, node)| Self::new(pod, node, false));
        let held = placeholders.map(|(pod, node)| (pod.executor_id, &pod.submission_id, node));
        let held: HashSet<_> = held.collect();
        let executors = pods.clone().filter(|pod| !pod.terminating && !is_placeholder(pod));
        let executors = executors.filter_map(|executor| {
            let own = executor.placement().filter(|own| own.node.is_none())?;
            // The scheduler does not try a pod that has a gate that is not the operator's.
            let node = own.nominated.as_ref().filter(|_| !own.has_other_gates)?;
            let has_placeholder = held.contains(&(executor.executor_id, &executor.submission_id, node));
            Some(Self::new(executor, node, !(is_gated(executor) && has_placeholder)))
        });
        leaving.chain(executors).collect()
    }

    fn new(pod: &PodSummary, node: &str, is_to_be_placed: bool) -> Self {
        Self { uid: pod.uid.clone(), node: node.to_owned(), is_to_be_placed }
    }
}

impl Exchanges {
    /// Returns the exchanges of an application with these pods.
    pub fn of<'a>(pods: impl Iterator<Item = &'a PodSummary> + Clone) -> Self {
        let mut exchanges = Self::default();
        Blocker::among(pods).into_iter().for_each(|blocker| exchanges.add(blocker));
        exchanges
    }

    fn add(&mut self, Blocker { node, is_to_be_placed, .. }: Blocker) {
        if is_to_be_placed { &mut self.to_be_placed } else { &mut self.under_way }.insert(node);
    }

    /// Adds exchanges that have begun and that the watch has not reported yet.
    fn add_begun(&mut self, waits: &Waits) {
        self.under_way.extend(waits.values().filter_map(|wait| wait.nominated.clone()));
    }
}

/// The operator's memory of the gated executors of one application, by their uids.
pub type Waits = BTreeMap<String, Wait>;

/// The operator's memory of a gated executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When the operator first saw the executor with its gate.
    pub since: Timestamp,
    /// The node to which the executor was nominated, if the watch has not reported that yet.
    pub nominated: Option<String>,
}

/// The operator's memory of the exchanges of all applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangeMemory {
    /// The memory of gated executors, by the uids of their applications.
    pub waits: HashMap<String, Waits>,
    /// The time at which a pod that makes executors of other applications wait was first seen, by the uid of the pod.
    pub blockers: HashMap<String, Timestamp>,
}

/// The part of the memory that a decision about an application with gated executors needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    /// The exchanges of other applications.
    pub of_others: Exchanges,
    /// The memory of the application's own gated executors.
    pub waits: Waits,
}

impl plan::extension::ExtensionMemory for ExchangeMemory {
    /// Recalls the exchanges of all other applications if this one has executors with gates: those that the caches show, and
    /// those that have begun and that no cache shows yet. Until the decision is noted, no other application may be decided
    /// about: otherwise, exchanges of two applications could begin on one node at the same time.
    fn recall(&mut self, uid: &str, seen: &mut Observed, others: &PodsOfOthers<'_>, now: Timestamp) -> bool {
        if !seen.executors.iter().any(is_gated) {
            self.waits.remove(uid);
            return false;
        }
        let mut blockers = Vec::new();
        others(&mut |pods: &[&PodSummary]| blockers.extend(Blocker::among(pods.iter().copied())));
        let own = Blocker::among(seen.executors.iter().chain(&seen.others));
        let there: HashSet<_> = own.iter().chain(&blockers).map(|blocker| &*blocker.uid).collect();
        self.blockers.retain(|uid, _| there.contains(&**uid));
        let mut of_others = Exchanges::default();
        for blocker in blockers {
            let since = *self.blockers.entry(blocker.uid.clone()).or_insert(now);
            if now.duration_since(since) < PATIENCE {
                of_others.add(blocker);
            }
        }
        for (_, waits) in self.waits.iter().filter(|(of, _)| *of != uid) {
            of_others.add_begun(waits);
        }
        let waits = self.waits.entry(uid.to_owned()).or_default();
        let gated = seen.executors.iter().filter(|pod| is_gated(pod) && !pod.terminating);
        let gated: HashMap<_, _> = gated.map(|pod| (&*pod.uid, pod)).collect();
        waits.retain(|uid, _| gated.contains_key(&**uid));
        for (uid, pod) in gated {
            let wait = waits.entry(uid.to_owned()).or_insert(Wait { since: now, nominated: None });
            // The watch has reported the nomination.
            if pod.placement().and_then(|own| own.nominated.as_ref()) == wait.nominated.as_ref() {
                wait.nominated = None;
            }
        }
        seen.recalled.push(std::sync::Arc::new(Recalled { of_others, waits: waits.clone() }));
        true
    }

    fn note(&mut self, uid: &str, actions: &[Action]) {
        let Some(waits) = self.waits.get_mut(uid) else { return };
        for (uid, node) in actions.iter().filter_map(nomination) {
            if let Some(wait) = waits.get_mut(uid) {
                wait.nominated = Some(node.to_owned());
            }
        }
    }

    fn retain(&mut self, is_kept: &dyn Fn(&str) -> bool) {
        self.waits.retain(|uid, _| is_kept(uid));
    }
}

/// The pods of an application in a gang, while its next steps are decided.
pub(crate) struct Gang<'a> {
    pub(crate) view: plan::extension::View<'a>,
    pub(crate) recalled: &'a Recalled,
}

/// The exchanges of one application, while its next steps are decided.
struct Exchanging<'a> {
    gang: &'a Gang<'a>,
    /// The placeholders that hold room, by the numbers of their executors.
    placeholders: HashMap<u64, &'a PodSummary>,
    /// The uids of the executors to which these placeholders belong, by their numbers.
    takers: HashMap<u64, &'a str>,
    own: Exchanges,
}

impl Gang<'_> {
    /// Adds the next steps for the executors of the run and its placeholders.
    pub(super) fn exchange(&self, placeholders: &[&PodSummary], plan: &mut Plan) {
        let mut own = Exchanges::of(self.view.seen.executors.iter().chain(placeholders.iter().copied()));
        own.add_begun(&self.recalled.waits);
        let holding = placeholders.iter().filter(|pod| !pod.has_ended());
        let by_number = holding.filter_map(|pod| Some((pod.executor_id?, *pod))).collect();
        let mut exchanging = Exchanging { gang: self, placeholders: by_number, takers: self.takers(), own };
        let gated = exchanging.remove_gates(plan);
        exchanging.begin(gated, plan);
        self.delete_useless(placeholders, plan);
    }

    /// Deletes the placeholders that have ended, and those whose executors do not need them any more or are never created.
    fn delete_useless(&self, placeholders: &[&PodSummary], plan: &mut Plan) {
        let executors: HashMap<_, _> = self.live_executors().map(|pod| (pod.executor_id, pod)).collect();
        // Spark gives each executor a higher number than all before: an executor with a lower number is not created later.
        let newest = self.view.seen.executors.iter().filter_map(|pod| pod.executor_id).max();
        let is_useless = |placeholder: &&&PodSummary| match executors.get(&placeholder.executor_id) {
            Some(executor) => !is_gated(executor),
            None => placeholder.executor_id <= newest,
        };
        let useless = placeholders.iter().filter(|pod| is_useless(pod) || pod.has_ended());
        plan.actions.extend(useless.filter_map(|pod| Action::delete(pod)));
    }

    /// Returns the uids of the executors to which placeholders belong, by their numbers. Spark gives each number to one
    /// executor. If several pods have the same number, the one whose exchange has begun gets the placeholder, or else the
    /// oldest: together they get the room of one executor.
    fn takers(&self) -> HashMap<u64, &str> {
        let mut gated: Vec<_> = self.gated().collect();
        // The last one of each number remains.
        gated.sort_by_key(|(pod, own)| {
            let wait = self.wait(pod).and_then(|wait| wait.nominated.as_ref());
            (own.nominated.is_some() || wait.is_some(), std::cmp::Reverse((pod.created, &pod.uid)))
        });
        gated.into_iter().filter_map(|(pod, _)| Some((pod.executor_id?, &*pod.uid))).collect()
    }

    pub(super) fn gated(&self) -> impl Iterator<Item = (&PodSummary, &Placement)> {
        self.live_executors().filter(|pod| is_gated(pod)).filter_map(|pod| Some((pod, pod.placement()?)))
    }

    fn wait(&self, executor: &PodSummary) -> Option<&Wait> {
        self.recalled.waits.get(&executor.uid)
    }

    fn live_executors(&self) -> impl Iterator<Item = &PodSummary> {
        self.view.seen.executors.iter().filter(|pod| !pod.terminating)
    }
}

impl<'a> Exchanging<'a> {
    /// Removes the gates of executors whose placeholders are gone or that have waited for too long. Returns the executors
    /// that keep their gates.
    fn remove_gates(&mut self, plan: &mut Plan) -> Vec<(&'a PodSummary, &'a Placement)> {
        let gang = self.gang;
        let mut gated = Vec::new();
        for (executor, own) in gang.gated() {
            let rest = self.rest(executor, LONGEST_EXCHANGE);
            let until_turn = self.rest(executor, LONGEST_TURN);
            let is_in = |exchanges: &Exchanges| {
                own.nominated.as_ref().is_some_and(|node| exchanges.under_way.contains(node))
            };
            let is_ready = self.placeholder_of(executor, own).is_none() && !is_in(&self.own);
            let is_its_turn = until_turn.is_none() || !is_in(&gang.recalled.of_others);
            if rest.is_none() || is_ready && is_its_turn {
                plan.events.extend(self.too_large(executor, own));
                self.own.to_be_placed.extend(own.nominated.clone());
                plan.actions.push(ungate(executor));
            } else {
                // The end of another application's exchange causes no watch event of this application.
                let soon = is_ready.then_some(RECHECK);
                plan.wake = plan.wake.into_iter().chain(rest).chain(until_turn).chain(soon).min();
                gated.push((executor, own));
            }
        }
        gated
    }

    /// Returns the time until an executor will have waited for `duration`; `None` if it has.
    fn rest(&self, executor: &PodSummary, duration: SignedDuration) -> Option<Duration> {
        let since = self.gang.wait(executor).map_or(self.gang.view.now, |wait| wait.since);
        self.gang.rest(Some(since), duration)
    }

    /// Begins the exchange of each executor whose placeholder holds room on a node where no executor is to be placed.
    fn begin(&self, gated: Vec<(&PodSummary, &Placement)>, plan: &mut Plan) {
        let others = &self.gang.recalled.of_others;
        // Nothing is reserved for an executor that also has gates that are not the operator's, until these are removed.
        for (executor, own) in gated.into_iter().filter(|(_, own)| !own.has_other_gates) {
            let placeholder = self.placeholder_of(executor, own).filter(|pod| !pod.terminating);
            let Some(placeholder) = placeholder else { continue };
            // The driver can run before a placeholder has its node.
            let Some(node) = placeholder.placement().and_then(|own| own.node.as_ref()) else { continue };
            if own.nominated.as_ref() != Some(node) {
                let is_its_turn = self.rest(executor, LONGEST_TURN).is_none();
                let is_busy = self.own.to_be_placed.contains(node)
                    || others.to_be_placed.contains(node) && !is_its_turn;
                // An exchange that has begun continues: executors that are to be placed on the node wait until it ends.
                let has_begun =
                    self.gang.wait(executor).is_some_and(|wait| wait.nominated.as_ref() == Some(node));
                if is_busy && !has_begun {
                    let soon = others.to_be_placed.contains(node).then_some(RECHECK);
                    plan.wake = plan.wake.into_iter().chain(soon).min();
                    continue;
                }
                plan.actions.push(nominate(executor, node));
            }
            plan.actions.extend(Action::delete(placeholder));
        }
    }

    /// Returns the placeholder whose room this executor can take.
    fn placeholder_of(&self, executor: &PodSummary, own: &Placement) -> Option<&'a PodSummary> {
        let number =
            executor.executor_id.filter(|number| self.takers.get(number) == Some(&&*executor.uid))?;
        let placeholder = self.placeholders.get(&number).copied();
        placeholder.filter(|pod| pod.placement().is_some_and(|held| excess(own, held).is_none()))
    }

    /// Returns the event for an executor that requests more than its placeholder holds. The executors of an application
    /// have the same requests, so the event is for the first one alone.
    fn too_large(&self, executor: &PodSummary, own: &Placement) -> Option<Event> {
        let placeholder = self.placeholders.get(&executor.executor_id.filter(|number| *number == 1)?)?;
        let excess = excess(own, placeholder.placement()?)?;
        let note = format!(
            "Executor {} requests more than its placeholder: {excess}. No room is reserved for such executors, which are placed \
             wherever there is room. State in the application what a LimitRange or a webhook adds to them",
            executor.name
        );
        Some(Event::of_pod(plan::events::Severity::Warning, "SparkExecutorTooLarge", &executor.name, note))
    }
}
