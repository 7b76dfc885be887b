//! Handles SUCCEEDING, FAILING, COMPLETED, FAILED and INVALIDATING: a run is over, and another run follows or not.

use super::{Cause, Pass, SOON, driver_name, history, launch::reset};
use crate::{Action, Driver, Plan, events};
use api::{ObjectKind, Role, SparkApplicationStatus, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;
use submission::{run::Run, submission_pod};

impl Pass<'_> {
    /// Handles SUCCEEDING and FAILING: runs the application again, at once or after a pause, or ends it.
    pub(super) fn after_run(&self) -> Plan {
        let has_failed = self.application.state() == State::Failing;
        let (pause, cause) = if has_failed {
            (self.retry_of_failure(), Cause::FailureRetry)
        } else {
            (self.retry_of_success(), Cause::RestartAlways)
        };
        match pause {
            None if has_failed => self.fail(),
            None => self.end(State::Completed, events::application_completed(self.name())),
            Some(pause) if pause.is_zero() => self.run_again(cause),
            Some(pause) => self.with_executors(self.status.clone(), Vec::new(), Some(pause)),
        }
    }

    pub(super) fn fail(&self) -> Plan {
        let why = self.status.application_state.error_message.as_deref().unwrap_or_default();
        self.end(State::Failed, events::application_failed(self.name(), why))
    }

    /// Moves the application to a terminal state. Only this function does so, so that no terminal state lacks its
    /// `terminationTime`.
    fn end(&self, state: State, event: events::Event) -> Plan {
        let mut status = self.status.clone();
        status.application_state.state = state;
        status.termination_time.get_or_insert(Time(self.now));
        self.note_end(&mut status);
        let wake = self.rest_of_life(&status).map(|rest| if rest.is_zero() { SOON } else { rest });
        Plan { actions: self.clean_up(), ..self.with_executors(status, vec![event], wake) }
    }

    /// Handles COMPLETED and FAILED: the application stays in this state until the user edits its spec or requests
    /// another run, or until its time to live is over.
    pub(super) fn rest(&self) -> Plan {
        if self.rerun_asked_for().is_some_and(|asked| self.status.last_rerun.as_ref() != Some(asked)) {
            return self.run_again(Cause::RerunRequested);
        }
        let mut status = self.status.clone();
        // Kubeflow's operator leaves some ended applications without a termination time. Such an application gets the
        // time of its last submission, the latest time that is known of it.
        let last_heard_of = status.last_submission_attempt_time.clone().unwrap_or(Time(self.now));
        status.termination_time.get_or_insert(last_heard_of);
        self.note_end(&mut status);
        let rest = self.rest_of_life(&status);
        if rest == Some(Duration::ZERO) {
            return self.acting(vec![Action::DeleteApplication]);
        }
        Plan { actions: self.without_late_driver(), ..self.with_executors(status, Vec::new(), rest) }
    }

    /// Returns the actions that delete a driver which was created too late, by a submission pod on a lost node or by an
    /// earlier operator process. A late driver of an earlier run is deleted unless it has ended. A late driver of the
    /// last run, whose submission counts as failed, is deleted together with the objects that belong to it.
    fn without_late_driver(&self) -> Vec<Action> {
        let recorded = self.status.submission_id.as_deref().unwrap_or_default();
        if let Some(earlier) = self.driver().filter(|driver| !driver.is_of(Role::Driver, recorded)) {
            let lives = !earlier.has_ended();
            return Some(earlier).filter(|_| lives).and_then(Action::delete).into_iter().collect();
        }
        let run = history::run(&self.status, self.status.run_ordinal.unwrap_or_default());
        let has_none = run.is_some_and(|run| run.state == Some(State::SubmissionFailed));
        let late = self.driver().filter(|_| has_none).and_then(Action::delete);
        // The driver is deleted last: while it exists, the next reconcile finds that its objects have to be deleted.
        late.map_or_else(Vec::new, |delete| self.clean_up().into_iter().chain([delete]).collect())
    }

    /// Returns the remaining time until an ended application is deleted: `spec.timeToLiveSeconds`, else the admin's
    /// default, counted from the end of the application. Zero if that time is over, `None` if there is no such time.
    fn rest_of_life(&self, status: &SparkApplicationStatus) -> Option<Duration> {
        let own = self.application.spec.time_to_live_seconds;
        let ttl = own.or(self.policy.default_time_to_live_seconds)?;
        let ended = status.termination_time.as_ref().map_or(self.now, |time| time.0);
        // A deletion cannot be undone, and if the local clock jumped forward, every ended application would be deleted.
        // So the time to live has to be over by the API server's clock as well.
        let now = self.seen.server_time.map_or(self.now, |server| server.min(self.now));
        let ttl = jiff::SignedDuration::from_secs(ttl.max(0));
        let rest = Duration::try_from(ttl.saturating_sub(now.duration_since(ended)));
        // The age must be strictly greater than the time to live, as in Kubeflow's operator.
        Some(rest.map_or(Duration::ZERO, |rest| rest + Duration::from_millis(1)))
    }

    /// Moves the application to PENDING_RERUN and deletes the objects of the run that has ended.
    fn run_again(&self, cause: Cause) -> Plan {
        let mut status = self.status.clone();
        if cause == Cause::RerunRequested {
            status.last_rerun = self.rerun_asked_for().cloned();
            status.execution_attempts = 0;
            status.submission_attempts = 0;
        }
        let driver = self.driver().and_then(Action::delete);
        let actions = driver.into_iter().chain(self.clean_up()).collect();
        Plan { actions, ..self.pending_rerun(status, cause) }
    }

    fn pending_rerun(&self, mut status: SparkApplicationStatus, cause: Cause) -> Plan {
        reset(&mut status, State::PendingRerun);
        Self::announce(&mut status, cause);
        self.plan(status, vec![events::application_pending_rerun(self.name(), cause)], Some(SOON))
    }

    /// Ends the run after an edit of the spec: all pods and objects of that run are deleted, and then the new spec
    /// runs.
    pub(super) fn invalidate(&self) -> Plan {
        let mut status = self.moved(State::Invalidating, None);
        self.end_early(&mut status, history::outcome(State::Invalidating, "SpecEdited", None));
        self.plan(status, vec![events::spec_edited(self.name())], Some(SOON))
    }

    pub(super) fn finish_invalidating(&self) -> Plan {
        if let Some(plan) = self.clear() {
            return plan;
        }
        Plan { actions: self.clean_up(), ..self.pending_rerun(self.status.clone(), Cause::SpecEdited) }
    }

    /// Returns the plan that deletes the application's pods and waits until they are gone; `None` if there are none.
    pub(super) fn clear(&self) -> Option<Plan> {
        if self.is_submitting() {
            return Some(self.acting(vec![Action::StopSubmission]));
        }
        let strays = self.strays(None);
        let driver = self.driver();
        let has_others = self.seen.others.iter().any(|pod| pod.is_controlled_by(self.uid()));
        let is_empty = strays.is_empty() && !has_others;
        if driver.is_none() && is_empty && self.seen.driver != Driver::Unseen {
            return None;
        }
        let deleted = driver.and_then(Action::delete).into_iter().chain(Self::delete_strays(&strays));
        Some(self.until_gone(driver.into_iter().chain(strays), deleted.collect()))
    }

    /// Returns the actions that delete the objects which the ended run has left in addition to its pods.
    pub(super) fn clean_up(&self) -> Vec<Action> {
        let budget = || ObjectKind::POD_DISRUPTION_BUDGET.named(driver_name(self));
        let beside = self.policy.has_driver_pdb.then(|| Action::DeleteChildren(vec![budget()]));
        beside.into_iter().chain(self.leftovers()).collect()
    }

    fn leftovers(&self) -> Option<Action> {
        let run = Run::recorded(self.application)?;
        let monitoring = ObjectKind::CONFIG_MAP.named(api::monitoring::config_map_name(self.application));
        let driver = self.seen.driver.pod().or(self.seen.departed.as_deref());
        let driver = driver.filter(|pod| pod.is_of(Role::Driver, run.id.as_str()));
        let of_extensions = |driver| self.of_extensions(run.id.as_str(), driver);
        let files = || submission_pod::config_map(&submission_pod::name(self.application, &run));
        let mut children = self.children(&run, driver);
        let mut before = vec![monitoring.clone()];
        before.extend(of_extensions(driver));
        if matches!(self.application.state(), State::Invalidating | State::Suspending) {
            // The spec from which the run was created may no longer be known, so everything that may have been created
            // for any spec is included.
            let possible = spark_client::possible_children(self.name(), &run.ids());
            before.extend(of_extensions(None));
            let possible = possible.into_iter().chain([monitoring, files()]).chain(of_extensions(None));
            let others: Vec<_> = possible.filter(|child| !children.contains(child)).collect();
            children.extend(others);
        }
        // Objects that `spark-submit` created are owned by the driver's pod and are deleted together with it. In that
        // case, the operator deletes only what it created before the driver's pod existed.
        if let Some(config_map) = self.seen.driver.pod().and_then(|pod| pod.driver_config_map.as_ref())
            && !children.iter().any(|child| child.name == *config_map)
        {
            children.retain(|child| before.contains(child));
            children.push(files());
        }
        (!children.is_empty()).then_some(Action::DeleteChildren(children))
    }
}
