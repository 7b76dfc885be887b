//! Handles SUBMITTED, RUNNING and UNKNOWN: the state of the application follows the state of its driver.

use super::{EVENTUALLY, Pass, SOON, driver_name, has_ended, history, restart};
use crate::{Action, Driver, Plan, auxiliary, between, driver, events, executor_trial, executors};
use api::{ApplicationState, ExecutorState, RestartPolicyType, Role, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pods::PodSummary;

impl Pass<'_> {
    pub(super) fn follow_driver(&self) -> Plan {
        let submission_id = self.status.submission_id.as_deref().unwrap_or_default();
        match &self.seen.driver {
            Driver::Unseen => self.stay(Some(SOON)),
            Driver::Pod { pod, .. } if pod.is_of(Role::Driver, submission_id) && !self.is_of_another(pod) => {
                self.driver_seen(pod)
            }
            Driver::Pod { .. } | Driver::Gone => self.driver_gone(),
        }
    }

    fn driver_seen(&self, pod: &PodSummary) -> Plan {
        let name = &pod.name;
        let (state, message, event) = match pod.state() {
            ExecutorState::Pending => {
                let why = self.waiting(pod);
                let suffix = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
                (State::Submitted, why, events::driver_pending(name, suffix))
            }
            ExecutorState::Running => (State::Running, None, events::driver_running(name)),
            ExecutorState::Completed => (State::Succeeding, None, events::driver_completed(name)),
            ExecutorState::Failed => {
                let why = driver::failure(pod);
                let event = events::driver_failed(name, &why);
                (State::Failing, Some(why), event)
            }
            // The node may come back. If it does not, Kubernetes deletes the pod, and the watch reports the deletion.
            ExecutorState::Unknown => (State::Unknown, pod.message.clone(), events::driver_unknown(name)),
        };
        let mut status = self.status.clone();
        let of_executors = executors::spark_application_id(&self.seen.executors);
        let known = of_executors.or_else(|| pod.spark_application_id.clone());
        status.spark_application_id = known.or(status.spark_application_id);
        status.driver_info.pod_name = Some(name.clone());
        let before = &self.status.application_state;
        let is_news = state != before.state || first_word(&message) != first_word(&before.error_message);
        let mut news = Vec::from_iter(is_news.then_some(event));
        let has_ended = matches!(state, State::Succeeding | State::Failing);
        if has_ended {
            status.termination_time = Some(Time(self.now));
            let outcome = if state == State::Succeeding { State::Completed } else { State::Failed };
            Self::ended(&mut status, history::outcome_of_driver(outcome, pod, message.clone()), self.now);
            if self.application.spec.restart_policy.restart_type == RestartPolicyType::Always {
                let pause = restart::back_off(&status);
                news.extend(pause.map(|pause| events::restart_backs_off(self.name(), pause.as_secs())));
            }
        } else {
            self.note_ui(&mut status);
        }
        status.application_state = ApplicationState { state, error_message: message };
        let wake = match state {
            State::Succeeding | State::Failing => SOON,
            // Kubernetes reports a volume that cannot be mounted, or a network without an address, only by an event, so
            // the operator has to look for that event after a while.
            State::Submitted => driver::until_next_lookup(pod, self.now).unwrap_or(EVENTUALLY),
            _ => EVENTUALLY,
        };
        let is_alone = !has_ended && self.seen.executors.is_empty() && self.policy.tries_executors;
        let next_trial = executor_trial::until_next(pod, self.now).filter(|_| is_alone);
        let mut plan = self.with_executors(status, news, next_trial.into_iter().chain([wake]).min());
        if !has_ended
            && !self.seen.made
            && let Some(budget) = auxiliary::budget(self.application, name, self.policy)
        {
            plan.actions.push(Action::Make(vec![budget]));
            // The API server may refuse the budget as long as the run lasts, so the pauses grow.
            let again = driver::age(pod, self.now).clamp(SOON, EVENTUALLY);
            plan.wake = plan.wake.into_iter().chain([again]).min();
        }
        plan
    }

    /// Returns the reason why a driver is not running yet.
    fn waiting(&self, pod: &PodSummary) -> Option<String> {
        let extensions = self.policy.extensions.iter();
        let added = extensions.filter_map(|extension| extension.waits_for(pod, self.seen));
        let why: Vec<_> = pod.waiting_for().into_iter().chain(added).collect();
        if why.is_empty() { self.seen.start_failure.clone() } else { Some(why.join("; ")) }
    }

    /// Whether an object other than the application controls `pod`. Kubeflow's operator creates drivers without a
    /// controller if its webhook is off.
    pub(super) fn is_of_another(&self, pod: &PodSummary) -> bool {
        pod.controller.is_some() && !pod.is_controlled_by(self.uid())
    }

    fn driver_gone(&self) -> Plan {
        // Its labels alone prove nothing: anybody who may create pods can write any labels.
        let departed = self.seen.departed.as_deref();
        let departed = departed.filter(|pod| pod.name == driver_name(self) && !self.is_of_another(pod));
        if let Some(pod) = departed.filter(|pod| has_ended(self.application, pod)) {
            return self.driver_seen(pod);
        }
        if self.status.application_state.state == State::Submitted {
            let submitted = self.status.last_submission_attempt_time.as_ref().map_or(self.now, |time| time.0);
            let rest = self.policy.driver_creation_grace.checked_sub(between(submitted, self.now));
            if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
                return self.stay(Some(rest));
            }
        }
        let why = departed.and_then(|pod| pod.message.as_ref());
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let message = format!("driver pod not found{why}");
        let mut status = self.moved(State::Failing, Some(message.clone()));
        status.termination_time = Some(Time(self.now));
        // The driver has disappeared before the operator saw how it ended.
        let outcome = history::outcome(State::Failed, "DriverOutcomeUnknown", Some(message));
        Self::ended(&mut status, outcome, self.now);
        self.with_executors(status, vec![events::driver_not_found(driver_name(self))], Some(SOON))
    }
}

/// Returns the first word of the reason why a driver waits. The text after that word changes often, so that a change of
/// it is not worth an event.
fn first_word(message: &Option<String>) -> Option<&str> {
    message.as_deref().and_then(|message| message.split(':').next())
}
