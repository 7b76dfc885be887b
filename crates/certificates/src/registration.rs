//! Reports, in the log and as a metric, how the installed webhook configurations differ from the configurations that
//! the operator's flags require. Nothing is corrected: a configuration that an admin has installed belongs to the
//! admin.

use super::{differences::differences, webhook_configurations::Configurations};

use parking_lot::Mutex;
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use serde_json::Value;
use tracing::{info, warn};

/// The expected webhook configurations, and the differences that were found in the installed ones.
pub struct Registration {
    expected: Vec<Value>,
    /// The differences that were found last, so that each one is logged once.
    said: Mutex<Vec<String>>,
    differences: Gauge,
}

impl Registration {
    /// Creates the comparison with `expected`, the webhook configurations as they should be installed. Registers a
    /// gauge of the number of differences in `registry`.
    pub fn new(expected: Vec<Value>, registry: &mut Registry) -> Self {
        let differences = Gauge::default();
        let help = "In how many ways the installed webhook configurations differ from what the flags want";
        registry.register("spark_operator_webhook_registration_differences", help, differences.clone());
        Self { expected, said: Mutex::default(), differences }
    }

    /// Logs and counts how the installed configurations differ from the expected ones. A ValidatingWebhookConfiguration
    /// that is not installed is no difference: it is optional.
    pub(super) fn compare(&self, configurations: &Configurations) {
        let expected = |kind: &str| self.expected.iter().find(|configuration| configuration["kind"] == kind);
        let mut found = Vec::new();
        for (kind, name, webhooks) in configurations.webhooks() {
            let expected = expected(kind).and_then(|expected| expected["webhooks"].as_array());
            let differences = differences(expected.map_or(&[], Vec::as_slice), webhooks);
            found.extend(differences.into_iter().map(|difference| format!("{kind}/{name}: {difference}")));
        }
        self.differences.set(i64::try_from(found.len()).unwrap_or(i64::MAX));
        let mut said = self.said.lock();
        for difference in found.iter().filter(|difference| !said.contains(difference)) {
            warn!(
                difference,
                help = "spark-operator manifests webhook, with the flags of run, prints what should be there",
                "the webhook is not called when the flags want it to"
            );
        }
        if found.is_empty() && !said.is_empty() {
            info!("the webhook is called when the flags want it to");
        }
        *said = found;
    }
}
