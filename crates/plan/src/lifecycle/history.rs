//! The runs of an application and their outcomes, as `status.runs` has them.

use super::Pass;
use crate::{pod_record::PodRecord, run::Run};
use api::{RunRecord, SparkApplicationStatus, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::fmt;

/// How many runs are remembered.
const REMEMBERED: usize = 10;

/// Why there is a run.
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

/// How a run has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub state: State,
    /// A word.
    pub reason: String,
    pub exit_code: Option<i32>,
    pub message: Option<String>,
}

impl Outcome {
    pub(super) fn new(state: State, reason: &str, message: Option<String>) -> Self {
        Self { state, reason: reason.to_owned(), exit_code: None, message }
    }

    /// What the driver's pod says, where it has ended.
    pub(super) fn of_driver(state: State, pod: &PodRecord, message: Option<String>) -> Self {
        let ended = pod.ended.as_ref();
        let word = match (ended, &pod.message) {
            (Some(ended), _) if !ended.reason.is_empty() => ended.reason.clone(),
            (None, Some(message)) => message.split(':').next().unwrap_or_default().to_owned(),
            _ if state == State::Completed => "Completed".to_owned(),
            _ => "Error".to_owned(),
        };
        Self {
            state,
            reason: word,
            exit_code: ended.map(|ended| ended.exit_code),
            message: message.or_else(|| ended?.message.clone()),
        }
    }
}

impl Pass<'_> {
    /// Writes down that there will be another run, and why; the latest reason counts.
    pub(super) fn announce(status: &mut SparkApplicationStatus, cause: Cause) {
        let ordinal = status.run_ordinal.unwrap_or_default() + 1;
        let run = entry(status, ordinal);
        run.cause = Some(cause.to_string());
    }

    /// Writes down that a run was submitted.
    pub(super) fn began(status: &mut SparkApplicationStatus, run: &Run, cause: Cause, now: Timestamp) {
        let entry = entry(status, run.ordinal);
        entry.submission_id = Some(run.id.to_string());
        entry.cause.get_or_insert_with(|| cause.to_string());
        entry.submitted_time = Some(Time(now));
    }

    /// Writes down how the present run has ended, unless that is written down already.
    pub(super) fn ended(status: &mut SparkApplicationStatus, outcome: Outcome, now: Timestamp) {
        let ordinal = status.run_ordinal.unwrap_or_default();
        let (submission_id, submitted) =
            (status.submission_id.clone(), status.last_submission_attempt_time.clone());
        let run = entry(status, ordinal);
        if run.state.is_some() {
            return;
        }
        // One of KF's was never written down.
        run.submission_id = run.submission_id.take().or(submission_id);
        run.submitted_time = run.submitted_time.take().or(submitted);
        run.finished_time = Some(Time(now));
        run.state = Some(outcome.state);
        run.reason = Some(outcome.reason);
        run.exit_code = outcome.exit_code;
        run.message = outcome.message;
    }
}

/// What is written down of the run with this number.
pub(super) fn run(status: &SparkApplicationStatus, ordinal: i64) -> Option<&RunRecord> {
    status.runs.iter().find(|run| run.ordinal == ordinal)
}

fn entry(status: &mut SparkApplicationStatus, ordinal: i64) -> &mut RunRecord {
    let runs = &mut status.runs;
    let position = runs.iter().position(|run| run.ordinal == ordinal).unwrap_or_else(|| {
        runs.push(RunRecord { ordinal, ..RunRecord::default() });
        runs.len() - 1
    });
    let surplus = runs.len().saturating_sub(REMEMBERED);
    runs.drain(..surplus.min(position));
    let position = position - surplus.min(position);
    &mut runs[position]
}
