//! Writes a status as the difference to the status that was read, on condition that the object was not written since.

use super::{Error, calls::Calls};
use api::Lenient;
use kube::{Client, Resource, ResourceExt};
use plan::merge_patch;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

/// Writes `status` in place of `before`. Fields that are equal in both are not sent, so fields that this version of the
/// operator does not know are kept.
///
/// # Errors
///
/// [`Error::Conflict`] if the object has changed, or is gone, since `object` was read: the caller has to plan again.
pub(super) async fn write<K: Resource<DynamicType = ()> + DeserializeOwned>(
    client: &Client,
    object: &K,
    before: &impl Serialize,
    status: &impl Serialize,
) -> Result<K, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let patch = json!({
        "metadata": {"resourceVersion": object.resource_version(), "uid": object.uid()},
        "status": merge_patch(&json!(before), &json!(status)),
    });
    let written = Calls::of::<K>(client, &namespace).patch_status(&object.name_any(), patch).await;
    let read = |text: String| serde_json::from_str::<Lenient<K>>(&text).map_err(kube::Error::SerdeError);
    match written.and_then(read) {
        // The operator can read the written object, because it has read the object before.
        Ok(written) => written.0.map_err(|_| Error::Conflict),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
            Err(Error::Conflict)
        }
        Err(error) => Err(Error::api("write of the status")(error)),
    }
}
