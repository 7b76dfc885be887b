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
        metrics.set(false, 0);
        metrics.set(true, 0);
        metrics
    }

    /// Sets the number of such namespaces, of those in which this operator drives applications (`drives`) or of the others.
    pub(super) fn set(&self, drives: bool, namespaces: usize) {
        self.0.get_or_create(&Drives { drives }).set(i64::try_from(namespaces).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
impl ClaimMetrics {
    pub(super) fn get(&self, drives: bool) -> i64 {
        self.0.get_or_create(&Drives { drives }).get()
    }
}
