//! Computes what a status write adds to the counters. Each transition is counted once, from the difference between the
//! old and the new status; an application whose status has not changed is not counted again.

use api::{ExecutorState, RunRecord, SparkApplication, SparkApplicationStatus, State};
use jiff::Timestamp;
use plan::{between, executors::ExecutorLimits};
use std::{collections::BTreeMap, time::Duration};

/// What one write of a status adds to the counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Whether the application was new before the write.
    pub began: bool,
    pub submission: Option<Submission>,
    /// Set if the run is a retry.
    pub retry: Option<Retry>,
    /// The time from the application's creation until its first driver ran.
    pub start_latency: Option<Duration>,
    pub end: Option<End>,
    /// How many executors have newly completed; `executors_failed` is how many have newly failed.
    pub executors_succeeded: u64,
    pub executors_failed: u64,
}

/// The outcome of a submission that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submission {
    Succeeded {
        /// The time since the application's creation; none if this is not the application's first run.
        latency: Option<Duration>,
    },
    Failed,
}

api::words! {
    /// The kind of a retry. The text is the cause as it is written in `status.runs`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Retry {
        Failure = "FailureRetry",
        Submission = "SubmissionRetry",
    }
}

/// The end of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub succeeded: bool,
    /// The time since the last submission, if there was one.
    pub execution_time: Option<Duration>,
}

/// Returns what to count after the status of `application` was replaced by `after` at `now`.
pub fn tally(
    application: &SparkApplication,
    after: &SparkApplicationStatus,
    now: Timestamp,
    limits: ExecutorLimits,
) -> Tally {
    let unwritten = SparkApplicationStatus::default();
    let before = application.status.as_ref().unwrap_or(&unwritten);
    let (from, to) = (before.application_state.state, after.application_state.state);
    let has_moved = from != to;
    let is_new_run = after.submission_id.is_some() && before.submission_id != after.submission_id;
    let created = application.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let age = || created.map(|created| between(created, now));
    let is_first_run = after.run_ordinal == Some(1);
    // An edit resets the attempts but not the ordinal, so this excludes the first start after an edit: the time since
    // the application's creation says nothing about how long that start took.
    let is_first_start =
        after.execution_attempts == 1 && after.run_ordinal == Some(i64::from(after.submission_attempts));
    let submission = match to {
        State::Submitted if is_new_run => {
            Some(Submission::Succeeded { latency: is_first_run.then(age).flatten() })
        }
        State::SubmissionFailed if is_new_run => Some(Submission::Failed),
        // The state of an application in a queue of Kueue stays what it was.
        State::PendingRerun | State::Resuming
            if is_new_run && present(after).is_some_and(|run| run.state == Some(State::SubmissionFailed)) =>
        {
            Some(Submission::Failed)
        }
        _ => None,
    };
    let has_ended = has_moved && matches!(to, State::Completed | State::Failed);
    let end = has_ended.then(|| {
        let times = after.last_submission_attempt_time.as_ref().zip(after.termination_time.as_ref());
        End {
            succeeded: to == State::Completed,
            execution_time: times.map(|(submitted, terminated)| between(submitted.0, terminated.0)),
        }
    });
    let none = BTreeMap::new();
    let known = if before.submission_id == after.submission_id { &before.executor_state } else { &none };
    let ended = |state| plan::executors::newly(state, known, &after.executor_state, limits);
    Tally {
        began: from == State::New && has_moved,
        submission,
        retry: is_new_run.then(|| retry(after)).flatten(),
        // The change from UNKNOWN to RUNNING is not a start: the driver's node has come back.
        start_latency: (has_moved && to == State::Running && from != State::Unknown && is_first_start)
            .then(age)
            .flatten(),
        end,
        executors_succeeded: ended(ExecutorState::Completed),
        executors_failed: ended(ExecutorState::Failed),
    }
}

/// Returns the kind of retry that the present run of `status` is; none if it is not a retry.
fn retry(status: &SparkApplicationStatus) -> Option<Retry> {
    let cause = present(status)?.cause.as_deref();
    Retry::ALL.into_iter().find(|retry| cause == Some(retry.as_str()))
}

fn present(status: &SparkApplicationStatus) -> Option<&RunRecord> {
    status.runs.iter().find(|run| Some(run.ordinal) == status.run_ordinal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    /// Returns what is counted when the status changes from `before` to `after` a minute after the application was
    /// created.
    fn counted(before: Value, after: Value) -> Tally {
        let application: SparkApplication = from_value(json!({
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "SparkApplication",
            "metadata": {"name": "pi", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}},
            "status": before,
        }))
        .unwrap();
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        tally(&application, &from_value(after).unwrap(), now, ExecutorLimits::default())
    }

    fn status(state: &str, run: i64, cause: &str) -> Value {
        json!({
            "applicationState": {"state": state},
            "driverInfo": {},
            "submissionID": format!("run-{run}"),
            "runOrdinal": run,
            "submissionAttempts": run,
            "executionAttempts": 1,
            "runs": [{"ordinal": run, "cause": cause}],
        })
    }

    const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

    #[test]
    fn each_step_of_a_life_is_counted_once() {
        let submitted = status("SUBMITTED", 1, "Created");
        let submission = Some(Submission::Succeeded { latency: MINUTE });
        let expected = Tally { began: true, submission, ..Tally::default() };
        assert_eq!(counted(Value::Null, submitted.clone()), expected);
        assert_eq!(counted(submitted.clone(), submitted.clone()), Tally::default());

        let running = status("RUNNING", 1, "Created");
        let expected = Tally { start_latency: MINUTE, ..Tally::default() };
        assert_eq!(counted(submitted.clone(), running.clone()), expected);
        assert_eq!(counted(status("UNKNOWN", 1, "Created"), running.clone()), Tally::default());
        assert_eq!(
            counted(running, submitted),
            Tally::default(),
            "a driver that starts anew is not submitted"
        );

        let mut completed = status("COMPLETED", 1, "Created");
        completed["lastSubmissionAttemptTime"] = json!("2026-01-01T00:00:30Z");
        completed["terminationTime"] = json!("2026-01-01T00:00:50Z");
        let end = End { succeeded: true, execution_time: Some(Duration::from_secs(20)) };
        let expected = Tally { end: Some(end), ..Tally::default() };
        assert_eq!(counted(status("SUCCEEDING", 1, "Created"), completed), expected);
    }

    #[test]
    fn retries_are_no_failures_and_have_no_latency() {
        let failed = status("SUBMISSION_FAILED", 1, "Created");
        let expected = Tally { began: true, submission: Some(Submission::Failed), ..Tally::default() };
        assert_eq!(counted(Value::Null, failed.clone()), expected);
        let again = status("SUBMISSION_FAILED", 2, "SubmissionRetry");
        let retry = Some(Retry::Submission);
        let expected = Tally { submission: Some(Submission::Failed), retry, ..Tally::default() };
        assert_eq!(counted(failed, again.clone()), expected, "the state is the same, the submission is not");
        let expected =
            Tally { submission: Some(Submission::Succeeded { latency: None }), retry, ..Tally::default() };
        assert_eq!(counted(again, status("SUBMITTED", 3, "SubmissionRetry")), expected);

        let mut queued = status("RESUMING", 2, "SubmissionRetry");
        queued["runs"][0]["state"] = json!("SUBMISSION_FAILED");
        let expected = Tally { submission: Some(Submission::Failed), retry, ..Tally::default() };
        assert_eq!(counted(status("RESUMING", 1, "Resumed"), queued), expected);

        let announced = status("PENDING_RERUN", 1, "Created");
        assert_eq!(counted(status("FAILING", 1, "Created"), announced.clone()), Tally::default());
        let tally = counted(announced, status("SUBMITTED", 2, "FailureRetry"));
        assert_eq!(tally.retry, Some(Retry::Failure));
    }

    #[test]
    fn what_is_edited_starts_anew_and_does_not_count_the_time_since_it_was_made() {
        let mut running = status("RUNNING", 4, "SpecEdited");
        running["submissionAttempts"] = json!(1);
        assert_eq!(counted(status("SUBMITTED", 4, "SpecEdited"), running), Tally::default());
    }

    #[test]
    fn executors_count_when_they_end_and_those_of_another_run_are_others() {
        let with = |run, executors: Value| {
            let mut status = status("RUNNING", run, "Created");
            status["executorState"] = executors;
            status
        };
        let ended = |before, after| {
            let tally = counted(before, after);
            (tally.executors_succeeded, tally.executors_failed)
        };
        let before = with(1, json!({"a-1": "RUNNING", "a-2": "PENDING", "a-3": "COMPLETED"}));
        let after =
            with(1, json!({"a-1": "FAILED", "a-2": "COMPLETED", "a-3": "COMPLETED", "a-4": "COMPLETED"}));
        assert_eq!(ended(before.clone(), after.clone()), (2, 1));
        assert_eq!(ended(after.clone(), after), (0, 0));
        assert_eq!(ended(before, with(2, json!({"a-3": "COMPLETED"}))), (1, 0));
    }
}
