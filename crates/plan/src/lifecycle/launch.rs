//! Handles New, PENDING_RERUN, RESUMING and SUBMISSION_FAILED: creates the driver of the next run, and never a second
//! driver for the same run.
//!
//! A run is submitted either by the operator itself, whose progress is in memory ([`SubmissionProgress`]), or by a
//! submission pod, whose state is read from the pod ([`submission_pod::state`]). In both cases the driver's pod takes
//! precedence: if it exists with all objects that it needs, the operator follows it, whatever the outcome of the
//! submission is.

use super::{Cause, EVENTUALLY, Pass, SOON, conditions::SUBMITTED, history, restart};
use crate::{
    Action, Driver, Plan, SubmissionProgress, between,
    driver::{self, Standing},
    events,
    extension::AT_ONCE,
    submission_plan::{self, Chosen},
};
use api::{
    ApplicationState, ExecutorState, Role, SparkApplicationStatus, State, annotation, condition::RECONCILING,
    excerpt,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pods::PodSummary;
use std::time::Duration;
use submission::{
    driver_pod_name,
    run::{Run, SubmissionId},
    submission_pod::{self, State as Submission},
};

impl Pass<'_> {
    /// Submits the next run, unless an earlier attempt has created the driver or is still creating it.
    pub(super) fn launch(&self) -> Plan {
        let run = Run::next(self.application);
        let started = self.seen.submission.as_ref().filter(|started| started.id == run.id);
        let progress = started.map(|started| &started.progress);
        if progress.is_none() && self.is_submitting() {
            // The running submission is for another run, because the spec was edited in the meantime. The next
            // reconcile finds the objects that this submission still creates until it stops.
            return self.acting(Vec::from([Action::StopSubmission]));
        }
        let mut pods = self.seen.submission_pods.iter();
        let pod = pods.find(|pod| pod.submits_for(self.uid(), run.id.as_str()));
        let submission = pod.map(|pod| (pod, submission_pod::state(pod)));
        let may_go_on = submission.as_ref().is_some_and(|(_, submission)| submission.may_go_on());
        match (&self.seen.driver, progress) {
            (_, Some(SubmissionProgress::Running)) => self.stay(Some(SOON)),
            // The submission has ended, and the API server has confirmed every object. If the driver has already
            // disappeared again, the code for SUBMITTED determines the outcome.
            (Driver::Unseen | Driver::Gone, Some(SubmissionProgress::Succeeded { spark_application_id })) => {
                self.submitted(run, spark_application_id.clone())
            }
            (Driver::Unseen, _) => match submission {
                Some((pod, submission)) => self.await_submission(pod, &submission),
                None => self.stay(Some(SOON)),
            },
            (Driver::Pod { pod, complete }, _) => {
                match driver::standing(pod, *complete, self.uid(), &run.id, self.now) {
                    // If `spark-submit` fails after it has created all objects, it deletes its driver again. So a
                    // pending driver is not followed while its `spark-submit` may still be running.
                    Standing::Adoptable if may_go_on && pod.state() == ExecutorState::Pending => {
                        self.stay(Some(SOON))
                    }
                    Standing::Adoptable => self.submitted(run, pod.spark_application_id.clone()),
                    Standing::InTheMaking => self.stay(Some(SOON)),
                    // The submission pod is still creating the objects of this driver, however long that takes.
                    Standing::Leftover if may_go_on && pod.is_of(Role::Driver, run.id.as_str()) => {
                        self.stay(Some(SOON))
                    }
                    Standing::Leftover => self.forerunner_recorded(&run).unwrap_or_else(|| {
                        let beside = if pod.terminating { Vec::new() } else { self.clean_up() };
                        // The driver is deleted last: while it exists, the next reconcile finds that its objects have
                        // to be deleted.
                        let actions = beside.into_iter().chain(Action::delete(pod)).collect();
                        self.until_gone([&**pod], actions)
                    }),
                    // The pod belongs to a deleted application that had the same name. Kubernetes deletes the pods of
                    // that application.
                    Standing::Foreign if pod.is_of_application(self.name()) => {
                        self.until_gone([&**pod], Vec::new())
                    }
                    Standing::Foreign => self.submission_failed(run, taken(pod)),
                }
            }
            (Driver::Gone, Some(SubmissionProgress::Failed(why))) => self.submission_failed(run, why.clone()),
            // If a pod of another owner had the driver's name, that pod is gone now.
            (Driver::Gone, None | Some(SubmissionProgress::DriverExists | SubmissionProgress::PodMade)) => {
                let strays = self.strays(Some(&run.id));
                if !strays.is_empty() {
                    let recorded = self.forerunner_recorded(&run);
                    return recorded.unwrap_or_else(|| {
                        self.until_gone(strays.iter().copied(), Self::delete_strays(&strays))
                    });
                }
                match submission {
                    None => self.submit(run),
                    // The driver has already disappeared again. The code for SUBMITTED determines the outcome.
                    Some((_, Submission::Succeeded)) => self.submitted(run, None),
                    Some((_, Submission::Failed(why))) => self.submission_failed(run, why),
                    Some((pod, Submission::DriverExists)) => self.acting(Self::delete_submission_pod(pod)),
                    Some((pod, submission)) => self.await_submission(pod, &submission),
                }
            }
        }
    }

    /// Returns the plan that waits for the submission pod and writes to the status what the submission pod waits for.
    fn await_submission(&self, pod: &PodSummary, submission: &Submission) -> Plan {
        let (held, what) = match submission {
            Submission::Waiting(why) => {
                (why.as_ref().or(self.seen.start_failure.as_ref()), "is about to start")
            }
            Submission::Leaving => (None, "is being deleted, and is created again when it is gone"),
            _ => (None, "spark-submit is running"),
        };
        let what = held.map_or(what, String::as_str);
        let message = excerpt::explanation(format!("submission pod {}: {what}", pod.name));
        let mut status = self.status.clone();
        let is_news = status.application_state.error_message.as_ref() != Some(&message);
        // The event reports only what keeps the pod from starting, not that `spark-submit` is running.
        let news = held.filter(|_| is_news).map(|why| events::submission_pending(&pod.name, why));
        status.application_state.error_message = Some(message);
        // The watch of pods reports the end of the submission pod, so a long pause is enough.
        let wake = driver::until_next_lookup(pod, self.now).unwrap_or(EVENTUALLY);
        self.plan(status, Vec::from_iter(news), Some(wake))
    }

    /// Handles SUBMISSION_FAILED: submits again when the pause is over, as often as the restart policy allows.
    pub(super) fn after_failed_submission(&self) -> Plan {
        match self.retry_of_submission() {
            None => self.fail(),
            Some(pause) if pause.is_zero() => self.launch(),
            Some(pause) => self.stay(Some(pause)),
        }
    }

    /// Handles PENDING_RERUN and RESUMING: submits the next run, after a pause if that is the retry of a failed submission.
    pub(super) fn launch_when_due(&self) -> Plan {
        let next = history::run(&self.status, self.status.run_ordinal.unwrap_or_default() + 1);
        let cause = next.and_then(|run| run.cause.as_ref());
        let is_retry = cause == Some(&Cause::SubmissionRetry.to_string());
        match self.retry_of_submission().filter(|pause| is_retry && !pause.is_zero()) {
            None => self.launch(),
            Some(pause) => self.stay(Some(pause)),
        }
    }

    fn submit(&self, run: Run) -> Plan {
        let around = &self.seen.submission_environment;
        match submission_plan::choose(self.application, &run, around, self.policy, self.now) {
            Ok(Chosen { request, events }) => {
                let is_new = self.application.state() == State::New;
                let added = is_new.then(|| events::application_added(self.name()));
                let events = added.into_iter().chain(events).collect();
                Plan { events, ..self.acting(vec![Action::Submit(Box::new(request))]) }
            }
            Err(why) => self.submission_failed(run, why),
        }
    }

    fn submitted(&self, run: Run, spark_application_id: Option<String>) -> Plan {
        let mut status = self.with_run(run);
        status.spark_application_id = spark_application_id;
        status.execution_attempts = status.execution_attempts.saturating_add(1);
        self.note_ui(&mut status);
        self.plan(status, vec![events::application_submitted(self.name())], Some(SOON))
    }

    fn submission_failed(&self, run: Run, why: String) -> Plan {
        // The reason may quote a property value of any length.
        let why = excerpt::beginning(why, events::LONGEST_NOTE);
        let event = events::submission_failed(self.name(), &why);
        let children = self.children(&run, None);
        let mut status = self.with_run(run);
        let outcome = history::outcome(State::SubmissionFailed, "SubmissionFailed", Some(why.clone()));
        Self::ended(&mut status, outcome, self.now);
        let state = match self.application.state() {
            // Kueue takes SUBMISSION_FAILED for the end of the application and releases its quota, so the retry would
            // run without quota. An application that Kueue has admitted was suspended before, so only these two states
            // can precede its submission.
            state @ (State::PendingRerun | State::Resuming)
                if self.is_queued() && restart::is_submitted_again(&self.application.spec, &status) =>
            {
                Self::announce(&mut status, Cause::SubmissionRetry);
                state
            }
            _ => State::SubmissionFailed,
        };
        status.application_state = ApplicationState { state, error_message: Some(why) };
        let actions = (!children.is_empty()).then_some(Action::DeleteChildren(children));
        Plan { actions: Vec::from_iter(actions), ..self.plan(status, vec![event], Some(SOON)) }
    }

    /// Returns the status with `run` as the present run, which is submitted. Of the previous run, only the numbers of
    /// attempts are kept.
    fn with_run(&self, run: Run) -> SparkApplicationStatus {
        let mut status = self.status.clone();
        reset(&mut status, State::Submitted);
        self.began(&mut status, &run, self.cause());
        status.submission_id = Some(run.id.to_string());
        status.run_ordinal = Some(run.ordinal);
        status.spec_hash = Some(run.spec_hash);
        status.observed_generation = run.generation;
        status.last_submission_attempt_time = Some(Time(self.now));
        status.submission_attempts = status.submission_attempts.saturating_add(1);
        status.last_rerun = self.rerun_asked_for().cloned();
        status.driver_info.pod_name = Some(driver_pod_name(self.application));
        status
    }

    /// Returns the cause of the next run, for the case that no cause was recorded before.
    pub(super) fn cause(&self) -> Cause {
        match self.application.state() {
            State::SubmissionFailed => Cause::SubmissionRetry,
            State::Resuming => Cause::Resumed,
            _ => Cause::Created,
        }
    }

    /// Returns the value of the annotation by which the user requests another run.
    pub(super) fn rerun_asked_for(&self) -> Option<&String> {
        self.application.metadata.annotations.as_ref()?.get(annotation::RERUN)
    }

    /// Returns the pods that have to be gone before a driver is created for the run `id`: executors and submission pods
    /// of other runs, and drivers of this application with other names. If `id` is none, because no driver is to be
    /// created, executors and submission pods of all runs are included.
    pub(super) fn strays(&self, id: Option<&SubmissionId>) -> Vec<&PodSummary> {
        let is_of_other =
            |pod: &PodSummary| id.is_none_or(|id| pod.submission_id.as_deref() != Some(id.as_str()));
        let is_stray = |pod: &&PodSummary| match pod.role {
            Some(Role::Driver) => true,
            Some(Role::Executor) => is_of_other(pod),
            None => pod.submits && is_of_other(pod),
        };
        self.seen.strays.iter().filter(|pod| pod.is_made_for(self.uid())).filter(is_stray).collect()
    }

    /// Returns the actions that delete `strays`; at most [`AT_ONCE`] of the executors.
    pub(super) fn delete_strays(strays: &[&PodSummary]) -> Vec<Action> {
        let of_role = |role| {
            let pods = strays.iter().filter(move |pod| pod.role == Some(role));
            pods.filter_map(|pod| Action::delete(pod))
        };
        let submissions =
            strays.iter().filter(|pod| pod.submits).flat_map(|pod| Self::delete_submission_pod(pod));
        of_role(Role::Driver).chain(submissions).chain(of_role(Role::Executor).take(AT_ONCE)).collect()
    }

    /// Returns the actions that delete a submission pod and its ConfigMap; empty if the pod is being deleted already.
    /// The pod is deleted last, because the ConfigMap is found through the pod.
    pub(super) fn delete_submission_pod(pod: &PodSummary) -> Vec<Action> {
        let files = || Action::DeleteChildren(vec![submission_pod::config_map(&pod.name)]);
        Action::delete(pod).into_iter().flat_map(|delete| [files(), delete]).collect()
    }

    /// Returns the plan that carries out `actions` and leaves the state unchanged until their effect is visible.
    pub(super) fn acting(&self, actions: Vec<Action>) -> Plan {
        Plan { actions, ..self.stay(Some(SOON)) }
    }

    /// Returns the plan that carries out `actions` and waits until `pods` are gone. After [`LONG`], the status names
    /// one of the pods that are still there: the pods of a lost node stay until somebody deletes the node or the pods,
    /// and those with a finalizer until it is removed.
    pub(super) fn until_gone<'p>(
        &self,
        pods: impl IntoIterator<Item = &'p PodSummary>,
        actions: Vec<Action>,
    ) -> Plan {
        let mut plan = self.acting(actions);
        let is_long = self.waits_since().is_some_and(|since| between(since, self.now) >= LONG);
        // While there are actions, a pod that is not being deleted is deleted now or by a later plan.
        let is_left = |pod: &&PodSummary| is_long && (pod.terminating || plan.actions.is_empty());
        let mut left: Vec<_> = pods.into_iter().filter(is_left).map(stays).collect();
        let message = &mut plan.status.application_state.error_message;
        // Of several pods, the one that the status names already is named as long as it is there.
        if !left.is_empty() && !message.as_ref().is_some_and(|message| left.contains(message)) {
            *message = Some(left.swap_remove(0));
        }
        plan
    }

    /// Returns the time since which the application waits for its next driver, or for the end of its pods: the latest
    /// of the transitions to `Reconciling` and to `Submitted` = `False`, the last submission, and the creation of the
    /// application.
    fn waits_since(&self) -> Option<Timestamp> {
        let begins_wait = |condition: &&Condition| match &*condition.type_ {
            SUBMITTED => condition.status == "False",
            other => other == RECONCILING,
        };
        let transitions = self.status.conditions.iter().filter(begins_wait);
        let transitions = transitions.map(|condition| &condition.last_transition_time);
        let others =
            [&self.status.last_submission_attempt_time, &self.application.metadata.creation_timestamp];
        transitions.chain(others.into_iter().flatten()).map(|time| time.0).max()
    }
}

/// The waiting time after which the status names the pod whose end an application waits for. Most pods are gone after
/// their grace period of half a minute.
const LONG: Duration = Duration::from_secs(60);

/// Returns the message that an application waits for the end of `pod`.
fn stays(pod: &PodSummary) -> String {
    let name = &pod.name;
    format!(
        "waits until pod {name} is gone: see `kubectl describe pod {name}`; if its node is lost for good, delete the pod \
         with --force"
    )
}

/// Removes from `status` the fields that belong to a run that has ended, and writes the state that follows.
pub(super) fn reset(status: &mut SparkApplicationStatus, state: State) {
    status.application_state = ApplicationState { state, error_message: None };
    status.spark_application_id = None;
    status.termination_time = None;
    status.driver_info = api::DriverInfo::default();
    status.executor_state.clear();
}

/// Returns the message that no driver can be created because a pod of another owner has the driver's name.
fn taken(pod: &PodSummary) -> String {
    let PodSummary { name, controller, .. } = pod;
    let owner = match controller {
        Some(owner) => format!("belongs to {} {}", owner.kind, owner.name),
        None => "has no controller".to_owned(),
    };
    format!("pod {name} already exists and {owner}: delete it or set spec.driver.podName to another name")
}
