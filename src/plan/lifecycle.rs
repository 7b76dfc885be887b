//! An application is in this state and this was seen: what is next?
//!
//! ```text
//!              submitted              pod runs           exit 0
//!  New ──────────────────► SUBMITTED ─────────► RUNNING ───────► SUCCEEDING ──► COMPLETED
//!   │                          │                   │ exit ≠ 0, pod gone
//!   │ refused                  └───────────────────┴────────────► FAILING ────► FAILED
//!   └──────────────► SUBMISSION_FAILED ─────────────────────────────────────────► FAILED
//! ```
//!
//! Every pass looks at the whole of what was seen (level-triggered), every non-terminal state has a timer,
//! and a plan whose actions have taken effect plans nothing more.

use super::{Action, Driver, Observed, Plan, Policy, SubmissionProgress};
use crate::{
    api::{ApplicationState, DriverInfo, Role, SparkApplication, SparkApplicationStatus, State},
    plan::{
        driver::{self, DriverState, Standing},
        events::{self, Event},
        executors,
        pod_record::PodRecord,
        run::Run,
        submission::{self, Chosen},
    },
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// How soon to look again where an event is due: long enough that the event comes first, short enough that
/// nobody notices if not.
const SOON: Duration = Duration::from_secs(5);
/// How soon to look again where nothing is due. Watches do the work; this is for what no watch tells.
const EVENTUALLY: Duration = Duration::from_secs(300);

/// What the next decision depends on, so that nothing else is asked of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Questions {
    /// Is there a pod under the driver's name?
    pub driver: bool,
    /// If so, has its submission created everything?
    pub complete: bool,
    /// What would a submission find around it?
    pub surroundings: bool,
}

/// What to find out before [`next`] is asked about an application in this state.
#[must_use]
pub const fn questions(state: State) -> Questions {
    match state {
        State::New => Questions { driver: true, complete: true, surroundings: true },
        State::Submitted | State::Running => Questions { driver: true, complete: false, surroundings: false },
        _ => Questions { driver: false, complete: false, surroundings: false },
    }
}

/// What to do about `application`, given what was seen of it at `now`.
pub fn next(application: &SparkApplication, seen: &Observed, now: Timestamp, policy: &Policy) -> Plan {
    let pass = Pass { application, seen, now, policy };
    match application.state() {
        State::New => pass.start(),
        State::Submitted | State::Running => pass.follow_driver(),
        State::Succeeding => pass.complete(),
        State::Failing | State::SubmissionFailed => pass.fail(),
        State::Completed | State::Failed => pass.keep_executors_true(),
        // Left as they are: nothing here brings an application into them, and KF's that are in them are not
        // ours to guess about.
        State::PendingRerun
        | State::Invalidating
        | State::Suspending
        | State::Suspended
        | State::Resuming
        | State::Unknown => pass.stay(None),
    }
}

/// One decision: the application and all that is known of it.
struct Pass<'a> {
    application: &'a SparkApplication,
    seen: &'a Observed,
    now: Timestamp,
    policy: &'a Policy,
}

impl Pass<'_> {
    /// New: submit, unless an earlier try has made the driver already.
    fn start(&self) -> Plan {
        if self.application.spec.suspend == Some(true) {
            return self.stay(None);
        }
        let run = Run::next(self.application);
        let progress = self.seen.submission_of(&run.id);
        let uid = self.application.metadata.uid.as_deref().unwrap_or_default();
        match (&self.seen.driver, progress) {
            (_, Some(SubmissionProgress::Running)) => self.stay(Some(SOON)),
            // Whoever made all of it was told that it is there. Should the driver have come and gone already,
            // following it will find out what became of it.
            (Driver::Unseen | Driver::Gone, Some(SubmissionProgress::Succeeded { spark_application_id })) => {
                self.submitted(run, spark_application_id.clone())
            }
            (Driver::Unseen, _) => self.stay(Some(SOON)),
            (Driver::Pod { pod, complete }, _) => {
                match driver::standing(pod, *complete, uid, &run.id, self.now) {
                    Standing::Adoptable => self.submitted(run, pod.spark_application_id.clone()),
                    Standing::InTheMaking => self.stay(Some(SOON)),
                    Standing::Leftover => self.delete_driver(pod),
                    Standing::Foreign => {
                        let why = taken(pod);
                        self.submission_failed(run, why)
                    }
                }
            }
            (Driver::Gone, Some(SubmissionProgress::Failed(why))) => self.submission_failed(run, why.clone()),
            // Whatever had its name is gone now.
            (Driver::Gone, None | Some(SubmissionProgress::DriverExists)) => self.submit(run),
        }
    }

    fn submit(&self, run: Run) -> Plan {
        match submission::choose(self.application, &run, &self.seen.surroundings, self.policy, self.now) {
            Ok(Chosen { request, events }) => {
                let added = events::application_added(self.name());
                Plan {
                    actions: vec![Action::Submit(Box::new(request))],
                    events: [added].into_iter().chain(events).collect(),
                    ..self.stay(Some(SOON))
                }
            }
            Err(why) => self.submission_failed(run, why),
        }
    }

    fn delete_driver(&self, pod: &PodRecord) -> Plan {
        let delete = Action::DeleteDriver { name: pod.name.clone(), uid: pod.uid.clone() };
        let actions = if pod.terminating { Vec::new() } else { vec![delete] };
        Plan { actions, ..self.stay(Some(SOON)) }
    }

    fn submitted(&self, run: Run, spark_application_id: Option<String>) -> Plan {
        let mut status = self.with_run(run);
        status.spark_application_id = spark_application_id;
        status.execution_attempts += 1;
        status.application_state = ApplicationState { state: State::Submitted, error_message: None };
        self.plan(status, vec![events::application_submitted(self.name())], Some(SOON))
    }

    fn submission_failed(&self, run: Run, why: String) -> Plan {
        let event = events::submission_failed(self.name(), &why);
        let mut status = self.with_run(run);
        status.application_state =
            ApplicationState { state: State::SubmissionFailed, error_message: Some(why) };
        self.plan(status, vec![event], Some(SOON))
    }

    /// The status with `run` as its current one.
    fn with_run(&self, run: Run) -> SparkApplicationStatus {
        let mut status = self.status();
        status.submission_id = Some(run.id.to_string());
        status.run_ordinal = Some(run.ordinal);
        status.spec_hash = Some(run.spec_hash);
        status.observed_generation = run.generation;
        status.last_submission_attempt_time = Some(Time(self.now));
        status.submission_attempts += 1;
        status.driver_info =
            DriverInfo { pod_name: Some(driver::pod_name(self.application)), ..DriverInfo::default() };
        status
    }

    /// SUBMITTED and RUNNING: the application's state is its driver's.
    fn follow_driver(&self) -> Plan {
        let submission_id = self.status().submission_id.unwrap_or_default();
        match &self.seen.driver {
            Driver::Unseen => self.stay(Some(SOON)),
            Driver::Pod { pod, .. } if pod.is_of(Role::Driver, &submission_id) => self.driver_seen(pod),
            Driver::Pod { .. } | Driver::Gone => self.driver_gone(),
        }
    }

    fn driver_seen(&self, pod: &PodRecord) -> Plan {
        let (state, error_message, event) = match driver::state(pod) {
            DriverState::Pending => (State::Submitted, None, events::driver_pending(&pod.name)),
            DriverState::Running => (State::Running, None, events::driver_running(&pod.name)),
            DriverState::Completed => (State::Succeeding, None, events::driver_completed(&pod.name)),
            DriverState::Failed(why) => (State::Failing, Some(why), events::driver_failed(&pod.name)),
            // The node may come back; if it does not, the pod is deleted, and that is seen.
            DriverState::Unknown => return self.stay(Some(EVENTUALLY)),
        };
        let mut status = self.status();
        let known = executors::spark_application_id(&self.seen.executors)
            .or_else(|| pod.spark_application_id.clone());
        status.spark_application_id = known.or(status.spark_application_id);
        let mut events = Vec::new();
        if state != status.application_state.state {
            status.application_state = ApplicationState { state, error_message };
            events.push(event);
        }
        let has_ended = matches!(state, State::Succeeding | State::Failing);
        if has_ended {
            status.termination_time.get_or_insert(Time(self.now));
        }
        self.with_executors(status, events, Some(if has_ended { SOON } else { EVENTUALLY }))
    }

    fn driver_gone(&self) -> Plan {
        let mut status = self.status();
        if status.application_state.state == State::Submitted {
            let submitted = status.last_submission_attempt_time.as_ref().map_or(self.now, |time| time.0);
            let waited = Duration::try_from(self.now.duration_since(submitted)).unwrap_or_default();
            if let Some(rest) =
                self.policy.driver_creation_grace.checked_sub(waited).filter(|rest| !rest.is_zero())
            {
                return self.stay(Some(rest));
            }
        }
        let pod = status.driver_info.pod_name.clone().unwrap_or_else(|| driver::pod_name(self.application));
        let why = Some("driver pod not found".to_owned());
        status.application_state = ApplicationState { state: State::Failing, error_message: why };
        status.termination_time = Some(Time(self.now));
        self.with_executors(status, vec![events::driver_not_found(&pod)], Some(SOON))
    }

    fn complete(&self) -> Plan {
        let event = events::application_completed(self.name());
        self.end(State::Completed, event)
    }

    fn fail(&self) -> Plan {
        let why = self.status().application_state.error_message.unwrap_or_default();
        self.end(State::Failed, events::application_failed(self.name(), &why))
    }

    /// Into a terminal state: the one place that does it, so that none lacks its time.
    fn end(&self, state: State, event: Event) -> Plan {
        let mut status = self.status();
        status.application_state.state = state;
        status.termination_time.get_or_insert(Time(self.now));
        let actions = Vec::from_iter(self.delete_children());
        Plan { actions, ..self.with_executors(status, vec![event], None) }
    }

    /// What a run that is over has left beside its driver's pod, unless that goes with the pod.
    fn delete_children(&self) -> Option<Action> {
        let children = submission::children(self.application, self.policy);
        let made = |config_map: &String| children.iter().any(|child| child.name == *config_map);
        let is_ours = match &self.seen.driver {
            Driver::Pod { pod, .. } => pod.driver_config_map.as_ref().is_none_or(made),
            Driver::Unseen | Driver::Gone => true,
        };
        (is_ours && !children.is_empty()).then_some(Action::DeleteChildren(children))
    }

    /// COMPLETED and FAILED: executors may end after their driver.
    fn keep_executors_true(&self) -> Plan {
        self.with_executors(self.status(), Vec::new(), None)
    }

    fn with_executors(
        &self,
        mut status: SparkApplicationStatus,
        mut events: Vec<Event>,
        wake: Option<Duration>,
    ) -> Plan {
        let state = status.application_state.state;
        let (states, changes) =
            executors::executor_states(&status.executor_state, &self.seen.executors, state);
        status.executor_state = states;
        events.extend(changes);
        self.plan(status, events, wake)
    }

    fn stay(&self, wake: Option<Duration>) -> Plan {
        self.plan(self.status(), Vec::new(), wake)
    }

    fn plan(&self, status: SparkApplicationStatus, events: Vec<Event>, wake: Option<Duration>) -> Plan {
        Plan { actions: Vec::new(), status, events, wake }
    }

    fn status(&self) -> SparkApplicationStatus {
        self.application.status.clone().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.application.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Why a pod that is not ours keeps a driver from being made.
fn taken(pod: &PodRecord) -> String {
    let owner = pod.controller.as_ref().map_or_else(
        || "has no controller".to_owned(),
        |owner| format!("belongs to {} {}", owner.kind, owner.name),
    );
    format!(
        "pod {} already exists and {owner}: delete it or set spec.driver.podName to another name",
        pod.name
    )
}
