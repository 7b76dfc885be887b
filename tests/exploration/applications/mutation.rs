//! Defines seeded bugs, which the exploration must find. Each changes the input of the decision core, its plan, or how
//! the model carries out the plan.

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
        /// The operator does not wait until the executors of the last run are deleted.
        OldExecutorsIgnored,
        /// Before a driver is created, the operator looks for an existing driver only in the cache, not on the API
        /// server.
        CachedDriverTrusted,
        /// If the cache has no other pods, the operator assumes that none exist, even if the cache may be behind.
        EmptyCacheTrusted,
        /// A driver that is not in the cache counts as deleted, without a GET to the API server.
        UnseenTakenForGone,
        /// A driver is adopted before all objects that it needs exist.
        HalfMadeAdopted,
        /// A driver of another owner counts as the application's own.
        ForeignTakenForOurs,
        /// A terminal status has no `terminationTime`.
        EndWithoutTime,
        /// The status is written before the actions are carried out.
        StatusBeforeActions,
        /// The status is written even if the application has changed since it was read.
        WrittenUnconditionally,
        /// After an edit, the operator behaves as if the run already had the new spec.
        EditForgotten,
        /// When an application is suspended or edited, a submission in progress is neither cancelled nor awaited.
        SubmissionNotAwaited,
        /// The last request for a rerun is not recorded.
        RerunNotNoted,
        /// The attempts in the status are always zero.
        AttemptsNotCounted,
        /// The next run has the ordinal of the last run.
        RunsNotCounted,
        /// No timer is set for the next submission after a failed one.
        NoTimer,
        /// While an application is being suspended, a driver that is being deleted counts as deleted.
        SuspendedAtOnce,
        /// An application in a queue of Kueue is SUSPENDING while its driver still exists.
        QuotaGivenEarly,
        /// The next driver is created before pods that are being deleted no longer exist.
        TerminatingTakenForGone,
        /// A driver whose end was not observed counts as succeeded.
        GoneTakenForSuccess,
        /// The operator does not wait until the submission pods of other runs are deleted.
        OldSubmissionPodsIgnored,
        /// Submission pods are not deleted after their run was recorded.
        SubmissionPodsLeft,
        /// The pod group of a run is not deleted with the run.
        GroupLeft,
        /// The executors' template is not renewed after an edit that does not end the run.
        TemplateNotRenewed,
        /// The driver is still marked with the old template while the new one is being written.
        TemplateWrittenUnmarked,
        /// The outcome of a submission is that of the pod, even if the container of `spark-submit` has reported another
        /// one.
        OutcomeOfPodCounts,
        /// A submission pod that was evicted counts as succeeded.
        EvictedTakenForSuccess,
        /// If a submission pod has failed, the driver that it has created is ignored.
        FailureCountsMoreThanDriver,
        /// A driver is adopted while the `spark-submit` that has created it may still delete it.
        RevocableAdopted,
        /// An incomplete driver is replaced while its submission pod still runs.
        HalfMadeReplaced,
        /// A submission pod of another owner counts as the application's own.
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
