//! Finds what executors lack whose driver was submitted by another operator.
//!
//! Kubeflow's webhook reads from an application what a pod gets. The webhook here reads it from the pod's annotations,
//! which the driver gives to its executors; a driver that Kubeflow's operator has submitted has none to give.

use api::{Role, SparkApplication, State, names::annotation};
use pod_customization;

/// Whether the present run was submitted by an operator that does not number runs.
#[must_use]
pub fn is_anothers(application: &SparkApplication) -> bool {
    let status = application.status.as_ref();
    status.is_some_and(|status| status.submission_id.is_some() && status.run_ordinal.is_none())
}

/// What the executors lack that the driver of another operator makes from now on, in the contract's words: `env`,
/// `volumes`. Empty where no such driver lives.
#[must_use]
pub fn lacking(application: &SparkApplication) -> Vec<String> {
    let is_alive = matches!(application.state(), State::Submitted | State::Running | State::Unknown);
    if !is_anothers(application) || !is_alive {
        return Vec::new();
    }
    let annotations = pod_customization::annotations(application, Role::Executor).into_keys();
    let asked = annotations.filter(|key| key != annotation::CONTRACT);
    asked.map(|key| key.strip_prefix(annotation::PREFIX).unwrap_or(&key).to_owned()).collect()
}
