//! Plans the auxiliary objects of an application: Services, Ingresses and PodDisruptionBudgets. The driver does not
//! depend on them: a missing auxiliary object never keeps a driver from running.

mod auxiliary_plan;
mod disruption_budget;

use crate::Policy;
use api::{ObjectKey, ObjectKind, SparkApplication, names::label};
pub use auxiliary_plan::{
    AskedAddresses, AuxiliaryAction, AuxiliaryObject, AuxiliaryObjects, Try, controlling_application, mend,
    note, note_end, plan,
};
use serde_json::Value;
use submission::owned::owned;

/// Returns the objects that a reconcile has to create itself once a driver called `driver` exists.
pub fn of(application: &SparkApplication, driver: &str, policy: &Policy) -> Vec<Value> {
    let is_asked_for = application.spec.driver_pod_disruption_budget == Some(true);
    let budget = (policy.has_driver_pdb && is_asked_for)
        .then(|| disruption_budget::disruption_budget(application, driver));
    Vec::from_iter(budget.map(|budget| owned(budget, application, None, label::LAUNCHED_BY)))
}

/// Returns the objects that may have been created for a driver called `driver`, whatever the spec asks for now.
pub fn possible(driver: &str, policy: &Policy) -> Vec<ObjectKey> {
    let budget = || ObjectKind::POD_DISRUPTION_BUDGET.named(driver);
    Vec::from_iter(policy.has_driver_pdb.then(budget))
}
