//! Records the runs of an application and their outcomes in `status.runs`.

use super::Pass;
use api::{RunRecord, SparkApplicationStatus, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::fmt;
use submission::run::Run;

/// The greatest number of runs in `status.runs`.
const REMEMBERED: usize = 10;

/// The cause of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Created,
    SubmissionRetry,
    FailureRetry,
    RestartAlways,
    SpecEdited,
    RerunRequested,
    Resumed,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Returns how a run has ended, for [`Pass::ended`]. `reason` is one word.
pub(super) fn outcome(state: State, reason: &str, message: Option<String>) -> RunRecord {
    RunRecord { state: Some(state), reason: Some(reason.to_owned()), message, ..RunRecord::default() }
}

/// Returns the outcome that the pod of a driver shows, once the driver has ended.
pub(super) fn outcome_of_driver(state: State, pod: &pods::PodSummary, message: Option<String>) -> RunRecord {
    let ended = pod.ended.as_ref();
    let word = match (ended, &pod.message) {
        (Some(ended), _) if !ended.reason.is_empty() => &*ended.reason,
        (None, Some(message)) => message.split(':').next().unwrap_or_default(),
        _ if state == State::Completed => "Completed",
        _ => "Error",
    };
    let message = message.or_else(|| ended?.message.clone());
    RunRecord { exit_code: ended.map(|ended| ended.exit_code), ..outcome(state, word, message) }
}

impl Pass<'_> {
    /// Records that another run will follow, and its cause. If several causes are recorded for the same run, the latest
    /// one counts.
    pub(super) fn announce(status: &mut SparkApplicationStatus, cause: Cause) {
        let next = status.run_ordinal.unwrap_or_default() + 1;
        entry(status, next).cause = Some(cause.to_string());
    }

    /// Records that a run was submitted.
    pub(super) fn began(&self, status: &mut SparkApplicationStatus, run: &Run, cause: Cause) {
        let entry = entry(status, run.ordinal);
        entry.operator.clone_from(&self.policy.operator);
        entry.default_service_account = self.policy.default_account(self.application).map(str::to_owned);
        entry.submission_id = Some(run.id.to_string());
        entry.cause.get_or_insert_with(|| cause.to_string());
        entry.submitted_time = Some(Time(self.now));
    }

    /// Records how the present run has ended, unless its end is recorded already.
    pub(super) fn ended(status: &mut SparkApplicationStatus, outcome: RunRecord, now: jiff::Timestamp) {
        let ordinal = status.run_ordinal.unwrap_or_default();
        let (id, submitted) = (status.submission_id.clone(), status.last_submission_attempt_time.clone());
        let run = entry(status, ordinal);
        if run.state.is_some() {
            return;
        }
        // A run that Kubeflow's operator has submitted has no record yet, so its id and time are taken from the status.
        run.submission_id = run.submission_id.take().or(id);
        run.submitted_time = run.submitted_time.take().or(submitted);
        run.finished_time = Some(Time(now));
        run.state = outcome.state;
        run.reason = outcome.reason;
        run.exit_code = outcome.exit_code;
        run.message = outcome.message;
    }
}

/// Whether the operator itself has started this run, after another one.
pub(super) fn is_restart(run: &RunRecord) -> bool {
    let mut causes = [Cause::RestartAlways, Cause::FailureRetry, Cause::SubmissionRetry].into_iter();
    causes.any(|cause| run.cause == Some(cause.to_string()))
}

/// Returns the record of the run with this number.
pub(super) fn run(status: &SparkApplicationStatus, ordinal: i64) -> Option<&RunRecord> {
    status.runs.iter().find(|run| run.ordinal == ordinal)
}

fn entry(status: &mut SparkApplicationStatus, ordinal: i64) -> &mut RunRecord {
    let runs = &mut status.runs;
    let position = runs.iter().position(|run| run.ordinal == ordinal).unwrap_or_else(|| {
        runs.push(RunRecord { ordinal, ..RunRecord::default() });
        runs.len() - 1
    });
    let surplus = runs.len().saturating_sub(REMEMBERED).min(position);
    runs.drain(..surplus);
    &mut runs[position - surplus]
}
