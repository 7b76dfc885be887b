//! Gives executors of a gang the room that placeholders hold for them: see `gang::kubernetes`.
//!
//! A placeholder holds room for the executor with its number. The executor is created with a scheduling gate, so that
//! the scheduler does not try it. Four steps follow, of which each is decided from what exists, so that a crash repeats
//! at most one:
//!
//! 1. The executor is nominated to the node of its placeholder. From now on, the scheduler reserves room there for it,
//!    beside the placeholder.
//! 2. The placeholder is deleted.
//! 3. When it is gone, and no other placeholder of the application is about to leave that node, whose room and whose
//!    executor the scheduler would count both, the gate is removed.
//! 4. The scheduler places the executor on the node to which it is nominated. No pod of equal or lower priority can take
//!    the room in between.
//!
//! An executor without a placeholder, such as one that replaces another, loses its gate at once.

use super::{Pass, is_followed};
use crate::{Action, Plan, gang::Seat, pod_summary::PodSummary, run::Run};
use api::{Role, State};
use jiff::SignedDuration;
use std::time::Duration;

/// How long after its driver was placed a placeholder waits for its executor. Spark creates the first executors within
/// seconds, unless it cannot.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(5);

impl Pass<'_> {
    /// Adds the actions about the placeholders and the gated executors of the application.
    pub(super) fn replace_placeholders(&self, plan: &mut Plan) {
        let live = || self.seen.placeholders.iter().filter(|pod| !pod.terminating);
        let state = plan.status.application_state.state;
        let followed = plan.status.submission_id.clone().filter(|_| is_followed(state));
        let Some(run) = followed else {
            let next = self.is_to_be_launched(state).then(|| Run::next(self.application).id);
            let is_left =
                |pod: &&PodSummary| pod.submission_id.as_deref() != next.as_ref().map(|id| id.as_str());
            plan.actions.extend(live().filter(is_left).filter_map(Self::delete_pod));
            return;
        };
        let is_of_run = |pod: &&PodSummary| pod.submission_id.as_ref() == Some(&run);
        plan.actions.extend(live().filter(|pod| !is_of_run(pod)).filter_map(Self::delete_pod));
        for executor in self.seen.executors.iter().filter(|pod| !pod.terminating) {
            let Some(seat) = executor.seat.as_ref().filter(|seat| seat.is_gated) else { continue };
            plan.actions.extend(self.seat(executor, seat));
        }
        self.give_up_waiting(&run, plan);
    }

    /// Returns the next steps for a gated executor; empty while it has to wait.
    fn seat(&self, executor: &PodSummary, seat: &Seat) -> Vec<Action> {
        let is_its = |pod: &&PodSummary| {
            pod.executor_id == executor.executor_id && pod.submission_id == executor.submission_id
        };
        let (name, uid) = (executor.name.clone(), executor.uid.clone());
        let Some(placeholder) = self.seen.placeholders.iter().find(is_its) else {
            let leaves = |pod: &&PodSummary| {
                let node = pod.seat.as_ref().and_then(|seat| seat.node.as_ref());
                pod.terminating && node.is_some() && node == seat.nominated.as_ref()
            };
            let has_to_wait = self.seen.placeholders.iter().any(|pod| leaves(&pod));
            return if has_to_wait { Vec::new() } else { vec![Action::Ungate { name, uid }] };
        };
        // The driver can run while a placeholder is still being bound.
        let Some(node) = placeholder.seat.as_ref().and_then(|seat| seat.node.clone()) else {
            return Vec::new();
        };
        let nominate =
            (seat.nominated.as_ref() != Some(&node)).then_some(Action::Nominate { name, uid, node });
        nominate.into_iter().chain(Self::delete_pod(placeholder)).collect()
    }

    /// Deletes the placeholders whose executors have not come for long.
    fn give_up_waiting(&self, run: &str, plan: &mut Plan) {
        let waiting: Vec<_> = self.seen.placeholders.iter().filter(|pod| !pod.terminating).collect();
        let driver = self.own_driver().filter(|pod| pod.is_of(Role::Driver, run));
        let Some(placed) = driver.and_then(|driver| driver.assigned).filter(|_| !waiting.is_empty()) else {
            return;
        };
        match Duration::try_from(LONGEST_WAIT - self.now.duration_since(placed)) {
            Ok(rest) if !rest.is_zero() => plan.wake = plan.wake.into_iter().chain([rest]).min(),
            _ => plan.actions.extend(waiting.into_iter().filter_map(Self::delete_pod)),
        }
    }

    /// Whether the next run may be being submitted in this state, so that its placeholders may exist.
    fn is_to_be_launched(&self, state: State) -> bool {
        matches!(state, State::New | State::PendingRerun | State::Resuming | State::SubmissionFailed)
    }
}
