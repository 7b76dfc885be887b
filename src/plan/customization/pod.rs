//! Which pod is Spark's, in which role, and which of its containers does Spark run in?

use super::Denial;
use crate::api::{
    Role,
    names::{container, label, role},
};
use serde_json::{Map, Value};

/// A pod that Spark runs in, as JSON.
#[derive(Debug)]
pub struct SparkPod {
    json: Value,
    role: Role,
    spark_container: usize,
}

impl SparkPod {
    /// Finds out the pod's role and its Spark container: the one with Spark's name, else the only one, else
    /// the one whose args begin with `driver` or `executor`.
    ///
    /// # Errors
    ///
    /// When the pod has no role, or no container can be told to be Spark's.
    pub fn new(json: Value) -> Result<Self, Denial> {
        let role = json["metadata"]["labels"][label::SPARK_ROLE]
            .as_str()
            .and_then(Role::from_label)
            .ok_or(Denial::NoRole)?;
        let containers = json["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
        let is_sparks = |name: &str| {
            name == role.container() || (role == Role::Executor && name == container::EXECUTOR_SPARK_2)
        };
        let named = containers.iter().position(|c| c["name"].as_str().is_some_and(is_sparks));
        let only = || (containers.len() == 1).then_some(0);
        let started_by_role = || {
            let begins = |c: &Value| matches!(c["args"][0].as_str(), Some(role::DRIVER | role::EXECUTOR));
            containers.iter().position(begins)
        };
        let spark_container =
            named.or_else(only).or_else(started_by_role).ok_or_else(|| Denial::NoSparkContainer {
                expected: role.container(),
                seen: containers
                    .iter()
                    .map(|c| format!("`{}`", c["name"].as_str().unwrap_or_default()))
                    .collect(),
            })?;
        Ok(Self { json, role, spark_container })
    }

    /// The pod's JSON.
    #[must_use]
    pub fn into_json(self) -> Value {
        self.json
    }

    pub(super) const fn role(&self) -> Role {
        self.role
    }

    /// Whether the pod carries the annotation `key`.
    pub(super) fn has_annotation(&self, key: &str) -> bool {
        self.json["metadata"]["annotations"][key].is_string()
    }

    pub(super) fn metadata(&mut self) -> &mut Map<String, Value> {
        as_object(&mut self.json["metadata"])
    }

    pub(super) fn spec(&mut self) -> &mut Map<String, Value> {
        as_object(&mut self.json["spec"])
    }

    /// Spark's container.
    pub(super) fn container(&mut self) -> &mut Map<String, Value> {
        as_object(&mut self.json["spec"]["containers"][self.spark_container])
    }
}

/// `value` as an object; what was absent or null becomes an empty one.
pub(super) fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object just above")
}
