//! Defines bugs that the exploration must find. Each bug is made on purpose: in the input of the decision core, in its
//! plan, or in how the plan is carried out.

use crate::budget::listed;
use api::{SparkApplication, State, owner_reference};
use batch_schedulers::is_of_groups;
use plan::{Action, Driver, Observed, Plan, lifecycle::questions};
use pods::{Controller, Phase, PodSummary};
use submission::{
    spec_hash::spec_hash,
    submission_pod::{State as Submission, state as state_of},
};

listed! {
    pub enum Mutation {
        /// The operator does not wait for executors of the last run.
        OldExecutorsIgnored,
        /// Before a driver is created, the operator looks for an existing driver only in the cache, not on the API server.
        CachedDriverTrusted,
        /// If the cache has no other pods, the operator assumes that none exist, even if the cache may be behind.
        EmptyCacheTrusted,
        /// A driver that is not in the cache counts as gone, and the API server is not asked.
        UnseenTakenForGone,
        /// A driver is adopted before everything that it needs exists.
        HalfMadeAdopted,
        /// A driver of another owner is taken for the application's own.
        ForeignTakenForOurs,
        EndWithoutTime,
        StatusBeforeActions,
        /// The status is written even if the application was changed in the meantime.
        WrittenUnconditionally,
        /// An edit is recorded, but nothing is done about it.
        EditForgotten,
        /// A submission that is under way is neither ended nor waited for.
        SubmissionNotAwaited,
        /// The last request for another run is not recorded.
        RerunNotNoted,
        AttemptsNotCounted,
        /// The next run has the number of the last run.
        RunsNotCounted,
        NoTimer,
        /// Pods that are being deleted count as gone when the application is suspended.
        SuspendedAtOnce,
        /// The state of an application in a queue of Kueue is SUSPENDING while it has pods.
        QuotaGivenEarly,
        /// The next driver is made before the pods that are being deleted are gone.
        TerminatingTakenForGone,
        /// A driver whose end was not seen counts as succeeded.
        GoneTakenForSuccess,
        /// The operator does not wait for submission pods of other runs.
        OldSubmissionPodsIgnored,
        /// Submission pods are not deleted once their run is recorded.
        SubmissionPodsLeft,
        /// The group of a run is not deleted with the run.
        GroupLeft,
        /// The template of the executors stays as it is after an edit that leaves the run alone.
        TemplateNotRenewed,
        /// The driver is marked with its former template while the new one is written.
        TemplateWrittenUnmarked,
        /// The outcome of a submission is the outcome of the pod, whatever the pod's container reports.
        OutcomeOfPodCounts,
        /// A submission pod that was evicted counts as succeeded.
        EvictedTakenForSuccess,
        /// The failure of a submission pod counts more than the driver that the pod has made.
        FailureCountsMoreThanDriver,
        /// A driver is adopted while the `spark-submit` that has made it may still delete it.
        RevocableAdopted,
        /// A half-made driver is replaced while its submission pod is at work.
        HalfMadeReplaced,
        /// A submission pod of another owner is taken for the application's own.
        ForeignSubmissionPodTakenForOurs,
    }
}

impl Mutation {
    /// Applies the bug to the input of the decision core.
    pub fn of_question(self, application: &mut SparkApplication, seen: &mut Observed) {
        let state = application.state();
        let is_launched = questions(application).launch;
        match (self, &mut seen.driver, &mut application.status) {
            (Self::OldExecutorsIgnored, ..) => seen.strays.clear(),
            (Self::HalfMadeAdopted, Driver::Pod { complete, .. }, _) => *complete = true,
            (Self::ForeignTakenForOurs, Driver::Pod { pod, .. }, _) if pod.controller.is_none() => {
                let owner = owner_reference(application);
                pod.controller = Some(Controller { kind: owner.kind, name: owner.name, uid: owner.uid });
            }
            (Self::OldSubmissionPodsIgnored, ..) => seen.strays.retain(|pod| !pod.submits),
            (Self::OutcomeOfPodCounts, ..) => {
                for pod in seen.submission_pods.iter_mut().filter(|pod| pod.phase == Phase::Running) {
                    pod.ended = None;
                }
            }
            (Self::EvictedTakenForSuccess, ..) => {
                let evicted = |pod: &&mut PodSummary| pod.phase == Phase::Failed && pod.ended.is_none();
                for pod in seen.submission_pods.iter_mut().filter(evicted) {
                    pod.phase = Phase::Succeeded;
                }
            }
            (Self::FailureCountsMoreThanDriver, driver, _) => {
                let mut pods = seen.submission_pods.iter();
                if pods.any(|pod| matches!(state_of(pod), Submission::Failed(_))) {
                    *driver = Driver::Gone;
                }
            }
            (Self::RevocableAdopted, Driver::Pod { complete: true, .. }, _)
            | (Self::HalfMadeReplaced, Driver::Pod { complete: false, .. }, _)
                if is_launched =>
            {
                seen.submission_pods.clear()
            }
            (Self::ForeignSubmissionPodTakenForOurs, ..) => {
                let owner = owner_reference(application);
                let owner = Controller { kind: owner.kind, name: owner.name, uid: owner.uid };
                for pod in &mut seen.submission_pods {
                    pod.controller = Some(owner.clone());
                }
            }
            (Self::EditForgotten, _, Some(status))
                if status.spec_hash.as_deref().is_some_and(|hash| hash.starts_with("v1:")) =>
            {
                status.spec_hash = Some(spec_hash(&application.spec));
            }
            (Self::SubmissionNotAwaited, ..)
                if state == State::Suspending || state == State::Invalidating =>
            {
                seen.submission = None;
            }
            (Self::SuspendedAtOnce, Driver::Pod { pod, .. }, _)
                if state == State::Suspending && pod.terminating =>
            {
                seen.driver = Driver::Gone;
            }
            (Self::TerminatingTakenForGone, driver, _) => {
                if matches!(driver, Driver::Pod { pod, .. } if pod.terminating) {
                    *driver = Driver::Gone;
                }
                seen.strays.retain(|pod| !pod.terminating);
            }
            _ => {}
        }
    }

    /// Applies the bug to the plan of the decision core.
    pub fn of_plan(self, application: &SparkApplication, plan: &mut Plan) {
        let before = application.status.clone().unwrap_or_default();
        match self {
            Self::SubmissionPodsLeft if !questions(application).launch => {
                let is_of_submission = |name: &String| name.ends_with("-submission");
                plan.actions.retain(|action| match action {
                    Action::DeletePod { name, .. } => !is_of_submission(name),
                    Action::DeleteChildren(children) => {
                        !children.iter().all(|child| is_of_submission(&child.name))
                    }
                    _ => true,
                });
            }
            Self::GroupLeft => {
                plan.auxiliary.clear();
                for action in &mut plan.actions {
                    if let Action::DeleteChildren(children) = action {
                        children.retain(|child| !is_of_groups(&child.kind));
                    }
                }
            }
            Self::TemplateNotRenewed => {
                plan.actions.retain(|action| !matches!(action, Action::RenewTemplate { .. }));
            }
            Self::EndWithoutTime => plan.status.termination_time = None,
            Self::RerunNotNoted => plan.status.last_rerun = before.last_rerun,
            Self::AttemptsNotCounted => {
                plan.status.execution_attempts = 0;
                plan.status.submission_attempts = 0;
            }
            Self::RunsNotCounted => {
                plan.status.run_ordinal = before.run_ordinal.or(plan.status.run_ordinal);
            }
            Self::NoTimer if plan.status.application_state.state == State::SubmissionFailed => {
                plan.wake = None
            }
            Self::QuotaGivenEarly => {
                let state = &mut plan.status.application_state;
                if state.state == State::Running && state.error_message.is_some() {
                    state.state = State::Suspending;
                }
            }
            Self::GoneTakenForSuccess => {
                let state = &mut plan.status.application_state;
                if state.error_message.as_deref().is_some_and(|why| why.starts_with("driver pod not found")) {
                    state.state = State::Succeeding;
                }
            }
            _ => {}
        }
    }
}
