//! Decides what comes next for an application in a given state, from what was observed.
//!
//! One function a state; `launch` has those in which a driver is to be made, `follow` those in which there is
//! one, and `end` what comes after it. Every pass looks at the whole of what was seen (level-triggered), every
//! non-terminal state has a timer, and a plan whose actions have taken effect plans nothing more.

mod conditions;
mod edits;
mod end;
mod follow;
mod forerunner;
mod history;
mod launch;
mod restart;
mod suspension;
mod transitions;

pub use transitions::{TRANSITIONS, Transition, diagram, interruptions};

use super::{Action, Driver, Observed, Plan, Policy, SubmissionProgress};
use crate::{
    children, driver,
    events::{self, Event},
    executors,
    pod_record::PodRecord,
    takeover,
};
use api::{ApplicationState, Role, SparkApplication, SparkApplicationStatus, State};
use driver::DriverState;
use edits::Edit;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{collections::BTreeSet, time::Duration};

/// How soon to look again where an event is due: long enough that the event comes first, short enough that
/// nobody notices if not.
const SOON: Duration = Duration::from_secs(5);
/// How soon to look again where nothing is due. Watches do the work; this is for what no watch tells.
const EVENTUALLY: Duration = Duration::from_secs(300);
/// How long what changes while the state stays the same is collected before it is written: executors come and go
/// by the thousand.
const COLLECT: Duration = Duration::from_secs(1);

/// What the next decision depends on, so that nothing else is asked of the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// Is there a pod under the driver's name? The API server is asked if the cache knows of none.
    pub driver: bool,
    /// Is a driver to be made? Then it is the API server's word that counts, on whether there is one and whether
    /// its submission has created everything, and what a submission finds around it is looked up.
    pub launch: bool,
    /// Does a driver matter that is of another run than the recorded one? Where nothing of the application runs any more, it is one that
    /// somebody has made late.
    pub late_driver: bool,
    /// Which other pods does the application have? See [`Observed::strays`].
    pub strays: bool,
}

/// What to find out before [`next`] is asked about `application`.
#[must_use]
pub fn questions(application: &SparkApplication) -> Questions {
    let spec = &application.spec;
    match application.state() {
        // Only another run has to wait for its pods.
        State::SubmissionFailed
            if application
                .status
                .as_ref()
                .is_some_and(|status| !restart::is_submitted_again(spec, status)) =>
        {
            Questions { driver: true, launch: true, ..Questions::default() }
        }
        State::New | State::SubmissionFailed | State::PendingRerun | State::Resuming => {
            Questions { driver: true, launch: true, strays: has_a_past(application), ..Questions::default() }
        }
        State::Submitted | State::Running | State::Unknown => {
            Questions { driver: true, launch: !is_recorded(application), ..Questions::default() }
        }
        State::Suspending | State::Invalidating => {
            Questions { driver: true, strays: has_a_past(application), ..Questions::default() }
        }
        State::Succeeding | State::Failing => Questions::default(),
        State::Completed | State::Failed | State::Suspended => {
            Questions { late_driver: true, ..Questions::default() }
        }
    }
}

/// The driver of the recorded run, if `driver` shows that it has ended.
#[must_use]
pub fn ended_driver<'a>(application: &SparkApplication, driver: &'a Driver) -> Option<&'a PodRecord> {
    let Driver::Pod { pod, .. } = driver else { return None };
    Some(&**pod).filter(|pod| has_ended(application, pod))
}

/// Whether the watch of pods has told of all pods that `application` still has, given the last driver that it has told to be gone, and
/// the uid of the last that [`ended_driver`] has found.
///
/// It has if that was the driver of the recorded run, and had ended: all executors were created before, and so was its submission pod.
/// The uid counts: a driver that somebody deletes before its run is recorded is made anew, for the same run. What a later run has that
/// the watch is late to tell of has names of its own only after an edit of the spec; under the same names it is asked for.
#[must_use]
pub fn knows_all_pods(
    application: &SparkApplication,
    departed: Option<&PodRecord>,
    ended: Option<&str>,
) -> bool {
    let is_last = |pod: &PodRecord| ended == Some(&pod.uid) && has_ended(application, pod);
    departed.is_some_and(is_last) && application.metadata.generation == Some(1)
}

/// Whether `pod` is the driver of the recorded run, and has ended.
fn has_ended(application: &SparkApplication, pod: &PodRecord) -> bool {
    let submission_id = application.status.as_ref().and_then(|status| status.submission_id.as_deref());
    submission_id.is_some_and(|id| pod.is_of(Role::Driver, id))
        && matches!(driver::state(pod), DriverState::Completed | DriverState::Failed(_))
}

/// Whether pods of the application may exist that are not those of the run that is next: those of a run before, or
/// a driver under the name that it had before an edit.
fn has_a_past(application: &SparkApplication) -> bool {
    let is_edited = application.metadata.generation.is_some_and(|generation| generation > 1);
    is_edited || is_recorded(application)
}

/// Whether a run is recorded: without one there is nothing to follow, whatever state somebody has written.
fn is_recorded(application: &SparkApplication) -> bool {
    application.status.as_ref().is_some_and(|status| status.submission_id.is_some())
}

/// What to do about `application`, given what was seen of it at `now`.
pub fn next(application: &SparkApplication, seen: &Observed, now: Timestamp, policy: &Policy) -> Plan {
    let edit = edits::of(application);
    let mut status = application.status.clone().unwrap_or_default();
    edits::take_note(application, edit, &mut status);
    let pass = Pass { application, edit, status, seen, now, policy };
    let mut plan = pass.decide();
    plan.status.conditions = conditions::of(&plan.status, application, now);
    plan.events.extend(pass.taken_over(&plan.status));
    plan.events.extend(pass.without_address(&plan.status));
    pass.keep_or_release(&mut plan);
    pass.delete_old_submission_pods(&mut plan);
    let (aside, due) = children::aside(application, &plan.status, &seen.companions, now, policy);
    plan.aside = aside;
    plan.wake = plan.wake.into_iter().chain(due).min();
    plan
}

/// One decision: the application and all that is known of it.
struct Pass<'a> {
    application: &'a SparkApplication,
    edit: Edit,
    /// As it is recorded, but for the edit that it has taken note of.
    status: SparkApplicationStatus,
    seen: &'a Observed,
    now: Timestamp,
    policy: &'a Policy,
}

impl Pass<'_> {
    fn decide(&self) -> Plan {
        match self.application.state() {
            state if self.is_to_be_suspended(state) => self.suspend(),
            state if self.is_to_be_invalidated(state) => self.invalidate(),
            State::New => self.launch(),
            State::Submitted | State::Running | State::Unknown if !is_recorded(self.application) => {
                self.launch()
            }
            State::Submitted | State::Running | State::Unknown => self.follow_driver(),
            State::Succeeding => self.after_success(),
            State::Failing => self.after_failure(),
            State::SubmissionFailed => self.after_failed_submission(),
            State::PendingRerun | State::Resuming => self.launch(),
            State::Invalidating => self.finish_invalidating(),
            State::Suspending => self.finish_suspending(),
            State::Suspended => self.stay_suspended(),
            State::Completed | State::Failed => self.rest(),
        }
    }

    /// SUBMITTED, RUNNING, UNKNOWN, SUCCEEDING and FAILING have a run whose spec may have been edited since; so have
    /// those that rest. The others have none that lives, and take note.
    fn is_to_be_invalidated(&self, state: State) -> bool {
        self.edit == Edit::Material && edits::ends_run(state)
    }

    /// The status with its executors as they were seen. What has changed in them alone is written at most once in
    /// so long.
    fn with_executors(
        &self,
        mut status: SparkApplicationStatus,
        mut events: Vec<Event>,
        wake: Option<Duration>,
    ) -> Plan {
        let state = status.application_state.state;
        let (executors, limits) = (&self.seen.executors, self.policy.executor_limits);
        let (states, changes) =
            executors::executor_states(&status.executor_state, executors, state, self.now, limits);
        status.executor_state = states;
        if state == self.application.state()
            && status != self.status
            && let Some(rest) = self.collecting()
        {
            return self.plan(self.status.clone(), Vec::new(), Some(rest));
        }
        events.extend(changes);
        let starting = is_followed(state).then(|| executors::starting(executors, self.now)).flatten();
        let wake = wake.into_iter().chain(starting).min();
        self.plan(status, events, wake)
    }

    /// How long to wait before a change that nobody waits for is written.
    fn collecting(&self) -> Option<Duration> {
        let since = self.now.duration_since(self.seen.recorded?);
        COLLECT.checked_sub(Duration::try_from(since).unwrap_or_default()).filter(|rest| !rest.is_zero())
    }

    fn stay(&self, wake: Option<Duration>) -> Plan {
        self.plan(self.status.clone(), Vec::new(), wake)
    }

    fn plan(&self, status: SparkApplicationStatus, events: Vec<Event>, wake: Option<Duration>) -> Plan {
        Plan { actions: Vec::new(), status, events, aside: Vec::new(), wake }
    }

    /// `status` with another state, and why.
    fn moved(&self, state: State, message: Option<String>) -> SparkApplicationStatus {
        let mut status = self.status.clone();
        status.application_state = ApplicationState { state, error_message: message };
        status
    }

    fn name(&self) -> &str {
        self.application.metadata.name.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.application.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The pod under the driver's name, if it is this application's.
    fn own_driver(&self) -> Option<&PodRecord> {
        match &self.seen.driver {
            Driver::Pod { pod, .. } if pod.is_controlled_by(self.uid()) => Some(pod),
            Driver::Pod { .. } | Driver::Unseen | Driver::Gone => None,
        }
    }

    /// Deletes a pod, unless it is being deleted.
    fn delete_pod(pod: &PodRecord) -> Option<Action> {
        let delete = || Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() };
        (!pod.terminating).then(delete)
    }

    /// Whether a submission of this application is on its way, for whichever run.
    fn is_submitting(&self) -> bool {
        let progress = self.seen.submission.as_ref().map(|submission| &submission.progress);
        progress == Some(&SubmissionProgress::Running)
    }

    /// What the user of an application has to know that another operator has submitted; told when it is seen first.
    fn taken_over(&self, next: &SparkApplicationStatus) -> Option<Event> {
        let known = self.application.status.as_ref().and_then(|status| status.observed_generation);
        if known.is_some() || !is_followed(next.application_state.state) {
            return None;
        }
        let lacking = takeover::lacking(self.application);
        (!lacking.is_empty()).then(|| events::taken_over(self.name(), &lacking))
    }

    /// What the user of an application has to know of addresses that cannot be made; told once a run.
    fn without_address(&self, next: &SparkApplicationStatus) -> Vec<Event> {
        if next.submission_id == self.status.submission_id || !is_followed(next.application_state.state) {
            return Vec::new();
        }
        let id = next.spark_application_id.as_deref();
        let why = children::without_address(self.application, id, self.policy);
        why.iter().map(|why| events::not_exposed(why)).collect()
    }

    /// A driver's pod is kept by a finalizer, where the admin wants that, until its outcome is recorded; one whose
    /// outcome is recorded, or of no interest any more, is let go.
    fn keep_or_release(&self, plan: &mut Plan) {
        let Some(pod) = self.own_driver() else { return };
        let recorded = self.status.submission_id.as_deref().unwrap_or_default();
        let is_followed = is_followed(self.application.state()) && pod.is_of(Role::Driver, recorded);
        let wanted = self.policy.protects_driver_outcome && !pod.terminating;
        let protect = match (is_followed, pod.protected) {
            (true, false) if wanted && is_followed_on(plan) => true,
            (false, true) => false,
            // The admin has thought better of it.
            (true, true) if !self.policy.protects_driver_outcome => false,
            _ => return,
        };
        plan.actions.push(Action::ProtectDriver { name: pod.name.clone(), uid: pod.uid.clone(), protect });
    }

    /// Deletes the submission pods of runs that are recorded: nobody reads their outcome any more. Where a run is to be
    /// submitted, what may be its own pod stays, and one of a run that was never recorded is among the strays.
    fn delete_old_submission_pods(&self, plan: &mut Plan) {
        let launches = questions(self.application).launch;
        for pod in self.seen.submission_pods.iter().filter(|pod| pod.is_controlled_by(self.uid())) {
            let deletes =
                |action: &Action| matches!(action, Action::DeletePod { uid, .. } if *uid == pod.uid);
            let is_old = !launches || pod.submission_id.as_deref().is_some_and(|id| self.has_recorded(id));
            if is_old && !plan.actions.iter().any(deletes) {
                plan.actions.extend(Self::delete_submission_pod(pod));
            }
        }
    }

    /// Whether the run with this id is written down, be it the present one or one of those before.
    fn has_recorded(&self, id: &str) -> bool {
        let recorded = self.status.runs.iter().filter_map(|run| run.submission_id.as_deref());
        recorded.chain(self.status.submission_id.as_deref()).any(|recorded| recorded == id)
    }
}

/// Whether an application in this state is what its driver's pod is.
pub(super) const fn is_followed(state: State) -> bool {
    matches!(state, State::Submitted | State::Running | State::Unknown)
}

const fn is_followed_on(plan: &Plan) -> bool {
    is_followed(plan.status.application_state.state)
}

/// The name of the present run's driver.
fn driver_name(pass: &Pass) -> String {
    let recorded = pass.status.driver_info.pod_name.clone();
    recorded.unwrap_or_else(|| driver::pod_name(pass.application))
}

/// What is done about `pods` of the application with this uid when its namespace ceases to be driven: none of its drivers is
/// kept for an outcome that nobody records. A driver may be kept though its record does not say so yet.
#[must_use]
pub fn leave(pods: &[PodRecord], uid: &str, policy: &Policy) -> Vec<Action> {
    let drivers = pods.iter().filter(|pod| pod.role == Some(Role::Driver) && pod.is_controlled_by(uid));
    let kept = drivers.filter(|pod| pod.protected || policy.protects_driver_outcome);
    kept.map(release).collect()
}

fn release(driver: &PodRecord) -> Action {
    Action::ProtectDriver { name: driver.name.clone(), uid: driver.uid.clone(), protect: false }
}

/// What is done about `pods`, of an application that is being deleted, or is gone: they go at once, not only when
/// Kubernetes has found that their owners have, and no driver is kept for an outcome that nobody records. `there` is
/// the application that has the name now.
#[must_use]
pub fn farewell(pods: &[PodRecord], there: Option<&ObjectMeta>) -> Vec<Action> {
    /// The finalizer of whoever deletes an application and wants to keep its pods.
    const ORPHAN: &str = "orphan";
    let is_orphaned = there.is_some_and(|there| there.finalizers.iter().flatten().any(|name| name == ORPHAN));
    let living =
        there.filter(|there| there.deletion_timestamp.is_none()).and_then(|there| there.uid.as_deref());
    let is_of_living = |pod: &PodRecord| living.is_some_and(|uid| pod.is_controlled_by(uid));
    // One that has no owner any more was kept on purpose.
    let is_left =
        |pod: &PodRecord| pod.application.as_deref().is_some_and(|name| pod.is_of_application(name));
    let drivers: Vec<_> =
        pods.iter().filter(|pod| pod.role == Some(Role::Driver) && !is_of_living(pod)).collect();
    let kept = drivers.iter().filter(|pod| pod.protected).map(|pod| release(pod));
    if is_orphaned {
        return kept.collect();
    }
    let has_driver = |run: &str, is: &dyn Fn(&PodRecord) -> bool| {
        drivers.iter().any(|driver| driver.submission_id.as_deref() == Some(run) && is(driver))
    };
    // Another application of the name may have executors of its own.
    let is_over = |run: &&str| match living {
        None => !has_driver(run, &|driver| !is_left(driver)),
        Some(_) => has_driver(run, &is_left),
    };
    let executors = pods.iter().filter(|pod| pod.role == Some(Role::Executor) && !pod.terminating);
    let runs: BTreeSet<_> =
        executors.filter_map(|pod| pod.submission_id.as_deref()).filter(is_over).collect();
    let executors = runs.into_iter().map(|run| Action::DeleteExecutors { submission_id: run.to_owned() });
    let submissions = pods.iter().filter(|pod| pod.submits && !is_of_living(pod));
    let left = drivers.iter().copied().chain(submissions).filter(|pod| is_left(pod));
    left.filter_map(Pass::delete_pod).chain(kept).chain(executors).collect()
}
