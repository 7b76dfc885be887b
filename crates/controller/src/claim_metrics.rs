//! Counts the namespaces that another operator has chosen as well.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

/// The number of namespaces that several operators have chosen.
#[derive(Clone, Debug)]
pub struct ClaimMetrics(Family<Drives, Gauge>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Drives {
    drives: bool,
}

impl ClaimMetrics {
    /// Creates the metric in `registry`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self(Family::default());
        let help = "Namespaces that another operator has chosen as well, by whether this one drives applications there";
        registry.register("spark_operator_contended_namespaces", help, metrics.0.clone());
        metrics.reset();
        metrics
    }

    /// Counts a namespace as `after` and no longer as `before`: whether this operator drives it; none if no other operator
    /// has chosen it.
    pub(super) fn replace(&self, before: Option<bool>, after: Option<bool>) {
        if let Some(drives) = before {
            self.0.get_or_create(&Drives { drives }).dec();
        }
        if let Some(drives) = after {
            self.0.get_or_create(&Drives { drives }).inc();
        }
    }

    /// Sets both numbers to 0.
    pub(super) fn reset(&self) {
        for drives in [false, true] {
            self.0.get_or_create(&Drives { drives }).set(0);
        }
    }
}

#[cfg(test)]
impl ClaimMetrics {
    pub(super) fn get(&self, drives: bool) -> i64 {
        self.0.get_or_create(&Drives { drives }).get()
    }
}
