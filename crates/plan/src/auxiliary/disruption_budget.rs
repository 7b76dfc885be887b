//! Builds the PodDisruptionBudget that keeps a driver on its node while the node is drained.

use api::{
    SparkApplication,
    names::{label, role},
};
use serde_json::{Value, json};

pub(super) const KIND: &str = "PodDisruptionBudget";

/// Returns the same PodDisruptionBudget that Kubeflow's operator creates: it has the name of the driver's pod, and at
/// least one driver must be available.
pub(super) fn disruption_budget(application: &SparkApplication, driver: &str) -> Value {
    let name = application.metadata.name.as_deref().unwrap_or_default();
    json!({
        "apiVersion": "policy/v1",
        "kind": KIND,
        "metadata": {"name": driver, "labels": {label::LAUNCHED_BY: "true", label::APP_NAME: name}},
        "spec": {
            "minAvailable": 1,
            "selector": {"matchLabels": {label::APP_NAME: name, label::SPARK_ROLE: role::DRIVER}},
        },
    })
}
