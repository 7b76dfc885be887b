//! Computes what a status write adds to the counters. Each transition is counted once, from the difference between the
//! old and the new status; an application whose status has not changed is not counted again.

use api::{ExecutorState, SparkApplication, SparkApplicationStatus, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::between;
use std::{collections::BTreeMap, time::Duration};

/// What one write of a status adds to the counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    pub counts: Vec<Count>,
    pub times: Vec<(Timed, Duration)>,
    /// Set if the run is a retry.
    pub retry: Option<Retry>,
    /// How many executors have newly completed; `executors_failed` is how many have newly failed.
    pub executors_succeeded: u64,
    pub executors_failed: u64,
}

api::words! {
    /// A step in the life of an application. The text is the name of its counter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Count {
        Began = "spark_application_count",
        Submitted = "spark_application_submit_count",
        SubmissionFailed = "spark_application_failed_submission_count",
        Succeeded = "spark_application_success_count",
        Failed = "spark_application_failure_count",
    }
}

api::words! {
    /// A duration in the life of an application. The text is the name of its summary.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Timed {
        /// From the last submission to COMPLETED.
        Success = "spark_application_success_execution_time_seconds",
        /// From the last submission to FAILED.
        Failure = "spark_application_failure_execution_time_seconds",
        /// From the creation of the application to its first submission.
        Submission = "spark_application_submit_latency_seconds",
        /// From the creation of the application until its first driver ran.
        Start = "spark_application_start_latency_seconds",
    }
}

api::words! {
    /// The kind of a retry. The text is the cause as it is written in `status.runs`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Retry {
        Failure = "FailureRetry",
        Submission = "SubmissionRetry",
    }
}

/// Returns what to count after the status of `application` was replaced by `after` at `now`.
pub fn tally(
    application: &SparkApplication,
    after: &SparkApplicationStatus,
    now: Timestamp,
    limit: usize,
) -> Tally {
    let unwritten = SparkApplicationStatus::default();
    let before = application.status.as_ref().unwrap_or(&unwritten);
    let (from, to) = (before.application_state.state, after.application_state.state);
    let has_become = |state: State| to == state && from != to;
    let is_new_run = after.submission_id.is_some() && before.submission_id != after.submission_id;
    let is_submitted = is_new_run && to == State::Submitted;
    let is_first_run = after.run_ordinal == Some(1);
    // An edit resets the attempts but not the ordinal, so this excludes the first start after an edit: the time since
    // the application's creation says nothing about how long that start took.
    let is_first_start =
        after.execution_attempts == 1 && after.run_ordinal == Some(i64::from(after.submission_attempts));
    // The change from UNKNOWN to RUNNING is not a start: the driver's node has come back.
    let has_started = has_become(State::Running) && from != State::Unknown;
    let run = after.runs.iter().find(|run| Some(run.ordinal) == after.run_ordinal);
    let has_failed_to_submit = match to {
        State::SubmissionFailed => true,
        // An application in a queue of Kueue stays in this state although its submission has failed.
        State::PendingRerun | State::Resuming => {
            run.is_some_and(|run| run.state == Some(State::SubmissionFailed))
        }
        _ => false,
    };
    let counts = [
        (Count::Began, from == State::New && to != State::New),
        (Count::Submitted, is_submitted),
        (Count::SubmissionFailed, is_new_run && has_failed_to_submit),
        (Count::Succeeded, has_become(State::Completed)),
        (Count::Failed, has_become(State::Failed)),
    ];
    let time = |since: &Option<Time>, until: Timestamp| Some(between(since.as_ref()?.0, until));
    let age = time(&application.metadata.creation_timestamp, now);
    let ended = after.termination_time.as_ref();
    let execution = ended.and_then(|ended| time(&after.last_submission_attempt_time, ended.0));
    let times = [
        (Timed::Success, execution.filter(|_| has_become(State::Completed))),
        (Timed::Failure, execution.filter(|_| has_become(State::Failed))),
        (Timed::Submission, age.filter(|_| is_submitted && is_first_run)),
        (Timed::Start, age.filter(|_| has_started && is_first_start)),
    ];
    let cause = run.filter(|_| is_new_run).and_then(|run| run.cause.as_deref());
    let none = BTreeMap::new();
    let known = if before.submission_id == after.submission_id { &before.executor_state } else { &none };
    let ended = |state| plan::executors::newly(state, known, &after.executor_state, limit);
    Tally {
        counts: counts.into_iter().filter_map(|(count, holds)| holds.then_some(count)).collect(),
        times: times.into_iter().filter_map(|(timed, time)| Some((timed, time?))).collect(),
        retry: Retry::ALL.into_iter().find(|retry| cause == Some(retry.as_str())),
        executors_succeeded: ended(ExecutorState::Completed),
        executors_failed: ended(ExecutorState::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, Value, from_value, json};

    /// A state, the ordinal of the run, its cause, and other fields of a status.
    type Status = (String, i64, String, Map<String, Value>);
    /// A description of the case, the statuses before and after a write, and what is counted.
    type Case = (String, Option<Status>, Status, Vec<String>);

    /// Returns what is counted when the status changes from `before` to `after` a minute after the application was
    /// created.
    fn counted(before: Value, after: Value) -> Tally {
        let application: SparkApplication = from_value(json!({
            "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
            "metadata": {"name": "pi", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}},
            "status": before,
        }))
        .unwrap();
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        tally(&application, &from_value(after).unwrap(), now, plan::executors::MOST_EXECUTORS)
    }

    fn status((state, run, cause, others): Status) -> Value {
        let mut status = json!({
            "applicationState": {"state": state}, "driverInfo": {}, "submissionID": format!("run-{run}"),
            "runOrdinal": run, "submissionAttempts": run, "executionAttempts": 1,
            "runs": [{"ordinal": run, "cause": cause}],
        });
        status.as_object_mut().unwrap().extend(others);
        status
    }

    /// Returns a tally in the words of the cases.
    fn told(tally: &Tally) -> Vec<String> {
        let counts = tally.counts.iter().map(|count| format!("{count:?}"));
        let times = tally.times.iter().map(|(timed, time)| format!("{timed:?} {time:?}"));
        let retry = tally.retry.iter().map(|retry| format!("{retry:?} is retried"));
        let executors = [("completed", tally.executors_succeeded), ("failed", tally.executors_failed)];
        let executors = executors.into_iter().filter(|(_, number)| *number > 0);
        let executors = executors.map(|(how, number)| format!("executors {how}: {number}"));
        counts.chain(times).chain(retry).chain(executors).collect()
    }

    #[test]
    fn a_status_change_is_counted_as_its_case_expects() {
        let cases = include_str!("../../../tests/data/application-metrics/tallies.json");
        for (case, before, after, expected) in serde_json::from_str::<Vec<Case>>(cases).unwrap() {
            let found = counted(json!(before.map(status)), status(after));
            assert_eq!(told(&found), expected, "{case}");
        }
    }
}
