//! Decides whether and when a failed run or a failed submission is retried.

use super::history;
use crate::between;
use api::{RestartPolicyType, RunRecord, SparkApplicationSpec, SparkApplicationStatus, with_defaults};
use jiff::Timestamp;
use std::time::Duration;

/// An application that is started `Always` waits before it is started again if its runs are shorter than this.
const SHORT: Duration = Duration::from_secs(10);
/// The pause after the second short run in a row. It doubles with each further one.
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Whether and when another attempt follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    Never,
    /// Another attempt follows after this time; at once if it is zero.
    In(Duration),
}

/// Decides about another run after a successful one.
pub(super) fn of_success(
    spec: &SparkApplicationSpec,
    status: &SparkApplicationStatus,
    now: Timestamp,
) -> Retry {
    match spec.restart_policy.restart_type {
        RestartPolicyType::Always => Retry::In(rest_of_back_off(status, now)),
        RestartPolicyType::Never | RestartPolicyType::OnFailure => Retry::Never,
    }
}

/// Decides about another run after a failed one.
pub(super) fn of_failure(
    spec: &SparkApplicationSpec,
    status: &SparkApplicationStatus,
    now: Timestamp,
) -> Retry {
    let policy = with_defaults(spec.clone()).restart_policy;
    let (retries, interval) = (policy.on_failure_retries, policy.on_failure_retry_interval);
    match retry(policy.restart_type, retries, status.execution_attempts, interval, status, now) {
        Retry::In(pause) if policy.restart_type == RestartPolicyType::Always => {
            Retry::In(pause.max(rest_of_back_off(status, now)))
        }
        retry => retry,
    }
}

/// Returns the pause before the next run of an application that is started `Always`, counted from the end of its last
/// one: none unless that and the ones before were short and the operator itself has started it again. Without the pause
/// applications whose drivers end at once would take as many turns, requests and pods as a tenant likes.
pub(super) fn back_off(status: &SparkApplicationStatus) -> Option<Duration> {
    let is_short = |run: &RunRecord| {
        let times = run.submitted_time.as_ref().zip(run.finished_time.as_ref());
        times.is_some_and(|(submitted, finished)| between(submitted.0, finished.0) < SHORT)
    };
    let again = status.runs.iter().rev().take_while(|run| is_short(run) && history::is_restart(run)).count();
    let doublings = u32::try_from(again.checked_sub(1)?).unwrap_or(u32::MAX);
    Some(PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_PAUSE))
}

fn rest_of_back_off(status: &SparkApplicationStatus, now: Timestamp) -> Duration {
    // An unknown time is long ago.
    let over = status.termination_time.as_ref().map_or(Duration::MAX, |time| between(time.0, now));
    back_off(status).unwrap_or_default().saturating_sub(over)
}

/// Decides about another attempt after a failed submission.
pub(super) fn of_submission(
    spec: &SparkApplicationSpec,
    status: &SparkApplicationStatus,
    now: Timestamp,
) -> Retry {
    let policy = with_defaults(spec.clone()).restart_policy;
    let (retries, interval) =
        (policy.on_submission_failure_retries, policy.on_submission_failure_retry_interval);
    retry(policy.restart_type, retries, status.submission_attempts, interval, status, now)
}

/// Whether a failed submission is retried, now or later.
pub(super) fn is_submitted_again(spec: &SparkApplicationSpec, status: &SparkApplicationStatus) -> bool {
    of_submission(spec, status, Timestamp::UNIX_EPOCH) != Retry::Never
}

/// Decides whether another attempt follows. With `retries` retries, one attempt more than `retries` is allowed. As in
/// Kubeflow's operator, the pause grows with the number of submissions and begins with the last submission: a run that
/// took longer than the pause is retried at once.
fn retry(
    policy: RestartPolicyType,
    retries: Option<i32>,
    attempts: i32,
    interval: Option<i64>,
    status: &SparkApplicationStatus,
    now: Timestamp,
) -> Retry {
    let is_due = match policy {
        RestartPolicyType::Never => false,
        RestartPolicyType::OnFailure => retries.is_some_and(|retries| attempts <= retries),
        RestartPolicyType::Always => true,
    };
    if !is_due {
        return Retry::Never;
    }
    let factor = u64::try_from(status.submission_attempts).unwrap_or_default();
    let interval = u64::try_from(interval.unwrap_or_default()).unwrap_or_default();
    let pause = Duration::from_secs(interval.saturating_mul(factor));
    let submitted = status.last_submission_attempt_time.as_ref();
    Retry::In(pause.saturating_sub(submitted.map_or(Duration::MAX, |time| between(time.0, now))))
}
