//! Builds the PodDisruptionBudget that keeps a driver on its node while the node is drained.

use api::{
    SparkApplication,
    names::{label, role},
};
use serde_json::{Value, json};

/// Returns the same PodDisruptionBudget that Kubeflow's operator creates, without its owner and labels: it has the name
/// of the driver's pod, and at least one driver must be available.
pub(super) fn disruption_budget(application: &SparkApplication, driver: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": driver},
        "spec": {
            "minAvailable": 1,
            "selector": {"matchLabels": {label::APP_NAME: application.metadata.name, label::SPARK_ROLE: role::DRIVER}},
        },
    })
}
