//! Which pod is Spark's, in which role, which of its containers does Spark run in, and what is to change in it?

use super::{Denial, Problem};
use crate::api::{
    Role,
    names::{annotation, container, label, role},
};
use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, iter::Chain, slice::Iter};

/// A pod that Spark runs in, as JSON, and the changes to it.
#[derive(Debug)]
pub struct SparkPod<'p> {
    annotations: Option<&'p Map<String, Value>>,
    role: Role,
    spark_container: usize,
    pub(super) metadata: Fields<'p>,
    pub(super) spec: Fields<'p>,
    /// Spark's container.
    pub(super) container: Fields<'p>,
}

impl<'p> SparkPod<'p> {
    /// Finds out the pod's role and its Spark container: the one with Spark's name, else the only one, else
    /// the one whose args begin with `driver` or `executor`. Sidecars that the pod's annotation asks for do not
    /// count: they may have been added by an earlier call.
    ///
    /// # Errors
    ///
    /// When the pod has no role, or no container can be told to be Spark's.
    pub fn new(json: &'p Value) -> Result<Self, Denial> {
        let metadata = json["metadata"].as_object().ok_or(Denial::NoRole)?;
        let role = json["metadata"]["labels"][label::SPARK_ROLE]
            .as_str()
            .and_then(Role::from_label)
            .ok_or(Denial::NoRole)?;
        let containers = json["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
        let is_sparks = |name: &str| {
            name == role.container() || (role == Role::Executor && name == container::EXECUTOR_SPARK_2)
        };
        let named = containers.iter().position(|c| c["name"].as_str().is_some_and(is_sparks));
        let annotations = json["metadata"]["annotations"].as_object();
        let unnamed = || unnamed(containers, &asked_sidecars(annotations));
        let found = named.or_else(unnamed).and_then(|spark_container| {
            let (spec, container) = (json["spec"].as_object()?, containers[spark_container].as_object()?);
            Some((spark_container, spec, container))
        });
        let (spark_container, spec, container) = found.ok_or_else(|| Denial::NoSparkContainer {
            expected: role.container(),
            seen: containers
                .iter()
                .map(|c| format!("`{}`", c["name"].as_str().unwrap_or_default()))
                .collect(),
        })?;
        Ok(Self {
            annotations,
            role,
            spark_container,
            metadata: Fields::of(metadata),
            spec: Fields::of(spec),
            container: Fields::of(container),
        })
    }

    /// What makes the pod as it was into the pod as it is to be (RFC 6902).
    #[must_use]
    pub fn into_patch(self) -> Patch {
        let container = self.spark_container.to_string();
        let places: [(&[&str], Fields); 3] = [
            (&["metadata"], self.metadata),
            (&["spec"], self.spec),
            (&["spec", "containers", &container], self.container),
        ];
        Patch(places.into_iter().flat_map(|(place, fields)| fields.into_operations(place)).collect())
    }

    pub(super) const fn role(&self) -> Role {
        self.role
    }

    /// Whether the pod carries the annotation `key`.
    pub(super) fn has_annotation(&self, key: &str) -> bool {
        self.annotations.is_some_and(|annotations| annotations.get(key).is_some_and(Value::is_string))
    }
}

/// The only container, or else the one whose args begin with a role, of those that are not `sidecars`.
fn unnamed(containers: &[Value], sidecars: &[String]) -> Option<usize> {
    let is_other = |container: &Value| !sidecars.iter().any(|sidecar| container["name"] == sidecar.as_str());
    let begins =
        |container: &Value| matches!(container["args"][0].as_str(), Some(role::DRIVER | role::EXECUTOR));
    let others: Vec<_> = (0..containers.len()).filter(|i| is_other(&containers[*i])).collect();
    match others[..] {
        [only] => Some(only),
        _ => others.into_iter().find(|i| begins(&containers[*i])),
    }
}

/// The names of the sidecars that the pod's annotation asks for; of one that cannot be read, none.
fn asked_sidecars(annotations: Option<&Map<String, Value>>) -> Vec<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let text = annotations.and_then(|annotations| annotations.get(annotation::SIDECARS)?.as_str());
    let named: Vec<Named> = serde_json::from_str(text.unwrap_or_default()).unwrap_or_default();
    named.into_iter().map(|sidecar| sidecar.name).collect()
}

/// The fields of an object in the pod, and what is to change in them. What was there is only looked at, since
/// most of a pod stays as it is.
#[derive(Debug)]
pub(super) struct Fields<'p> {
    before: &'p Map<String, Value>,
    /// What comes after a list's entries.
    appended: BTreeMap<&'static str, Vec<Value>>,
    /// What takes the place of a field, or nothing.
    set: BTreeMap<&'static str, Option<Value>>,
}

/// The entries of a list as it was, then those that come after.
pub(super) type Entries<'f> = Chain<Iter<'f, Value>, Iter<'f, Value>>;

impl<'p> Fields<'p> {
    const fn of(before: &'p Map<String, Value>) -> Self {
        Self { before, appended: BTreeMap::new(), set: BTreeMap::new() }
    }

    /// What stands in a field that nothing is appended to.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.set.get(field).map_or_else(|| self.before.get(field), Option::as_ref)
    }

    /// A copy of the object that stands in a field, to be changed; what is absent, or anything else, is an empty
    /// one.
    pub(super) fn object(&self, field: &str) -> Map<String, Value> {
        self.get(field).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// Puts `value` in place of the whole of a field.
    pub(super) fn set(&mut self, field: &'static str, value: impl Into<Value>) {
        self.set.insert(field, Some(value.into()));
    }

    pub(super) fn remove(&mut self, field: &'static str) {
        self.set.insert(field, None);
    }

    /// The entries of a list, with those that were appended; none where there is no list.
    ///
    /// # Errors
    ///
    /// When the field is something else, which no API server lets through, but others may call us.
    pub(super) fn list(&self, field: &str) -> Result<Entries<'_>, Problem> {
        let before = match self.before.get(field) {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(Problem::new("", format!("the pod's `{field}` are not a list"))),
        };
        Ok(before.iter().chain(self.appended.get(field).map_or(&[][..], Vec::as_slice)))
    }

    /// Adds entries to a list.
    pub(super) fn append(&mut self, field: &'static str, entries: impl IntoIterator<Item = Value>) {
        let mut entries = entries.into_iter().peekable();
        if entries.peek().is_some() {
            self.appended.entry(field).or_default().extend(entries);
        }
    }

    fn into_operations(self, place: &[&str]) -> Vec<PatchOperation> {
        let path = |field: &str| PointerBuf::from_tokens(place.iter().copied().chain([field]));
        let add = |path, value| PatchOperation::Add(AddOperation { path, value });
        let mut operations = Vec::new();
        for (field, entries) in self.appended {
            let path = path(field);
            if self.before.get(field).is_some_and(Value::is_array) {
                let end = path.with_trailing_token("-");
                operations.extend(entries.into_iter().map(|entry| add(end.clone(), entry)));
            } else {
                operations.push(add(path, entries.into()));
            }
        }
        for (field, value) in self.set {
            match (self.before.get(field), value) {
                (None, Some(value)) => operations.push(add(path(field), value)),
                (Some(before), Some(value)) if *before == value => {}
                (Some(_), Some(value)) => {
                    operations.push(PatchOperation::Replace(ReplaceOperation { path: path(field), value }));
                }
                (Some(_), None) => {
                    operations.push(PatchOperation::Remove(RemoveOperation { path: path(field) }));
                }
                (None, None) => {}
            }
        }
        operations
    }
}

/// `value` as an object; what is absent or null, or anything else, becomes an empty one.
pub(super) fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object just above")
}

#[cfg(test)]
mod tests {
    use super::Fields;
    use serde_json::{Value, json};

    /// What `change` makes of the container `before`: the patch.
    fn patch(before: Value, change: fn(&mut Fields)) -> Value {
        let before = before.as_object().unwrap();
        let mut fields = Fields::of(before);
        change(&mut fields);
        json!(fields.into_operations(&["spec", "containers", "0"]))
    }

    #[test]
    fn entries_come_after_those_that_are_there_or_make_a_list() {
        let change = |fields: &mut Fields| fields.append("env", [json!({"name": "A"}), json!({"name": "B"})]);
        let at_the_end =
            |name| json!({"op": "add", "path": "/spec/containers/0/env/-", "value": {"name": name}});
        assert_eq!(patch(json!({"env": [{"name": "C"}]}), change), json!([at_the_end("A"), at_the_end("B")]));
        let list =
            json!([{"op": "add", "path": "/spec/containers/0/env", "value": [{"name": "A"}, {"name": "B"}]}]);
        for before in [json!({}), json!({"env": null})] {
            assert_eq!(patch(before, change), list);
        }
        assert_eq!(patch(json!({"env": []}), |fields| fields.append("env", [])), json!([]));
    }

    #[test]
    fn a_field_is_added_replaced_or_removed_and_otherwise_left_alone() {
        let set = |fields: &mut Fields| fields.set("image", "b");
        let operation = |op| json!([{"op": op, "path": "/spec/containers/0/image", "value": "b"}]);
        assert_eq!(patch(json!({}), set), operation("add"));
        assert_eq!(patch(json!({"image": "a"}), set), operation("replace"));
        assert_eq!(patch(json!({"image": "b"}), set), json!([]));
        let remove = |fields: &mut Fields| fields.remove("image");
        assert_eq!(
            patch(json!({"image": "a"}), remove),
            json!([{"op": "remove", "path": "/spec/containers/0/image"}])
        );
        assert_eq!(patch(json!({}), remove), json!([]));
    }

    #[test]
    fn what_was_changed_is_what_later_steps_see() {
        let before = json!({"image": "a", "env": [1], "args": 5});
        let mut fields = Fields::of(before.as_object().unwrap());
        fields.set("image", "b");
        fields.append("env", [json!(2)]);
        assert_eq!(fields.get("image"), Some(&json!("b")));
        assert_eq!(fields.list("env").unwrap().collect::<Vec<_>>(), [&json!(1), &json!(2)]);
        fields.remove("image");
        assert_eq!(fields.get("image"), None);
        assert_eq!(fields.list("args").unwrap_err().text, "the pod's `args` are not a list");
    }
}
