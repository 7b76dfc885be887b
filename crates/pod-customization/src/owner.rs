//! Makes the application an owner of the driver pod. Executor pods are owned by their driver alone.

use super::{Concern, Problem, SparkPod, entries};
use api::{Embedded, Role, SparkApplication, names::annotation, owner_reference};
use entries::{KeyField, OnClash};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

pub(super) struct OwnerReferenceOfDriver;

impl Concern for OwnerReferenceOfDriver {
    const KEY: &'static str = annotation::OWNER_REFERENCE;
    type Value = Embedded<OwnerReference>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        (role == Role::Driver).then(|| Embedded::new(&owner_reference(application)))
    }

    fn apply(pod: &mut SparkPod, owner: Self::Value) -> Result<(), Problem> {
        if pod.role() == Role::Executor {
            return Err(Problem::new("", "belongs on a driver: an executor is owned by its driver alone"));
        }
        entries::add(
            &mut pod.metadata,
            "ownerReferences",
            vec![owner.into_json()],
            &[KeyField::required("uid")],
            OnClash::Append,
        )
    }
}
