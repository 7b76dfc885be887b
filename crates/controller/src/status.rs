//! Writes a status as the difference to the status that was read, on condition that the object was not written since.

use super::Error;
use api::Lenient;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

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

/// Returns the JSON Merge Patch (RFC 7386) that turns `before` into `after`.
fn merge_patch(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return after.clone() };
    let removed = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(value)).map(|(key, value)| {
        let value = before.get(key).map_or_else(|| value.clone(), |before| merge_patch(before, value));
        (key.clone(), value)
    });
    removed.chain(changed).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_sent() {
        let before = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1], "gone": {"x": 1}});
        let after = json!({"a": 1, "b": {"c": 2, "d": 4}, "e": [1, 2], "new": {}});
        assert_eq!(
            merge_patch(&before, &after),
            json!({"b": {"d": 4}, "e": [1, 2], "gone": null, "new": {}})
        );
        assert_eq!(merge_patch(&Value::Null, &after), after);
    }
}
