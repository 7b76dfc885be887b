//! Makes the application an owner of the driver pod. Executor pods are owned by their driver alone.

use super::{Concern, Problem, entries};
use api::{Embedded, Role, names::annotation, owner_reference};
use entries::OnClash;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

pub(super) const OWNER_REFERENCE: Concern<Embedded<OwnerReference>> = Concern {
    key: annotation::OWNER_REFERENCE,
    asked: |_, application, role| (role == Role::Driver).then(|| json!(owner_reference(application)).into()),
    apply: |pod, owner| {
        if pod.role == Role::Executor {
            return Err(Problem::new("", "belongs on a driver: an executor is owned by its driver alone"));
        }
        let owner = vec![owner.into_json()];
        entries::add(&mut pod.metadata, "ownerReferences", owner, &["uid"], OnClash::Append)
    },
};
