//! Measures how many submissions there are, how they end, and how long they take.

use plan::{SubmissionProgress, submission_plan::Submitter};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use std::time::Instant;
use work::metric;

/// The metrics of submissions.
#[derive(Clone, Debug)]
pub struct SubmissionMetrics {
    waiting: Gauge,
    running: Gauge,
    durations: Family<Labels<2>, Histogram>,
    /// The submissions that need `spark-submit` in a submission pod, by the reason.
    pub(super) fallbacks: Family<Labels<1>, Counter>,
}

/// Names and values.
type Labels<const N: usize> = [(&'static str, &'static str); N];

/// The measurement of one submission. A submission whose measurement is dropped without a call of `ended` counts as
/// cancelled.
pub(super) struct Measured<'a> {
    metrics: &'a SubmissionMetrics,
    submitter: Submitter,
    begun: Option<Instant>,
    outcome: &'static str,
}

impl SubmissionMetrics {
    /// Creates the metrics in `registry`.
    pub fn new(registry: &mut Registry) -> Self {
        let buckets: fn() -> Histogram = || {
            Histogram::new([
                0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0,
            ])
        };
        let help = "Submissions that wait because others run";
        let waiting = metric(registry, "spark_operator_submissions_waiting", help, Gauge::default());
        let help = "Submissions that run";
        let running = metric(registry, "spark_operator_submissions_in_flight", help, Gauge::default());
        let help = "How long submissions took, by submitter and outcome, in seconds";
        let durations = Family::new_with_constructor(buckets);
        let durations = metric(registry, "spark_operator_submission_duration_seconds", help, durations);
        let help = "Submissions that only spark-submit can make, by reason";
        let fallbacks = metric(registry, "spark_operator_submission_fallbacks", help, Family::default());
        Self { waiting, running, durations, fallbacks }
    }

    /// Counts a submission as waiting, and returns its measurement.
    pub(super) fn waiting(&self, submitter: Submitter) -> Measured<'_> {
        self.waiting.inc();
        Measured { metrics: self, submitter, begun: None, outcome: "cancelled" }
    }
}

impl Measured<'_> {
    pub(super) fn begun(&mut self) {
        self.metrics.waiting.dec();
        self.metrics.running.inc();
        self.begun = Some(Instant::now());
    }

    pub(super) fn ended(mut self, progress: &SubmissionProgress) {
        self.outcome = match progress {
            SubmissionProgress::DriverExists => "driver_exists",
            SubmissionProgress::Failed(_) => "failed",
            SubmissionProgress::Running
            | SubmissionProgress::PodMade
            | SubmissionProgress::Succeeded { .. } => "succeeded",
        };
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        let Some(begun) = self.begun else {
            self.metrics.waiting.dec();
            return;
        };
        self.metrics.running.dec();
        let end = [("submitter", self.submitter.as_str()), ("outcome", self.outcome)];
        self.metrics.durations.get_or_create(&end).observe(begun.elapsed().as_secs_f64());
    }
}
