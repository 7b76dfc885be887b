//! SUCCEEDING, FAILING, COMPLETED, FAILED and INVALIDATING: a run is over. Decides whether another run follows.

use super::{
    Pass, SOON, driver_name,
    history::{self, Cause, Outcome},
    launch::reset,
    restart::{self, Retry},
};
use crate::{
    Action, Driver, Plan, children,
    events::{self, Event},
    monitoring,
    pod_record::Phase,
    run::Run,
    submission, submission_pod,
};
use api::{ApplicationState, RestartPolicyType, Role, SparkApplicationStatus, State};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use spark_client::{self, Child};
use std::time::Duration;

impl Pass<'_> {
    pub(super) fn after_success(&self) -> Plan {
        if self.application.spec.restart_policy.restart_type == RestartPolicyType::Always {
            return self.run_again(Cause::RestartAlways);
        }
        self.end(State::Completed, events::application_completed(self.name()))
    }

    pub(super) fn after_failure(&self) -> Plan {
        match restart::of_run(&self.application.spec, &self.status, self.now) {
            Retry::Never => self.fail(),
            Retry::In(pause) if pause.is_zero() => self.run_again(Cause::FailureRetry),
            Retry::In(pause) => self.with_executors(self.status.clone(), Vec::new(), Some(pause)),
        }
    }

    pub(super) fn fail(&self) -> Plan {
        let why = self.status.application_state.error_message.as_deref().unwrap_or_default();
        self.end(State::Failed, events::application_failed(self.name(), why))
    }

    /// Into a terminal state: the one place that does it, so that none lacks its time.
    fn end(&self, state: State, event: Event) -> Plan {
        let mut status = self.status.clone();
        status.application_state.state = state;
        status.termination_time.get_or_insert(Time(self.now));
        children::note_end(self.application, &mut status, self.policy);
        let wake = match self.rest_of_life(&status) {
            Life::Unlimited => None,
            Life::For(rest) => Some(rest),
            Life::Over => Some(SOON),
        };
        Plan { actions: self.clean_up(), ..self.with_executors(status, vec![event], wake) }
    }

    /// COMPLETED and FAILED, until the application is edited, is to run again or has lived long enough.
    pub(super) fn rest(&self) -> Plan {
        if self.rerun_asked_for().is_some_and(|asked| self.status.last_rerun.as_ref() != Some(asked)) {
            return self.run_again(Cause::RerunRequested);
        }
        let mut status = self.status.clone();
        // KF leaves some without. It ended when it was last heard of.
        let last_heard_of = || status.last_submission_attempt_time.clone().unwrap_or(Time(self.now));
        if status.termination_time.is_none() {
            status.termination_time = Some(last_heard_of());
        }
        children::note_end(self.application, &mut status, self.policy);
        let plan = match self.rest_of_life(&status) {
            Life::Unlimited => self.with_executors(status, Vec::new(), None),
            Life::For(rest) => self.with_executors(status, Vec::new(), Some(rest)),
            Life::Over => return self.acting(vec![Action::DeleteApplication]),
        };
        Plan { actions: self.without_late_driver(), ..plan }
    }

    /// Deletes a driver that was made late, by a submission pod on a node that was lost or by an operator before this one: of an
    /// earlier run it goes while it lives; of the last one, whose submission has failed, with what belongs to it.
    fn without_late_driver(&self) -> Vec<Action> {
        let recorded = self.status.submission_id.as_deref().unwrap_or_default();
        if let Some(earlier) = self.own_driver().filter(|driver| !driver.is_of(Role::Driver, recorded)) {
            let lives = !matches!(earlier.phase, Phase::Succeeded | Phase::Failed);
            return Some(earlier).filter(|_| lives).and_then(Self::delete_pod).into_iter().collect();
        }
        let run = history::run(&self.status, self.status.run_ordinal.unwrap_or_default());
        let has_none = run.is_some_and(|run| run.state == Some(State::SubmissionFailed));
        let late = self.own_driver().filter(|_| has_none).and_then(Self::delete_pod);
        late.map_or_else(Vec::new, |delete| [delete].into_iter().chain(self.clean_up()).collect())
    }

    /// How long an application that has ended still lives: `spec.timeToLiveSeconds`, else what the admin says.
    fn rest_of_life(&self, status: &SparkApplicationStatus) -> Life {
        let own = self.application.spec.time_to_live_seconds;
        let Some(ttl) = own.or(self.policy.default_time_to_live_seconds) else { return Life::Unlimited };
        let ended = status.termination_time.as_ref().map_or(self.now, |time| time.0);
        // What is deleted is lost, and a clock that is put ahead would delete everything that has ended. So it has to be
        // old by the API server's clock as well.
        let now = self.seen.server_time.map_or(self.now, |server| server.min(self.now));
        let ttl = SignedDuration::from_secs(ttl.max(0));
        let rest = Duration::try_from(ttl.saturating_sub(now.duration_since(ended)));
        // Strictly longer, as KF.
        rest.map_or(Life::Over, |rest| Life::For(rest + Duration::from_millis(1)))
    }

    /// Into PENDING_RERUN; what belongs to the run that is over goes.
    fn run_again(&self, cause: Cause) -> Plan {
        let mut status = self.status.clone();
        if cause == Cause::RerunRequested {
            status.last_rerun = self.rerun_asked_for().cloned();
            status.execution_attempts = 0;
            status.submission_attempts = 0;
        }
        let driver = self.own_driver().and_then(Self::delete_pod);
        Plan {
            actions: driver.into_iter().chain(self.clean_up()).collect(),
            ..self.pending_rerun(status, cause)
        }
    }

    fn pending_rerun(&self, mut status: SparkApplicationStatus, cause: Cause) -> Plan {
        reset(&mut status);
        Self::announce(&mut status, cause);
        status.application_state = ApplicationState { state: State::PendingRerun, error_message: None };
        self.plan(
            status,
            vec![events::application_pending_rerun(self.name(), &cause.to_string())],
            Some(SOON),
        )
    }

    /// The spec was edited: whatever there is of the run that was made from the old one goes, and the new one runs.
    pub(super) fn invalidate(&self) -> Plan {
        let mut status = self.moved(State::Invalidating, None);
        self.end_early(&mut status, Outcome::new(State::Invalidating, "SpecEdited", None));
        self.plan(status, vec![events::spec_edited(self.name())], Some(SOON))
    }

    pub(super) fn finish_invalidating(&self) -> Plan {
        match self.clear() {
            Some(actions) => self.acting(actions),
            None => Plan {
                actions: self.clean_up(),
                ..self.pending_rerun(self.status.clone(), Cause::SpecEdited)
            },
        }
    }

    /// What still has to be done until nothing of this application runs any more, or None.
    pub(super) fn clear(&self) -> Option<Vec<Action>> {
        if self.is_submitting() {
            return Some(vec![Action::StopSubmission]);
        }
        let strays = self.strays(None);
        let driver = self.own_driver();
        if driver.is_none() && strays.is_empty() && self.seen.driver != Driver::Unseen {
            return None;
        }
        Some(driver.and_then(Self::delete_pod).into_iter().chain(Self::delete_strays(&strays)).collect())
    }

    /// What the run that is over has left beside its pods.
    pub(super) fn clean_up(&self) -> Vec<Action> {
        let beside = children::possible(&driver_name(self), self.policy);
        let beside = (!beside.is_empty()).then_some(Action::DeleteChildren(beside));
        beside.into_iter().chain(self.leftovers()).collect()
    }

    fn leftovers(&self) -> Option<Action> {
        let run = Run::recorded(self.application)?;
        let monitoring = monitoring::possible_child(self.application);
        let driver = match &self.seen.driver {
            Driver::Pod { pod, .. } => Some(pod),
            Driver::Unseen | Driver::Gone => self.seen.departed.as_ref(),
        };
        let driver = driver.filter(|pod| pod.is_of(Role::Driver, run.id.as_str())).map(|pod| &**pod);
        let around = &self.seen.surroundings;
        let mut children = submission::children(self.application, &run, self.policy, around, driver);
        if matches!(self.application.state(), State::Invalidating | State::Suspending) {
            // The spec that the run was made from may not be there to ask any more.
            let possible = spark_client::possible_children(self.name(), &run.ids());
            let files = submission_pod::config_map(&submission_pod::name(self.application, &run));
            let possible = possible.into_iter().chain([monitoring.clone(), files]);
            let others = possible.filter(|child| !children.contains(child)).collect::<Vec<_>>();
            children.extend(others);
        }
        let made = |config_map: &String| children.iter().any(|child: &Child| child.name == *config_map);
        // Those of spark-submit go with the driver's pod, which owns them. Ours is what was made before it.
        let is_ours = match &self.seen.driver {
            Driver::Pod { pod, .. } => pod.driver_config_map.as_ref().is_none_or(made),
            Driver::Unseen | Driver::Gone => true,
        };
        if !is_ours {
            let files = submission_pod::config_map(&submission_pod::name(self.application, &run));
            children.retain(|child| *child == monitoring);
            children.push(files);
        }
        (!children.is_empty()).then_some(Action::DeleteChildren(children))
    }
}

/// How long an application that has ended is kept.
enum Life {
    Unlimited,
    For(Duration),
    Over,
}
