//! Gives executors of a gang the room that placeholders hold for them: see `gang::kubernetes`.
//!
//! A placeholder holds room for the executor with its number. The executor is created with a scheduling gate, so that
//! the scheduler does not try it. Four steps follow, of which each is decided from what exists, so that a crash repeats
//! at most one:
//!
//! 1. The executor is nominated to the node of its placeholder. From now on, the scheduler reserves room there for it,
//!    beside the placeholder.
//! 2. The placeholder is deleted.
//! 3. When it is gone, the gate is removed.
//! 4. The scheduler places the executor on the node to which it is nominated. No pod of equal or lower priority can take
//!    the room in between.
//!
//! The scheduler must not try an executor on a node on which it counts another executor and that one's placeholder too: it
//! would find no room and forget the nomination. So step 1 waits while another executor is to be placed on the node next
//! (steps 3 and 4), and step 3 waits while another one is between steps 1 and 3 there, also one of another application.
//!
//! An executor without a placeholder, such as one that replaces another, loses its gate at once, and each loses it after
//! [`LONGEST_EXCHANGE`], whatever the cluster does.

use super::{Pass, is_followed};
use crate::{
    Action, Plan,
    gang::{self, Seat},
    pod_summary::{Phase, PodSummary},
    run::Run,
};
use api::State;
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The time that a placeholder waits for its executor, from the moment its driver was placed. Spark creates the first
/// executors within seconds after the driver has started, unless it cannot.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(10);
/// The time that an executor waits for the room of its placeholder, from its creation.
const LONGEST_EXCHANGE: SignedDuration = SignedDuration::from_mins(2);
/// The time after which a placeholder that is not there counts as lost, from the creation of its driver. A watch that
/// works reports pods earlier than that.
const LOST: SignedDuration = SignedDuration::from_secs(30);

/// The pause before another look at the exchanges of other applications, which report nothing to this one.
const A_MOMENT: Duration = Duration::from_secs(1);

/// The nodes on which executors take the room of their placeholders at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanges {
    /// Where executors are in step 4, or about to be: nothing but the gate keeps them from it.
    pub trying: BTreeSet<String>,
    /// Where executors are between steps 1 and 3.
    pub changing: BTreeSet<String>,
}

impl Exchanges {
    /// Returns the exchanges of an application with these pods.
    #[must_use]
    pub fn of<'a>(pods: impl Iterator<Item = &'a PodSummary> + Clone) -> Self {
        let placeholders = || pods.clone().filter(|pod| pod.is_placeholder());
        let mut exchanges = Self::default();
        let leaving = placeholders().filter(|pod| pod.terminating);
        exchanges.changing.extend(leaving.filter_map(|pod| seat(pod)?.node.clone()));
        for executor in pods.clone().filter(|pod| !pod.terminating) {
            let Some(own) = seat(executor).filter(|seat| !seat.is_placeholder && seat.node.is_none()) else {
                continue;
            };
            let Some(node) = own.nominated.clone() else { continue };
            let is_its = |pod: &PodSummary| {
                (pod.executor_id, &pod.submission_id) == (executor.executor_id, &executor.submission_id)
            };
            let mut placeholders = placeholders().filter(|pod| is_its(pod)).filter_map(seat);
            let has_placeholder = placeholders.any(|seat| seat.node.as_ref() == Some(&node));
            let nodes =
                if own.is_gated && has_placeholder { &mut exchanges.changing } else { &mut exchanges.trying };
            nodes.insert(node);
        }
        exchanges
    }

    /// Adds exchanges that have begun and that the watch has not reported yet.
    pub fn add_begun(&mut self, nominations: &Nominations) {
        self.changing.extend(nominations.0.values().cloned());
    }

    /// Adds the exchanges of another application.
    pub fn extend(&mut self, other: &Self) {
        self.trying.extend(other.trying.iter().cloned());
        self.changing.extend(other.changing.iter().cloned());
    }
}

/// The nominations that were decided for an application and that the watch has not reported yet: the nodes, by the uids
/// of the executors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nominations(pub BTreeMap<String, String>);

impl Nominations {
    /// Forgets those that the watch has reported, and those of executors that do not need them any more.
    pub fn forget_reported(&mut self, executors: &[PodSummary]) {
        self.0.retain(|uid, node| {
            let mut gated = executors.iter().filter(|pod| pod.is_gated() && !pod.terminating);
            let executor = gated.find(|pod| pod.uid == *uid).and_then(seat);
            executor.is_some_and(|seat| seat.nominated.as_ref() != Some(node))
        });
    }

    /// Adds the nominations among `actions`.
    pub fn add(&mut self, actions: &[Action]) {
        for action in actions {
            if let Action::Nominate { uid, node, .. } = action {
                self.0.insert(uid.clone(), node.clone());
            }
        }
    }
}

impl Pass<'_> {
    /// Adds the actions about the placeholders and the gated executors of the application.
    pub(super) fn replace_placeholders(&self, plan: &mut Plan) {
        let state = plan.status.application_state.state;
        let has_gated = self.seen.executors.iter().any(PodSummary::is_gated);
        // A run whose placeholders are all lost has only a driver that waits, in a group.
        let is_grouped = self.own_driver().is_some_and(|driver| driver.group.is_some());
        if self.seen.placeholders.is_empty() && !has_gated && !is_grouped {
            return;
        }
        let Some(run) = plan.status.submission_id.clone().filter(|_| is_followed(state)) else {
            let next = self.is_to_be_launched(state).then(|| Run::next(self.application).id);
            let is_of_next = |pod: &&PodSummary| {
                next.as_ref().is_some_and(|id| pod.submission_id.as_deref() == Some(id.as_str()))
            };
            plan.actions
                .extend(self.placeholders().filter(|pod| !is_of_next(pod)).filter_map(Self::delete_pod));
            // An executor with the gate would never start, and never end.
            let gated = self.seen.executors.iter().filter(|pod| pod.is_gated());
            plan.actions.extend(gated.filter_map(Self::delete_pod));
            return;
        };
        let is_of_run = |pod: &&PodSummary| pod.submission_id.as_ref() == Some(&run);
        plan.actions.extend(self.placeholders().filter(|pod| !is_of_run(pod)).filter_map(Self::delete_pod));
        let placeholders: Vec<_> = self.placeholders().filter(is_of_run).collect();
        self.exchange(&placeholders, plan);
        self.give_up_waiting(&placeholders, plan);
        self.replace_lost(&run, plan);
    }

    /// Returns the application's placeholders, of all runs.
    pub(super) fn placeholders(&self) -> impl Iterator<Item = &PodSummary> {
        self.seen.placeholders.iter().filter(|pod| pod.is_controlled_by(self.uid()))
    }

    /// Adds the next steps for the executors of the run and its placeholders.
    fn exchange(&self, placeholders: &[&PodSummary], plan: &mut Plan) {
        let executors = || self.seen.executors.iter().filter(|pod| !pod.terminating);
        let gated = || executors().filter(|pod| pod.is_gated());
        let its = |executor: &PodSummary| {
            placeholders.iter().copied().find(|pod| pod.executor_id == executor.executor_id)
        };
        let mut own = Exchanges::of(self.seen.executors.iter().chain(placeholders.iter().copied()));
        own.add_begun(&self.seen.nominations);
        let elsewhere = &self.seen.elsewhere;
        let mut trying: BTreeSet<_> = own.trying.iter().chain(&elsewhere.trying).collect();

        for executor in gated() {
            let Some(seat) = seat(executor) else { continue };
            let (is_overdue, rest) = self.elapsed(executor.created, LONGEST_EXCHANGE);
            let is_in =
                |nodes: &BTreeSet<String>| seat.nominated.as_ref().is_some_and(|node| nodes.contains(node));
            let is_ready = its(executor).is_none() && !is_in(&own.changing);
            if is_overdue || is_ready && !is_in(&elsewhere.changing) {
                trying.extend(&seat.nominated);
                plan.actions.push(Action::Ungate { name: executor.name.clone(), uid: executor.uid.clone() });
            } else {
                // Nothing tells this application that another one is done.
                let soon = is_ready.then_some(A_MOMENT);
                plan.wake = plan.wake.into_iter().chain(rest).chain(soon).min();
            }
        }
        for executor in gated() {
            let Some(placeholder) = its(executor).filter(|pod| !pod.terminating) else { continue };
            // The driver can run while a placeholder is still being bound.
            let Some(node) = seat(placeholder).and_then(|seat| seat.node.as_ref()) else { continue };
            if seat(executor).and_then(|seat| seat.nominated.as_ref()) != Some(node) {
                // An exchange that has begun goes on: those that wait to be placed wait for its end.
                let has_begun = self.seen.nominations.0.get(&executor.uid) == Some(node);
                if trying.contains(node) && !has_begun {
                    let soon = elsewhere.trying.contains(node).then_some(A_MOMENT);
                    plan.wake = plan.wake.into_iter().chain(soon).min();
                    continue;
                }
                let (name, uid) = (executor.name.clone(), executor.uid.clone());
                plan.actions.push(Action::Nominate { name, uid, node: node.clone() });
            }
            plan.actions.extend(Self::delete_pod(placeholder));
        }
        // Spark gives each executor a higher number than all before, so that one that is missing does not come any more.
        let newest = self.seen.executors.iter().filter_map(|pod| pod.executor_id).max();
        let is_useless = |placeholder: &&&PodSummary| {
            let mut same = executors().filter(|pod| pod.executor_id == placeholder.executor_id);
            match same.next() {
                Some(executor) => !executor.is_gated(),
                None => placeholder.executor_id <= newest,
            }
        };
        plan.actions.extend(placeholders.iter().filter(is_useless).filter_map(|pod| Self::delete_pod(pod)));
    }

    /// Deletes the placeholders whose executors have not been created in time.
    fn give_up_waiting(&self, placeholders: &[&PodSummary], plan: &mut Plan) {
        let waiting: Vec<_> = placeholders.iter().filter(|pod| !pod.terminating).collect();
        let Some(placed) = self.own_driver().and_then(|driver| driver.assigned) else { return };
        if waiting.is_empty() {
            return;
        }
        match self.elapsed(Some(placed), LONGEST_WAIT) {
            (true, _) => plan.actions.extend(waiting.into_iter().filter_map(|pod| Self::delete_pod(pod))),
            (false, rest) => plan.wake = plan.wake.into_iter().chain(rest).min(),
        }
    }

    /// Creates placeholders again that somebody has deleted before the gang was placed: without them, it never would be.
    fn replace_lost(&self, run: &str, plan: &mut Plan) {
        let Some(driver) = self.own_driver() else { return };
        if driver.phase != Phase::Pending || driver.assigned.is_some() || driver.terminating {
            return;
        }
        let mut lost = gang::placeholders(self.application, run, driver, self.policy);
        lost.retain(|object| {
            self.seen.placeholders.iter().all(|pod| object["metadata"]["name"] != *pod.name)
        });
        if lost.is_empty() {
            return;
        }
        match self.elapsed(driver.created, LOST) {
            (true, _) => plan.actions.push(Action::Make(lost)),
            (false, rest) => plan.wake = plan.wake.into_iter().chain(rest).min(),
        }
    }

    /// Returns whether `duration` has elapsed since `then`, and how long it takes until it has. An unknown time is long
    /// ago.
    fn elapsed(&self, then: Option<Timestamp>, duration: SignedDuration) -> (bool, Option<Duration>) {
        let rest = then.map_or(SignedDuration::ZERO, |then| duration - self.now.duration_since(then));
        let rest = Duration::try_from(rest).ok().filter(|rest| !rest.is_zero());
        (rest.is_none(), rest)
    }

    /// Whether the next run may be being submitted in this state, so that its placeholders may exist.
    fn is_to_be_launched(&self, state: State) -> bool {
        matches!(state, State::New | State::PendingRerun | State::Resuming | State::SubmissionFailed)
    }
}

fn seat(pod: &PodSummary) -> Option<&Seat> {
    pod.seat.as_deref()
}
