//! Handles SUSPENDING and SUSPENDED: no pod of the application runs while `spec.suspend` is true.

use super::{Cause, EVENTUALLY, Edit, Pass, SOON, has_ended, history, launch::reset};
use crate::{Action, Driver, Plan, events, extension::AT_ONCE};
use api::{ExecutorState, SparkApplicationStatus, State, label};
use kube_core::ResourceExt;

/// Whether the run is recorded as suspended and its pods are being deleted while the state is still RUNNING: see
/// [`Pass::suspend`].
pub(super) fn is_leaving(status: &SparkApplicationStatus) -> bool {
    let run = history::run(status, status.run_ordinal.unwrap_or_default());
    status.application_state.state == State::Running
        && run.is_some_and(|run| run.state == Some(State::Suspended))
}

impl Pass<'_> {
    /// Whether the application waits in a queue of Kueue, or has quota from there.
    pub(super) fn is_queued(&self) -> bool {
        self.application.labels().contains_key(label::QUEUE_NAME)
    }

    /// Whether a suspension begins or continues. An application that has ended has nothing to suspend. If the run has
    /// succeeded and no other run is to follow, the success is recorded instead: otherwise the run would be repeated
    /// after the suspension.
    pub(super) fn is_to_be_suspended(&self, state: State) -> bool {
        let is_over =
            matches!(state, State::Completed | State::Failed | State::Suspended | State::Suspending);
        let has_succeeded = state == State::Succeeding && self.retry_of_success().is_none()
            || state.is_followed() && self.has_succeeded();
        let runs = !is_over && (self.edit == Edit::Material || !has_succeeded);
        self.application.spec.suspend == Some(true) && runs || is_leaving(&self.status)
    }

    /// Whether the driver of the recorded run has succeeded, also if its pod does not exist any more.
    fn has_succeeded(&self) -> bool {
        let driver = self.seen.driver.pod().or(self.seen.departed.as_deref());
        let own = driver.filter(|pod| !self.is_of_another(pod));
        own.is_some_and(|pod| has_ended(self.application, pod) && pod.state() == ExecutorState::Completed)
    }

    /// Begins a suspension, which is completed even if the application is resumed meanwhile. The state of an
    /// application in a queue of Kueue stays RUNNING while it has pods: Kueue gives the quota to another application as
    /// soon as the state is not RUNNING (`IsActive` of its integration), and both would run at the same time. Its pods
    /// are deleted only after the run is recorded as suspended: otherwise the driver would count as failed if the
    /// application is resumed meanwhile.
    pub(super) fn suspend(&self) -> Plan {
        let is_leaving = is_leaving(&self.status);
        let begins = (!is_leaving).then(|| events::application_suspending(self.name()));
        let pods: Vec<_> = self.driver().into_iter().chain(&self.seen.executors).collect();
        let has_pods = !pods.is_empty() || self.seen.driver == Driver::Unseen;
        let is_running = has_pods && self.is_queued() && self.application.state() == State::Running;
        let why = is_running.then(|| "Suspending: its pods are being deleted".to_owned());
        let mut status = self.moved(if is_running { State::Running } else { State::Suspending }, why);
        let left = pods.into_iter().filter(|_| is_running && is_leaving);
        let actions = left.filter_map(Action::delete).take(AT_ONCE).collect();
        self.end_early(&mut status, history::outcome(State::Suspended, "Suspended", None));
        Plan { actions, ..self.plan(status, Vec::from_iter(begins), Some(SOON)) }
    }

    /// Moves the application to SUSPENDED only when none of its pods runs any more: a queue such as Kueue may then give
    /// the resources of this application to another application.
    pub(super) fn finish_suspending(&self) -> Plan {
        if let Some(plan) = self.clear() {
            return plan;
        }
        let mut status = self.status.clone();
        reset(&mut status, State::Suspended);
        let event = events::application_suspended(self.name());
        Plan { actions: self.clean_up(), ..self.plan(status, vec![event], Some(EVENTUALLY)) }
    }

    pub(super) fn stay_suspended(&self) -> Plan {
        if self.application.spec.suspend != Some(true) {
            let mut status = self.moved(State::Resuming, None);
            Self::announce(&mut status, Cause::Resumed);
            return self.plan(status, vec![events::application_resuming(self.name())], Some(SOON));
        }
        // A submission that was still running when the application was suspended may have created a driver since.
        let late = self.driver().and_then(Action::delete);
        Plan { actions: Vec::from_iter(late), ..self.stay(Some(EVENTUALLY)) }
    }
}
