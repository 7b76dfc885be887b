//! Decides whether and when a failed run or a failed submission is retried.

use api::{RestartPolicyType, SparkApplicationSpec, SparkApplicationStatus, with_defaults};
use jiff::Timestamp;
use std::time::Duration;

/// Whether and when another attempt follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    Never,
    /// Another attempt follows after this time; at once if it is zero.
    In(Duration),
}

/// Decides about another attempt after a failed run.
pub(super) fn of_run(spec: &SparkApplicationSpec, status: &SparkApplicationStatus, now: Timestamp) -> Retry {
    let policy = with_defaults(spec.clone()).restart_policy;
    let (retries, interval) = (policy.on_failure_retries, policy.on_failure_retry_interval);
    retry(policy.restart_type, retries, status.execution_attempts, interval, status, now)
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
    let since = status.last_submission_attempt_time.as_ref().map(|time| now.duration_since(time.0));
    let elapsed = since.map_or(Duration::MAX, |since| Duration::try_from(since).unwrap_or_default());
    Retry::In(pause.saturating_sub(elapsed))
}
