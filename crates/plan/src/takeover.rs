//! Finds what executors lack if their driver was made by another operator.
//!
//! The webhook of Kubeflow's operator reads from the application how to customize its pods. This operator's webhook
//! reads it from the pods' annotations. A driver gives its executors the annotations that were set when the driver was
//! submitted, and a driver that Kubeflow has submitted has none to give.

use api::{Role, SparkApplication, State, names::annotation};
use pod_customization;

/// Whether the present run was submitted by an operator that does not number runs.
#[must_use]
pub fn is_anothers(application: &SparkApplication) -> bool {
    let status = application.status.as_ref();
    status.is_some_and(|status| status.submission_id.is_some() && status.run_ordinal.is_none())
}

/// Returns what executors will lack that the driver of another operator makes from now on, by the names of the
/// annotation contract: `env`, `volumes`. Empty if no such driver is alive.
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
