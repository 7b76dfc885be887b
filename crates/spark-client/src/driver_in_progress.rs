//! Contains the data on which the steps of a submission work: the driver's pod so far, its properties and the other
//! objects.

use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The driver as far as the steps have built it. Each step adds to it.
#[derive(Clone)]
pub(super) struct Driver {
    /// The driver's pod without Spark's container.
    pub pod: Value,
    /// Spark's container.
    pub container: Value,
    /// The properties that steps set. They override the user's properties, and a later step overrides an earlier one.
    pub properties: BTreeMap<String, String>,
    /// The other objects, in the order in which Spark creates them.
    pub children: Vec<Value>,
}

impl Driver {
    pub(super) fn set_property(&mut self, key: &str, value: impl Into<String>) {
        self.properties.insert(key.to_owned(), value.into());
    }

    pub(super) fn add_env(&mut self, name: &str, value: &str) {
        list(&mut self.container, "env").push(json!({"name": name, "value": value}));
    }

    pub(super) fn add_args(&mut self, args: impl IntoIterator<Item = String>) {
        list(&mut self.container, "args").extend(args.into_iter().map(Value::String));
    }

    /// Adds the volume `name` to the pod and mounts it at `path` into Spark's container. `source` contains the volume's
    /// type and the fields of that type, for instance `{"emptyDir": {}}`.
    pub(super) fn mount(&mut self, name: &str, source: Value, path: &str) {
        self.mount_as(name, source, json!({"mountPath": path}));
    }

    /// Adds the volume `name` in the same way as `mount`, but takes a complete entry of `volumeMounts` (without the
    /// name) in place of the path.
    pub(super) fn mount_as(&mut self, name: &str, mut source: Value, mut mount: Value) {
        source["name"] = name.into();
        mount["name"] = name.into();
        list(&mut self.pod["spec"], "volumes").push(source);
        list(&mut self.container, "volumeMounts").push(mount);
    }
}

/// Returns the list in the field `field` of `object`, and creates it if the field is not a list. The types of a pod
/// template have been checked before, so every field that must be a list is one or is unset.
pub(super) fn list<'a>(object: &'a mut Value, field: &str) -> &'a mut Vec<Value> {
    let list = &mut object[field];
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut().expect("the field is a list now")
}

/// Adds `entries` to the map in the field `field` of `object`. The map is created if there are entries.
pub(super) fn extend<'a, V: Into<Value>>(
    object: &mut Value,
    field: &str,
    entries: impl IntoIterator<Item = (&'a str, V)>,
) {
    for (key, value) in entries {
        object[field][key] = value.into();
    }
}

/// Returns an immutable object (`immutable: true`) with `data` in it.
pub(super) fn immutable(kind: &str, name: &str, data: Map<String, Value>) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "immutable": true});
    // No empty map is written, because Spark omits empty maps.
    if !data.is_empty() {
        object["data"] = Value::Object(data);
    }
    object
}

/// Returns `content` in the form in which a Secret contains it: base64.
pub(super) fn secret_data(content: &[u8]) -> Value {
    serde_json::to_value(ByteString(content.to_vec())).expect("bytes become base64, which is JSON")
}
