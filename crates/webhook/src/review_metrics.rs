//! The metrics of reviews: the requests, the answers, and how long the answers took.

use parking_lot::Mutex;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use work::metric;

/// The maximum number of reasons of denials in the metrics, which is more than there are checks, and the maximum length of
/// a reason in bytes.
const MOST_REASONS: usize = 200;
const LONGEST_REASON: usize = 128;
/// The label value for all unknown values.
pub(super) const OTHER: &str = "other";

/// The metrics of reviews. Anybody who reaches the webhook can send any request, so labels have only known values.
#[derive(Clone, Debug)]
pub struct ReviewMetrics {
    reviews: Family<Labels<4>, Counter>,
    denials: Family<[(&'static str, String); 2], Counter>,
    /// The reasons of denials so far: some fields have parts that the user has named.
    reasons: Arc<Mutex<BTreeSet<String>>>,
    durations: Family<Labels<1>, Histogram>,
    // The metrics of controller-runtime, which dashboards for Kubeflow's operator read.
    requests: Family<Labels<2>, Counter>,
    latencies: Family<Labels<1>, Histogram>,
    in_flight: Family<Labels<1>, Gauge>,
}

/// Names and values.
type Labels<const N: usize> = [(&'static str, &'static str); N];

/// A review that is in flight until this value is dropped.
pub(super) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

api::words! {
    /// How a review was answered.
    #[derive(Clone, Copy, Debug)]
    pub(super) enum Outcome {
        Allowed = "allowed",
        Patched = "patched",
        Denied = "denied",
        Unreadable = "unreadable",
        /// The object was refused without a complete review.
        Unanswered = "unanswered",
    }
}

/// Returns the annotation or field of a `subject` such as `spec.sparkConf[key]`, without the part in brackets or after
/// a space.
pub(super) fn reason(subject: &str) -> &str {
    subject.split(['[', ' ']).next().unwrap_or_default()
}

impl ReviewMetrics {
    /// Creates the metrics and registers them in `registry`.
    pub fn new(registry: &mut Registry) -> Self {
        let buckets: fn() -> Histogram =
            || Histogram::new([0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0]);
        let timed = || Family::new_with_constructor(buckets);
        let help = "Admission reviews, by path, kind of object, operation and result";
        let reviews = metric(registry, "spark_operator_webhook_reviews", help, Family::default());
        let help = "Denials of objects, by kind and annotation or field";
        let denials = metric(registry, "spark_operator_webhook_denials", help, Family::default());
        let help = "How long reviews took from their last byte to their answer, in seconds";
        let durations = metric(registry, "spark_operator_webhook_review_duration_seconds", help, timed());
        let help = "Admission requests, by webhook and HTTP status";
        let requests = metric(registry, "controller_runtime_webhook_requests", help, Family::default());
        let help = "How long admission requests took, in seconds";
        let latencies = metric(registry, "controller_runtime_webhook_latency_seconds", help, timed());
        let help = "Admission requests that are being answered";
        let in_flight =
            metric(registry, "controller_runtime_webhook_requests_in_flight", help, Family::default());
        Self { reviews, denials, reasons: Arc::default(), durations, requests, latencies, in_flight }
    }

    /// Records that a review begins.
    pub(super) fn begins(&self, path: &'static str) -> InFlight {
        let in_flight = self.in_flight.get_or_create_owned(&[("webhook", path)]);
        in_flight.inc();
        InFlight(in_flight)
    }

    pub(super) fn answered(
        &self,
        path: &'static str,
        kind: &'static str,
        operation: &str,
        outcome: Outcome,
        duration: Duration,
    ) {
        let operations = ["CREATE", "UPDATE", "DELETE", "CONNECT"];
        let operation = operations.into_iter().find(|known| *known == operation).unwrap_or(OTHER);
        let labels = [("path", path), ("kind", kind), ("operation", operation), ("result", outcome.as_str())];
        self.reviews.get_or_create(&labels).inc();
        self.durations.get_or_create(&[("path", path)]).observe(duration.as_secs_f64());
        let code = if matches!(outcome, Outcome::Unreadable) { "400" } else { "200" };
        self.requests.get_or_create(&[("code", code), ("webhook", path)]).inc();
        self.latencies.get_or_create(&[("webhook", path)]).observe(duration.as_secs_f64());
    }

    /// Records that an object of `kind` is denied because of `subject`.
    pub(super) fn denied(&self, kind: &'static str, subject: &str) {
        let mut reason = reason(subject);
        let mut reasons = self.reasons.lock();
        if reason.len() > LONGEST_REASON || reasons.len() >= MOST_REASONS && !reasons.contains(reason) {
            reason = OTHER;
        }
        reasons.insert(reason.to_owned());
        drop(reasons);
        self.denials.get_or_create(&[("kind", kind.to_owned()), ("reason", reason.to_owned())]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_series_is_limited_if_users_invent_fields() {
        let metrics = ReviewMetrics::new(&mut Registry::default());
        for number in 0..1_000 {
            metrics.denied("Pod", &format!("spec.driver.template.x{number}"));
        }
        metrics.denied("Pod", &"x".repeat(LONGEST_REASON + 1));
        assert!(metrics.reasons.lock().len() <= MOST_REASONS + 1);
        let others = [("kind", "Pod".to_owned()), ("reason", "other".to_owned())];
        assert_eq!(metrics.denials.get_or_create(&others).get(), 801);
    }
}
