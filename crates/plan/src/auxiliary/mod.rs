//! Plans the auxiliary objects of an application: Services, Ingresses and PodDisruptionBudgets. The driver does not
//! depend on them: a missing auxiliary object never keeps a driver from running.

mod auxiliary_plan;

use crate::Policy;
use api::{
    SparkApplication,
    names::{label, role},
};
pub use auxiliary_plan::{
    AskedAddresses, AuxiliaryAction, AuxiliaryObject, AuxiliaryObjects, Try, controlling_application, mend,
};
use serde_json::{Value, json};
use submission::owned::owned;

/// Returns the objects that a reconcile has to create itself once a driver called `driver` exists: the
/// PodDisruptionBudget that keeps the driver on its node while the node is drained. As in Kubeflow's operator, it has the
/// name of the driver's pod, and at least one driver must be available.
pub fn of(application: &SparkApplication, driver: &str, policy: &Policy) -> Vec<Value> {
    if !policy.has_driver_pdb || application.spec.driver_pod_disruption_budget != Some(true) {
        return Vec::new();
    }
    let labels = json!({label::APP_NAME: application.metadata.name, label::SPARK_ROLE: role::DRIVER});
    let budget = json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": driver},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    });
    vec![owned(budget, application, None, label::LAUNCHED_BY)]
}
