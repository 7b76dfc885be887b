//! Determines which customizations executors lack if another operator has submitted their driver.
//!
//! The webhook of Kubeflow's operator reads from the SparkApplication how to customize a pod. This operator's webhook
//! reads it from the pod's annotations. A driver copies to its executors the annotations that were set when the driver
//! was submitted, and a driver that Kubeflow's operator has submitted has no such annotations.

use api::{Role, SparkApplication, SparkApplicationStatus, annotation};

/// Returns which customizations will be missing from the executors that the driver of another operator creates from now
/// on, by the names of the contract's annotations: `env`, `volumes`. Empty if no such driver is alive.
pub fn lacking(application: &SparkApplication) -> Vec<String> {
    // Only this operator records ordinals.
    let is_anothers =
        |status: &SparkApplicationStatus| status.submission_id.is_some() && status.run_ordinal.is_none();
    if !application.state().is_followed() || !application.status.as_ref().is_some_and(is_anothers) {
        return Vec::new();
    }
    let annotations = pod_customization::annotations(application, Role::Executor).into_keys();
    let asked = annotations.filter(|key| key != annotation::CONTRACT);
    asked.map(|key| key.strip_prefix(annotation::PREFIX).unwrap_or(&key).to_owned()).collect()
}
