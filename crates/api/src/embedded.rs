//! Defines [`Embedded`], which keeps parts of the Kubernetes API inside our own types as the JSON that the user wrote.
//!
//! A `Volume` of a newer Kubernetes version than that of k8s-openapi has fields that our Rust types do not know.
//! Parsing the volume into those types and writing it again would silently lose these fields. So the JSON is kept, and
//! parsed only when its fields are needed.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A value of the Kubernetes type `T` as the user wrote it, including fields that `T` does not know. Two values are
/// equal if their JSON is equal.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Embedded<T> {
    json: Value,
    kind: PhantomData<fn() -> T>,
}

impl<T> Embedded<T> {
    /// Returns the JSON as the user wrote it.
    pub fn json(&self) -> &Value {
        &self.json
    }
}

impl<T> From<Value> for Embedded<T> {
    fn from(json: Value) -> Self {
        Self { json, kind: PhantomData }
    }
}

impl<T> fmt::Debug for Embedded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.json)
    }
}

/// The schema of `T` in k8s-openapi, with the schemas to which it refers under `$defs`: the program that writes the
/// CustomResourceDefinitions resolves these references (`crates/sparkctl/src/embedded.rs`).
impl<T: JsonSchema> JsonSchema for Embedded<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
        // Fields of ours have descriptions of their own.
        schema.remove("description");
        schema
    }
}

/// Returns the schema of a value that only Kubernetes interprets: it allows any object, and the API server prunes no
/// field.
///
/// Used for pod templates, as in Kubeflow's operator: the full schema of a template would be larger than all other
/// schemas together, and Spark passes the template to Kubernetes unchanged.
pub fn opaque(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

#[cfg(test)]
mod tests {
    use super::Embedded;
    use k8s_openapi::api::core::v1::Volume;
    use serde_json::json;

    #[test]
    fn fields_of_a_newer_kubernetes_survive() {
        let written =
            json!({"name": "scratch", "emptyDir": {"sizeLimit": "1Gi", "tiering": "cold"}, "wormhole": {}});
        let volume: Embedded<Volume> = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&volume).unwrap(), written);
    }
}
