//! Makes the application an owner of the driver pod. Executor pods are owned by their driver alone.

use super::{Problem, Step, entries, value};
use api::{Role, names::annotation, owner_reference};
use entries::OnClash;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

pub(super) const OWNER_REFERENCE: Step = Step {
    key: annotation::OWNER_REFERENCE,
    asked: |_, application, role| {
        (role == Role::Driver).then(|| value::written(&owner_reference(application)))
    },
    apply: |pod, text| {
        let owner = value::json::<OwnerReference>(text)?;
        if pod.role == Role::Executor {
            return Err(Problem::new("", "belongs on a driver: an executor is owned by its driver alone"));
        }
        entries::add(&mut pod.metadata, "ownerReferences", vec![owner], &["uid"], OnClash::Append)
    },
};
