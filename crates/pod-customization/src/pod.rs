//! Finds out whether a pod is a driver or an executor and in which container Spark runs, and collects the changes to
//! the pod.

use super::{Denial, Problem};
use api::{
    Bounds, Role, excerpt,
    names::{annotation, container, label},
    spark_container,
};
use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum length of a container's name in a message, in bytes, with the quotes: twice the 63 characters that
/// Kubernetes allows. A longer name is cut.
const LONGEST_NAME: usize = 126;

/// A pod in which Spark runs, as JSON, and the changes that have been collected for the pod.
#[derive(Debug)]
pub struct SparkPod<'p> {
    annotations: &'p Value,
    pub(super) role: Role,
    spark_container: usize,
    pub(super) metadata: Fields<'p>,
    pub(super) spec: Fields<'p>,
    /// The container in which Spark runs.
    pub(super) container: Fields<'p>,
}

impl<'p> SparkPod<'p> {
    /// Finds the pod's role and its Spark container, as [`spark_container`] does. Sidecars that the pod's annotation
    /// contains are left out: an earlier call may have added them.
    ///
    /// # Errors
    ///
    /// If the pod has no role, or if no container can be identified as Spark's.
    pub fn new(json: &'p Value) -> Result<Self, Denial> {
        let (metadata, spec) = (&json["metadata"], &json["spec"]);
        let role = metadata["labels"][label::SPARK_ROLE].as_str();
        let role = role.and_then(Role::from_label).ok_or(Denial::NoRole)?;
        let containers = spec["containers"].as_array().map_or(&[][..], Vec::as_slice);
        let annotations = &metadata["annotations"];
        let found = spark_container(
            &container::ALL,
            containers.iter().map(signs),
            &names_in(annotations, annotation::SIDECARS),
        );
        let found = found.filter(|spark_container| containers[*spark_container].is_object());
        let spark_container = found.ok_or_else(|| Denial::NoSparkContainer {
            expected: role.container(),
            seen: names(containers),
        })?;
        Ok(Self {
            annotations,
            role,
            spark_container,
            metadata: Fields::of(metadata),
            spec: Fields::of(spec),
            container: Fields::of(&containers[spark_container]),
        })
    }

    /// Returns the patch (RFC 6902) that turns the original pod into the changed pod.
    pub fn into_patch(self) -> Patch {
        let container = self.spark_container.to_string();
        let places: [(&[&str], Fields); 3] = [
            (&["metadata"], self.metadata),
            (&["spec"], self.spec),
            (&["spec", "containers", &container], self.container),
        ];
        Patch(places.into_iter().flat_map(|(place, fields)| fields.into_operations(place)).collect())
    }

    /// Returns the names in the list of objects that the annotation `key` contains.
    pub(super) fn names_in(&self, key: &str) -> BTreeSet<String> {
        names_in(self.annotations, key)
    }

    /// Whether the pod carries the annotation `key`.
    pub(super) fn has_annotation(&self, key: &str) -> bool {
        self.annotations[key].as_str().is_some()
    }
}

/// Returns the name and the first argument of a container.
fn signs(container: &Value) -> (Option<&str>, Option<&str>) {
    (container["name"].as_str(), container["args"][0].as_str())
}

/// Returns the names of the first ten containers, for a message.
fn names(containers: &[Value]) -> Vec<String> {
    const SHOWN: usize = 10;
    let name = |container: &Value| format!("`{}`", container["name"].as_str().unwrap_or_default());
    let more = (containers.len() > SHOWN).then(|| "…".to_owned());
    let names =
        containers.iter().take(SHOWN).map(|container| excerpt::beginning(name(container), LONGEST_NAME));
    names.chain(more).collect()
}

/// Returns the names in the list of objects that the annotation `key` contains; empty if the annotation is absent or
/// unreadable.
fn names_in(annotations: &Value, key: &str) -> BTreeSet<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let text = annotations[key].as_str().unwrap_or_default();
    let is_bounded = Bounds::OBJECT.excess(text, key).is_none();
    let named: Vec<Named> = is_bounded.then(|| serde_json::from_str(text).ok()).flatten().unwrap_or_default();
    named.into_iter().map(|named| named.name).collect()
}

/// The fields of an object in the pod, and the changes to these fields. The original object is borrowed, not copied,
/// since most of a pod stays unchanged.
#[derive(Debug)]
pub(super) struct Fields<'p> {
    before: &'p Value,
    /// Entries to append to a list, by the list's field.
    appended: BTreeMap<&'static str, Vec<Value>>,
    /// The new value of a field; `None` removes the field.
    set: BTreeMap<&'static str, Option<Value>>,
}

impl<'p> Fields<'p> {
    const fn of(before: &'p Value) -> Self {
        Self { before, appended: BTreeMap::new(), set: BTreeMap::new() }
    }

    /// Returns the present value of a field, changes included. Must not be used for fields to which entries are
    /// appended, because the value does not contain these entries.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.set.get(field).map_or_else(|| self.before.get(field), Option::as_ref)
    }

    /// Returns a copy of the object in a field, which the caller can change; an empty object if the field is absent or
    /// contains anything else.
    pub(super) fn object(&self, field: &str) -> Map<String, Value> {
        self.get(field).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// Replaces the whole value of a field.
    pub(super) fn set(&mut self, field: &'static str, value: impl Into<Value>) {
        self.set.insert(field, Some(value.into()));
    }

    pub(super) fn remove(&mut self, field: &'static str) {
        self.set.insert(field, None);
    }

    /// Returns the entries of a list, then the appended entries; only the appended entries if the field is absent.
    ///
    /// # Errors
    ///
    /// If the field contains anything but a list. The API server lets no such pod through, but other callers may send
    /// one.
    pub(super) fn list(&self, field: &str) -> Result<impl Iterator<Item = &Value>, Problem> {
        let before = match &self.before[field] {
            Value::Null => &[][..],
            Value::Array(entries) => entries,
            _ => return Err(Problem::new("", format!("the pod's `{field}` are not a list"))),
        };
        let appended = self.appended.get(field).map_or(&[][..], Vec::as_slice);
        Ok(before.iter().chain(appended))
    }

    /// Adds entries at the end of a list. A list that does not exist is created.
    pub(super) fn append(&mut self, field: &'static str, entries: Vec<Value>) {
        if !entries.is_empty() {
            self.appended.entry(field).or_default().extend(entries);
        }
    }

    fn into_operations(self, place: &[&str]) -> Vec<PatchOperation> {
        let place = PointerBuf::from_tokens(place.iter().copied());
        let path = |field: &str| place.with_trailing_token(field);
        let add = |path, value| PatchOperation::Add(AddOperation { path, value });
        let mut operations = Vec::new();
        for (field, entries) in self.appended {
            let path = path(field);
            if self.before[field].is_array() {
                let end = path.with_trailing_token("-");
                operations.extend(entries.into_iter().map(|entry| add(end.clone(), entry)));
            } else {
                operations.push(add(path, entries.into()));
            }
        }
        let is_changed = |(field, value): &(&str, Option<Value>)| self.before.get(*field) != value.as_ref();
        for (field, value) in self.set.into_iter().filter(is_changed) {
            let path = path(field);
            operations.push(match (self.before.get(field), value) {
                (None, Some(value)) => add(path, value),
                (Some(_), Some(value)) => PatchOperation::Replace(ReplaceOperation { path, value }),
                (_, None) => PatchOperation::Remove(RemoveOperation { path }),
            });
        }
        operations
    }
}

#[cfg(test)]
mod tests {
    use super::Fields;
    use serde_json::{Value, json};

    /// Returns the patch that results if `change` is applied to the container `before`.
    fn patch(before: Value, change: fn(&mut Fields)) -> Value {
        let mut fields = Fields::of(&before);
        change(&mut fields);
        json!(fields.into_operations(&["spec", "containers", "0"]))
    }

    #[test]
    fn entries_are_appended_to_the_list_or_create_it() {
        let change =
            |fields: &mut Fields| fields.append("env", vec![json!({"name": "A"}), json!({"name": "B"})]);
        let at_the_end =
            |name| json!({"op": "add", "path": "/spec/containers/0/env/-", "value": {"name": name}});
        assert_eq!(patch(json!({"env": [{"name": "C"}]}), change), json!([at_the_end("A"), at_the_end("B")]));
        let list =
            json!([{"op": "add", "path": "/spec/containers/0/env", "value": [{"name": "A"}, {"name": "B"}]}]);
        for before in [json!({}), json!({"env": null})] {
            assert_eq!(patch(before, change), list);
        }
        assert_eq!(patch(json!({"env": []}), |fields| fields.append("env", Vec::new())), json!([]));
    }

    #[test]
    fn a_changed_field_is_added_replaced_or_removed() {
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
    fn later_steps_see_the_changes_of_earlier_steps() {
        let before = json!({"image": "a", "env": [1], "args": 5});
        let mut fields = Fields::of(&before);
        fields.set("image", "b");
        fields.append("env", vec![json!(2)]);
        assert_eq!(fields.get("image"), Some(&json!("b")));
        let entries: Vec<_> = fields.list("env").unwrap().cloned().collect();
        assert_eq!(entries, [json!(1), json!(2)]);
        fields.remove("image");
        assert_eq!(fields.get("image"), None);
        let problem = fields.list("args").err().unwrap();
        assert_eq!(problem.text, "the pod's `args` are not a list");
    }
}
