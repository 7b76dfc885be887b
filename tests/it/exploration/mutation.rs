//! Which bugs must the exploration find? Each is made on purpose, in what the core is told, in what it says, or in how
//! that is carried out.

use spark_operator::{
    api::{SparkApplication, State, hash_version, spec_hash},
    plan::{Driver, Observed, Plan, owner_reference, pod_record::Controller},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Executors of the last run are not waited for.
    OldExecutorsIgnored,
    /// Whether there is a driver is read from the cache before one is made.
    CachedDriverTrusted,
    /// A driver that is not in the cache is gone, and the API server is not asked.
    UnseenTakenForGone,
    /// A driver is adopted before all that it needs is there.
    HalfMadeAdopted,
    /// What is not ours is taken for ours.
    ForeignTakenForOurs,
    EndWithoutTime,
    StatusBeforeActions,
    /// The status is written whoever has changed the application since.
    WrittenUnconditionally,
    /// An edit is noted and nothing is done about it.
    EditForgotten,
    /// A submission that is on its way is neither ended nor waited for.
    SubmissionNotAwaited,
    /// Which request for another run was the last is not written down.
    RerunNotNoted,
    AttemptsNotCounted,
    /// The next run has the number of the last.
    RunsNotCounted,
    NoTimer,
    /// Pods that are on their way out are taken for gone when the application is suspended.
    SuspendedAtOnce,
    /// What is being deleted is not waited for before the next driver is made.
    TerminatingTakenForGone,
    /// A driver whose end was not seen has succeeded.
    GoneTakenForSuccess,
}

impl Mutation {
    pub const ALL: [Self; 17] = [
        Self::OldExecutorsIgnored,
        Self::CachedDriverTrusted,
        Self::UnseenTakenForGone,
        Self::HalfMadeAdopted,
        Self::ForeignTakenForOurs,
        Self::EndWithoutTime,
        Self::StatusBeforeActions,
        Self::WrittenUnconditionally,
        Self::EditForgotten,
        Self::SubmissionNotAwaited,
        Self::RerunNotNoted,
        Self::AttemptsNotCounted,
        Self::RunsNotCounted,
        Self::NoTimer,
        Self::SuspendedAtOnce,
        Self::TerminatingTakenForGone,
        Self::GoneTakenForSuccess,
    ];

    /// The exploration that finds it.
    pub const fn shows_in(self) -> &'static str {
        match self {
            Self::OldExecutorsIgnored => "executors",
            Self::ForeignTakenForOurs => "name that is taken",
            Self::HalfMadeAdopted => "faults, by spark-submit",
            Self::StatusBeforeActions => "faults",
            Self::GoneTakenForSuccess | Self::AttemptsNotCounted | Self::RunsNotCounted | Self::NoTimer => {
                "faults"
            }
            Self::CachedDriverTrusted
            | Self::UnseenTakenForGone
            | Self::EndWithoutTime
            | Self::WrittenUnconditionally
            | Self::EditForgotten
            | Self::SubmissionNotAwaited
            | Self::RerunNotNoted
            | Self::SuspendedAtOnce
            | Self::TerminatingTakenForGone => "its user",
        }
    }

    /// In what the core is told.
    pub fn of_question(self, application: &mut SparkApplication, seen: &mut Observed) {
        let state = application.state();
        match (self, &mut seen.driver, &mut application.status) {
            (Self::OldExecutorsIgnored, ..) => seen.strays.clear(),
            (Self::HalfMadeAdopted, Driver::Pod { complete, .. }, _) => *complete = true,
            (Self::ForeignTakenForOurs, Driver::Pod { pod, .. }, _) if pod.controller.is_none() => {
                let owner = owner_reference(application);
                pod.controller = Some(Controller { kind: owner.kind, name: owner.name, uid: owner.uid });
            }
            (Self::EditForgotten, _, Some(status))
                if status.spec_hash.as_deref().is_some_and(|hash| hash_version(hash) == "v1") =>
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

    /// In what the core says.
    pub fn of_plan(self, application: &SparkApplication, plan: &mut Plan) {
        let before = application.status.clone().unwrap_or_default();
        match self {
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
