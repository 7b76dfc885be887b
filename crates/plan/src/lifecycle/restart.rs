//! Decides whether and when a failed run or a failed submission is retried. The pause before the next attempt is zero
//! if the attempt follows at once, and `None` if no other attempt follows.

use super::{Pass, history};
use crate::between;
use api::{RestartPolicy, RestartPolicyType, RunRecord, SparkApplicationSpec, SparkApplicationStatus};
use std::time::Duration;

/// An application with restart policy `Always` waits before its next run if its runs are shorter than this.
const SHORT: Duration = Duration::from_secs(10);
/// The pause after the second short run in a row. It doubles with each further one.
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

impl Pass<'_> {
    /// Returns the pause before another run after a successful one.
    pub(super) fn retry_of_success(&self) -> Option<Duration> {
        let is_due = self.application.spec.restart_policy.restart_type == RestartPolicyType::Always;
        // Without a termination time, the pause is over.
        let ended = self.status.termination_time.as_ref();
        let over = ended.map_or(Duration::MAX, |ended| between(ended.0, self.now));
        is_due.then(|| back_off(&self.status).unwrap_or_default().saturating_sub(over))
    }

    /// Returns the pause before another run after a failed one.
    pub(super) fn retry_of_failure(&self) -> Option<Duration> {
        let policy = self.restart_policy();
        let is_due = is_due(policy.restart_type, policy.on_failure_retries, self.status.execution_attempts);
        let pause = self.rest_of_pause(policy.on_failure_retry_interval);
        is_due.then_some(pause.max(self.retry_of_success().unwrap_or_default()))
    }

    /// Returns the pause before another attempt after a failed submission.
    pub(super) fn retry_of_submission(&self) -> Option<Duration> {
        let pause = self.rest_of_pause(self.restart_policy().on_submission_failure_retry_interval);
        is_submitted_again(&self.application.spec, &self.status).then_some(pause)
    }

    fn restart_policy(&self) -> RestartPolicy {
        self.application.spec.restart_policy.clone().with_defaults()
    }

    /// Returns what is left of a pause of `interval` seconds. As in Kubeflow's operator, the pause grows with the number of
    /// submissions and begins with the last submission: a run that took longer than the pause is retried at once.
    fn rest_of_pause(&self, interval: Option<i64>) -> Duration {
        let factor = u64::try_from(self.status.submission_attempts).unwrap_or_default();
        let interval = u64::try_from(interval.unwrap_or_default()).unwrap_or_default();
        let submitted = self.status.last_submission_attempt_time.as_ref();
        let over = submitted.map_or(Duration::MAX, |submitted| between(submitted.0, self.now));
        Duration::from_secs(interval.saturating_mul(factor)).saturating_sub(over)
    }
}

/// Returns the pause before the next run of an application with restart policy `Always`, counted from the end of its
/// last run; `None` unless that run was short and the operator itself had started it again. The pause grows with the
/// number of such runs in a row. Without it, applications whose drivers end at once would cause any number of
/// reconciles, requests and pods.
pub(super) fn back_off(status: &SparkApplicationStatus) -> Option<Duration> {
    let is_short = |run: &RunRecord| {
        let times = run.submitted_time.as_ref().zip(run.finished_time.as_ref());
        times.is_some_and(|(submitted, finished)| between(submitted.0, finished.0) < SHORT)
    };
    let again = status.runs.iter().rev().take_while(|run| is_short(run) && history::is_restart(run)).count();
    let doublings = u32::try_from(again.checked_sub(1)?).unwrap_or(u32::MAX);
    Some(PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_PAUSE))
}

/// Whether a failed submission is retried, now or later.
pub(super) fn is_submitted_again(spec: &SparkApplicationSpec, status: &SparkApplicationStatus) -> bool {
    let policy = &spec.restart_policy;
    is_due(policy.restart_type, policy.on_submission_failure_retries, status.submission_attempts)
}

/// Whether another attempt follows after `attempts`: with `retries` retries, one attempt more than `retries` is allowed.
fn is_due(policy: RestartPolicyType, retries: Option<i32>, attempts: i32) -> bool {
    match policy {
        RestartPolicyType::Never => false,
        RestartPolicyType::OnFailure => retries.is_some_and(|retries| attempts <= retries),
        RestartPolicyType::Always => true,
    }
}
