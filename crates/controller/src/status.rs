//! Writes a status as the difference to the status that was read, on condition that the object was not written since.

use super::Error;
use api::Lenient;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use plan::merge_patch;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

/// Writes `status` in place of `before`. Fields that are equal in both are not sent, so fields that this version of the
/// operator does not know are kept.
///
/// # Errors
///
/// [`Error::Conflict`] if the object has changed, or is gone, since `object` was read: the caller has to plan again.
pub(super) async fn write<K, S>(
    client: &Client,
    object: &K,
    before: &Option<S>,
    status: &S,
) -> Result<K, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
    S: Serialize,
{
    let objects = Api::<Lenient<K>>::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let patch = json!({
        "metadata": {"resourceVersion": object.resource_version(), "uid": object.uid()},
        "status": merge_patch(&json!(before), &json!(status)),
    });
    let params = PatchParams::default();
    match objects.patch_status(&object.name_any(), &params, &Patch::Merge(patch)).await {
        // The operator can read the written object, because it has read the object before.
        Ok(written) => written.0.map_err(|_| Error::Conflict),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
            Err(Error::Conflict)
        }
        Err(error) => Err(Error::api("write of the status")(error)),
    }
}
