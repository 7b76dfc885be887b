//! Determines which customizations executors lack if another operator has submitted their driver.
//!
//! The webhook of Kubeflow's operator reads from the SparkApplication how to customize a pod. This operator's webhook
//! reads it from the pod's annotations. A driver copies to its executors the annotations that were set when the driver
//! was submitted, and a driver that Kubeflow's operator has submitted has no such annotations.

use api::{Role, SparkApplication, State, names::annotation};

/// Whether another operator has submitted the present run: it has a submission id but no ordinal, because only this
/// operator records ordinals.
pub fn is_anothers(application: &SparkApplication) -> bool {
    let status = application.status.as_ref();
    status.is_some_and(|status| status.submission_id.is_some() && status.run_ordinal.is_none())
}

/// Returns which customizations will be missing from the executors that the driver of another operator creates from now
/// on, by the names of the contract's annotations: `env`, `volumes`. Empty if no such driver is alive.
pub fn lacking(application: &SparkApplication) -> Vec<String> {
    let is_alive = matches!(application.state(), State::Submitted | State::Running | State::Unknown);
    if !is_anothers(application) || !is_alive {
        return Vec::new();
    }
    let annotations = pod_customization::annotations(application, Role::Executor).into_keys();
    let asked = annotations.filter(|key| key != annotation::CONTRACT);
    asked.map(|key| key.strip_prefix(annotation::PREFIX).unwrap_or(&key).to_owned()).collect()
}
