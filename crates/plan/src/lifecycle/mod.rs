//! Decides the next step of an application from its state and from the observed facts.
//!
//! There is one function for each state. `launch` contains the states in which a driver is to be created, `follow`
//! those in which a driver exists, and `finished_run` those after the end of a driver. Every reconcile evaluates all
//! observed facts (level-triggered), every non-terminal state has a timer, and once the actions of a plan have taken
//! effect, the next plan contains no more actions.

mod conditions;
mod edits;
mod finished_run;
mod follow;
mod history;
mod launch;
mod restart;
mod suspension;
mod unrecorded_run;

use super::{Action, Driver, Observed, Plan, Policy, SubmissionProgress};
use crate::{
    events::{self, Event},
    executors,
    extension::{AT_ONCE, View},
    left_to_collect,
};
use api::{ApplicationState, ExecutorState, Role, SparkApplication, SparkApplicationStatus, State};
use edits::Edit;
use history::Cause;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pods::PodSummary;
use std::{ops::Deref, time::Duration};
use submission::{driver_pod_name, exposure::without_address};

/// The pause before the next reconcile when a change is expected: long enough that the watch usually reports the change
/// first, short enough that users do not notice if it does not.
const SOON: Duration = Duration::from_secs(5);
/// The pause before the next reconcile when no change is expected. The watches report most changes; this pause is for
/// changes that no watch reports.
const EVENTUALLY: Duration = Duration::from_secs(300);
/// The number of executors of a run whose failures are written at once instead of collected. Spark deletes the pod of a
/// failed executor within a second, and with it the reason of the failure is lost. Later executors mostly fail for the
/// same reasons as the first ones.
const FAILURES_AT_ONCE: usize = 10;

/// The facts on which the next decision depends. Nothing else is requested from the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// Whether the decision depends on the pod with the driver's name. The API server is asked if the cache contains no
    /// such pod.
    pub driver: bool,
    /// Whether a driver is to be created. In this case the API server is asked, not the cache, whether a driver exists
    /// and whether its submission has created all objects; and the admin's settings for submissions are read.
    pub launch: bool,
    /// Whether the decision depends on a driver that does not belong to the recorded run. In the states in which
    /// nothing of the application runs any more, such a driver was created too late.
    pub late_driver: bool,
    /// Whether the application's other pods are needed: see [`Observed::strays`].
    pub strays: bool,
}

/// Returns which facts about `application` have to be found out before [`next`] is called.
pub fn questions(application: &SparkApplication) -> Questions {
    let driver = Questions { driver: true, ..Questions::default() };
    let status = application.status.as_ref();
    let is_retried = status.is_none_or(|status| restart::is_submitted_again(&application.spec, status));
    match application.state() {
        // No retry follows. Only another run has to wait until the pods of earlier runs are gone.
        State::SubmissionFailed if !is_retried => Questions { launch: true, ..driver },
        State::New | State::SubmissionFailed | State::PendingRerun | State::Resuming => {
            Questions { launch: true, strays: has_a_past(application), ..driver }
        }
        State::Submitted | State::Running | State::Unknown => {
            Questions { launch: !is_recorded(application), ..driver }
        }
        State::Suspending | State::Invalidating => Questions { strays: has_a_past(application), ..driver },
        State::Succeeding | State::Failing => Questions::default(),
        State::Completed | State::Failed | State::Suspended => {
            Questions { late_driver: true, ..Questions::default() }
        }
    }
}

/// Returns the driver of the recorded run, if `driver` shows that this driver has ended.
pub fn ended_driver<'a>(application: &SparkApplication, driver: &'a Driver) -> Option<&'a PodSummary> {
    driver.pod().filter(|pod| has_ended(application, pod))
}

/// Whether the watch of pods has reported all pods that `application` still has. `departed` is the last driver whose
/// deletion the watch has reported; `ended` is the uid of the last driver that [`ended_driver`] has returned.
///
/// The watch has reported all pods if `departed` is the driver of the recorded run and had ended: all executors, and
/// the run's submission pod, were created before its end. The uid has to match because a driver that was deleted before
/// its run was recorded is created again, for the same run. A later run may have pods that the watch has not reported
/// yet. Such pods have other names only if the spec was edited, hence the condition on `metadata.generation`; pods with
/// the same names are looked up at the API server.
pub fn knows_all_pods(
    application: &SparkApplication,
    departed: Option<&PodSummary>,
    ended: Option<&str>,
) -> bool {
    let is_last = |pod: &PodSummary| ended == Some(&pod.uid) && has_ended(application, pod);
    departed.is_some_and(is_last) && application.metadata.generation == Some(1)
}

/// Whether `pod` is the driver of the recorded run, and has ended.
fn has_ended(application: &SparkApplication, pod: &PodSummary) -> bool {
    let submission_id = application.status.as_ref().and_then(|status| status.submission_id.as_deref());
    submission_id.is_some_and(|id| pod.is_of(Role::Driver, id))
        && matches!(pod.state(), ExecutorState::Completed | ExecutorState::Failed)
}

/// Whether the application may have pods that do not belong to its next run: pods of an earlier run, or a driver with
/// the name that the driver had before an edit.
fn has_a_past(application: &SparkApplication) -> bool {
    let is_edited = application.metadata.generation.is_some_and(|generation| generation > 1);
    is_edited || is_recorded(application)
}

/// Whether a run is recorded. Without a recorded run there is no driver to follow, whatever state other programs have
/// written.
fn is_recorded(application: &SparkApplication) -> bool {
    application.status.as_ref().is_some_and(|status| status.submission_id.is_some())
}

/// Decides what to do about `application`, given the facts `seen` at the time `now`.
pub fn next(application: &SparkApplication, seen: &Observed, now: jiff::Timestamp, policy: &Policy) -> Plan {
    let edit = edits::of(application);
    let mut status = application.status.clone().unwrap_or_default();
    edits::take_note(application, edit, &mut status);
    let view = View { application, seen, now, policy };
    let pass = Pass { view, edit, status };
    let mut plan = pass.decide();
    plan.status.conditions = conditions::of(view, &plan.status);
    plan.events.extend(pass.taken_over(&plan.status));
    plan.events.extend(pass.submitted_by_another_operator(&plan.status));
    plan.events.extend(pass.without_address(&plan.status));
    plan.events.extend(pass.executors_refused(&plan.status));
    pass.renew_template(&mut plan);
    pass.keep_or_release(&mut plan);
    pass.delete_old_submission_pods(&mut plan);
    let wanted = policy.extensions.iter().flat_map(|extension| extension.amend(&view, &mut plan)).collect();
    view.plan_auxiliary(&mut plan, wanted);
    plan
}

/// The input of one decision: the application and everything that is known about it.
struct Pass<'a> {
    view: View<'a>,
    edit: Edit,
    /// The recorded status, in which only an edit of the spec has been noted.
    status: SparkApplicationStatus,
}

impl<'a> Deref for Pass<'a> {
    type Target = View<'a>;

    fn deref(&self) -> &View<'a> {
        &self.view
    }
}

impl Pass<'_> {
    fn decide(&self) -> Plan {
        match self.application.state() {
            state if self.is_to_be_suspended(state) => self.suspend(),
            // The states without a live run only record the edit.
            state if self.edit == Edit::Material && state.has_a_run_to_edit() => self.invalidate(),
            State::Submitted | State::Running | State::Unknown if is_recorded(self.application) => {
                self.follow_driver()
            }
            State::New | State::Submitted | State::Running | State::Unknown => self.launch(),
            State::Succeeding | State::Failing => self.after_run(),
            State::SubmissionFailed => self.after_failed_submission(),
            State::PendingRerun | State::Resuming => self.launch_when_due(),
            State::Invalidating => self.finish_invalidating(),
            State::Suspending => self.finish_suspending(),
            State::Suspended => self.stay_suspended(),
            State::Completed | State::Failed => self.rest(),
        }
    }

    /// Returns the plan that writes `status` with the observed states of the executors. While the state of the
    /// application stays the same, changes are collected (see [`left_to_collect`]), except for the first
    /// [`FAILURES_AT_ONCE`] failures.
    fn with_executors(
        &self,
        mut status: SparkApplicationStatus,
        mut events: Vec<Event>,
        wake: Option<Duration>,
    ) -> Plan {
        let state = status.application_state.state;
        let executors = &self.seen.executors;
        let (states, changes) = executors::executor_states(self, &status.executor_state, state);
        status.executor_state = states;
        let failed = |status: &SparkApplicationStatus| {
            status.executor_state.values().filter(|state| **state == ExecutorState::Failed).count()
        };
        let before = failed(&self.status);
        let has_failed = before < FAILURES_AT_ONCE && failed(&status) > before;
        let is_urgent = has_failed || state != self.application.state() || status == self.status;
        if let Some(rest) = left_to_collect(self.seen.recorded, self.now).filter(|_| !is_urgent) {
            return self.stay(Some(rest));
        }
        events.extend(changes);
        let starting = executors.iter().filter(|_| state.is_followed());
        let starting = starting.filter_map(|pod| executors::time_to_start(pod, self.now));
        let wake = starting.chain(wake).min();
        self.plan(status, events, wake)
    }

    fn stay(&self, wake: Option<Duration>) -> Plan {
        self.plan(self.status.clone(), Vec::new(), wake)
    }

    fn plan(&self, status: SparkApplicationStatus, events: Vec<Event>, wake: Option<Duration>) -> Plan {
        Plan { actions: Vec::new(), status, events, auxiliary: Vec::new(), wake }
    }

    /// Returns the status with another state and its message.
    fn moved(&self, state: State, message: Option<String>) -> SparkApplicationStatus {
        let mut status = self.status.clone();
        status.application_state = ApplicationState { state, error_message: message };
        status
    }

    /// Whether a submission of this application is running, for any run.
    fn is_submitting(&self) -> bool {
        let progress = self.seen.submission.as_ref().map(|submission| &submission.progress);
        progress == Some(&SubmissionProgress::Running)
    }

    /// Returns the event about the customizations that executors lack because another operator has submitted the
    /// application. Sent once, when this operator sees the application for the first time.
    fn taken_over(&self, next: &SparkApplicationStatus) -> Option<Event> {
        let known = self.application.status.as_ref().and_then(|status| status.observed_generation);
        if known.is_some() || !next.application_state.state.is_followed() {
            return None;
        }
        let lacking = crate::takeover::lacking(self.application);
        (!lacking.is_empty()).then(|| events::taken_over(self.name(), lacking.join(", ")))
    }

    /// Returns the event about the operator that has submitted the recorded run, if that is another one. Sent when the
    /// state changes: nothing else shows that two operators drive the same namespace.
    fn submitted_by_another_operator(&self, next: &SparkApplicationStatus) -> Option<Event> {
        let state = self.application.state();
        let run = history::run(&self.status, self.status.run_ordinal?).filter(|_| state.is_followed())?;
        let (other, we) = run.operator.as_deref().zip(self.policy.operator.as_deref())?;
        let is_news = other != we && next.application_state.state != state;
        is_news.then(|| events::submitted_by_another_operator(self.name(), other, we))
    }

    /// Returns the event about executors that the API server refuses. Sent once for each run.
    fn executors_refused(&self, next: &SparkApplicationStatus) -> Option<Event> {
        let is_news = conditions::executors_refused(&self.status.conditions).is_none();
        let condition = conditions::executors_refused(&next.conditions).filter(|_| is_news)?;
        Some(events::executors_refused(self.name(), &condition.message))
    }

    /// Returns the events about ports that can have no Ingress because their addresses are invalid. Sent once for each
    /// run.
    fn without_address(&self, next: &SparkApplicationStatus) -> Vec<Event> {
        if next.submission_id == self.status.submission_id || !next.application_state.state.is_followed() {
            return Vec::new();
        }
        let id = next.spark_application_id.as_deref();
        let why = without_address(self.application, id, &self.policy.submission.exposure);
        why.into_iter().map(events::not_exposed).collect()
    }

    /// Adds the finalizer that keeps the driver's pod until its outcome is recorded, if the admin has turned this on.
    /// Removes the finalizer from a driver whose outcome is recorded or no longer needed. The driver may be that of a
    /// deleted application of the same name: if no operator was running at the time of that deletion, nothing else
    /// releases that driver, and this application would wait for it for ever.
    fn keep_or_release(&self, plan: &mut Plan) {
        let driver = self.seen.driver.pod().filter(|pod| pod.is_of_application(self.name()));
        let Some(pod) = driver else { return };
        let recorded = self.status.submission_id.as_deref().unwrap_or_default();
        let is_followed = self.application.state().is_followed()
            && !suspension::is_leaving(&plan.status)
            && pod.is_controlled_by(self.uid())
            && pod.is_of(Role::Driver, recorded);
        // The admin may have turned the protection off in the meantime.
        let is_wanted = is_followed && self.policy.protects_driver_outcome;
        let begins = is_wanted
            && !pod.protected
            && !pod.terminating
            && plan.status.application_state.state.is_followed();
        if begins || pod.protected && !is_wanted {
            let (name, uid) = (pod.name.clone(), pod.uid.clone());
            plan.actions.push(Action::ProtectDriver { name, uid, protect: begins });
        }
    }

    /// Deletes the submission pods of recorded runs, whose outcome is no longer needed. If a run is to be submitted, a
    /// submission pod that may belong to that run is kept. A submission pod of a run that was never recorded is among
    /// the strays.
    fn delete_old_submission_pods(&self, plan: &mut Plan) {
        let launches = questions(self.application).launch;
        for pod in self.seen.submission_pods.iter().filter(|pod| pod.is_controlled_by(self.uid())) {
            let is_deleted = Action::delete(pod).is_some_and(|delete| plan.actions.contains(&delete));
            let is_old = !launches || pod.submission_id.as_deref().is_some_and(|id| self.has_recorded(id));
            if is_old && !is_deleted {
                plan.actions.extend(Self::delete_submission_pod(pod));
            }
        }
    }

    /// Whether the run with this id is recorded, as the present run or as an earlier one.
    fn has_recorded(&self, id: &str) -> bool {
        let recorded = self.status.runs.iter().filter_map(|run| run.submission_id.as_deref());
        recorded.chain(self.status.submission_id.as_deref()).any(|recorded| recorded == id)
    }
}

/// Returns the name of the present run's driver.
fn driver_name(pass: &Pass) -> String {
    let recorded = pass.status.driver_info.pod_name.clone();
    recorded.unwrap_or_else(|| driver_pod_name(pass.application))
}

/// Returns the actions for `pods` of the application with this uid when the operator stops driving its namespace: the
/// finalizer is removed from all drivers, because this operator will not record their outcome. A driver may have the
/// finalizer although its record in the cache does not show it yet.
pub fn leave(pods: &[PodSummary], uid: &str, policy: &Policy) -> Vec<Action> {
    let is_own = |pod: &&PodSummary| pod.role == Some(Role::Executor) || pod.is_controlled_by(uid);
    let own: Vec<_> = pods.iter().filter(is_own).collect();
    let drivers = own.iter().filter(|pod| pod.role == Some(Role::Driver));
    let kept = drivers.filter(|pod| pod.protected || policy.protects_driver_outcome);
    kept.map(|driver| release(driver)).chain(unattended(&own, policy)).collect()
}

/// Returns the actions of extensions for pods that continue to run without the operator.
fn unattended(pods: &[&PodSummary], policy: &Policy) -> impl Iterator<Item = Action> {
    policy.extensions.iter().flat_map(move |extension| extension.leave(pods))
}

fn release(driver: &PodSummary) -> Action {
    Action::ProtectDriver { name: driver.name.clone(), uid: driver.uid.clone(), protect: false }
}

/// Returns the actions for `pods` of an application that is being deleted or does not exist any more: they are deleted
/// at once, before Kubernetes' garbage collection would delete them, and the finalizer is removed from drivers, because
/// their outcome is not recorded any more. `there` is the metadata of the application that has this name now, if there
/// is one.
pub fn after_deletion(pods: &[PodSummary], there: Option<&ObjectMeta>, policy: &Policy) -> Vec<Action> {
    /// The finalizer on an application that is deleted while its pods are to be kept (`kubectl delete
    /// --cascade=orphan`).
    const ORPHAN: &str = "orphan";
    let is_orphaned = there.is_some_and(|there| there.finalizers.iter().flatten().any(|name| name == ORPHAN));
    let living =
        there.filter(|there| there.deletion_timestamp.is_none()).and_then(|there| there.uid.as_deref());
    let is_of_living = |pod: &PodSummary| living.is_some_and(|uid| pod.is_controlled_by(uid));
    // A pod without an owner was kept on purpose.
    let is_left =
        |pod: &PodSummary| pod.application.as_deref().is_some_and(|name| pod.is_of_application(name));
    let drivers: Vec<_> =
        pods.iter().filter(|pod| pod.role == Some(Role::Driver) && !is_of_living(pod)).collect();
    let kept = drivers.iter().filter(|pod| pod.protected).map(|pod| release(pod));
    // Only the operator uses these pods. Those of an orphaned application may have lost their owner already.
    let (others, sparks): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod.other_role().is_some());
    let others = others.into_iter().filter(|pod| pod.controller.is_none() || is_left(pod));
    // The rest follows when the watch reports the deletion of these.
    let others = others.filter(|pod| !is_of_living(pod)).filter_map(Action::delete).take(AT_ONCE);
    if is_orphaned {
        return kept.chain(others).chain(unattended(&sparks, policy)).collect();
    }
    // A driver that was kept continues to create executors.
    let is_kept = |pod: &&PodSummary| {
        let mut its = drivers.iter().filter(|driver| driver.submission_id == pod.submission_id);
        pod.submission_id.is_some() && its.any(|driver| !is_left(driver))
    };
    let kept_on: Vec<_> = sparks.into_iter().filter(is_kept).collect();
    // A new application with the same name may have executors of its own.
    let is_over = |pod: &&PodSummary| {
        // A StatefulSet or ReplicaSet owns the executors of Spark's other allocators: only the submission id leads to
        // their driver.
        let is_its = |driver: &&&PodSummary| {
            pod.is_executor_of(Some(&driver.uid)) && pod.submission_id == driver.submission_id
        };
        let driver = drivers.iter().find(is_its);
        driver.map_or(living.is_none(), |driver| is_left(driver))
    };
    let executors = pods.iter().filter(|pod| pod.is_executor_of(None)).filter(is_over);
    // The others follow when the watch reports the deletion of these, or with their driver.
    let executors = executors.filter_map(Action::delete).take(AT_ONCE);
    let submissions = pods.iter().filter(|pod| pod.submits && !is_of_living(pod));
    let left = drivers.iter().copied().chain(submissions).filter(|pod| is_left(pod));
    let actions = left.filter_map(Action::delete).chain(kept).chain(executors).chain(others);
    actions.chain(unattended(&kept_on, policy)).collect()
}
