//! What the steps of a submission work on: the driver's pod as far as it is made, and what goes with it.

use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The driver so far. Each step adds to it.
#[derive(Clone)]
pub(super) struct Driver {
    /// All but Spark's container.
    pub pod: Value,
    /// Spark's container.
    pub container: Value,
    /// What the driver is to know beside the user's properties; later ones win.
    pub properties: BTreeMap<String, String>,
    /// The other objects, in the order in which Spark makes them.
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

    /// A volume called `name`, `source` being its type and what belongs to that, and where it is mounted.
    pub(super) fn mount(&mut self, name: &str, source: Value, path: &str) {
        self.mount_as(name, source, json!({"mountPath": path}));
    }

    /// The same with more to say of the mount than its path.
    pub(super) fn mount_as(&mut self, name: &str, mut source: Value, mut mount: Value) {
        source["name"] = name.into();
        mount["name"] = name.into();
        list(&mut self.pod["spec"], "volumes").push(source);
        list(&mut self.container, "volumeMounts").push(mount);
    }
}

/// The list `field` of `object`, made if there is none. A template has lists where they belong: its types have
/// been checked.
pub(super) fn list<'a>(object: &'a mut Value, field: &str) -> &'a mut Vec<Value> {
    let list = &mut object[field];
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut().expect("it was made one")
}

/// Sets `entries` in the map `field` of `object`, which is made if there are any.
pub(super) fn extend<'a>(
    object: &mut Value,
    field: &str,
    entries: impl IntoIterator<Item = (&'a str, String)>,
) {
    for (key, value) in entries {
        object[field][key] = value.into();
    }
}

/// An object that is never changed, with `data` in it.
pub(super) fn immutable(kind: &str, name: &str, data: Map<String, Value>) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "immutable": true});
    // Spark leaves empty maps out.
    if !data.is_empty() {
        object["data"] = Value::Object(data);
    }
    object
}

/// `content` as a Secret holds it.
pub(super) fn secret_data(content: &[u8]) -> Value {
    serde_json::to_value(ByteString(content.to_vec())).expect("bytes become base64, which is JSON")
}
