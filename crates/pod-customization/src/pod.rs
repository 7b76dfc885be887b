//! A pod under review: its role, Spark's container in it, and the changes that are collected for it.

use super::{Denial, Problem};
use crate::borrowed_json::BorrowedJson;
use api::{
    Role, excerpt,
    names::{annotation, container, label, role},
};
use json_patch::{
    AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// Twice as long as Kubernetes lets the name of a container be: one that is longer is shown in part.
const LONGEST_NAME: usize = 126;

/// A pod that Spark runs in, as JSON, and the changes to it.
#[derive(Debug)]
pub struct SparkPod<'p> {
    annotations: &'p BorrowedJson<'p>,
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
    pub fn new(json: &'p BorrowedJson) -> Result<Self, Denial> {
        let (metadata, spec) = (&json["metadata"], &json["spec"]);
        let role = metadata["labels"][label::SPARK_ROLE].as_str();
        let role = role.and_then(Role::from_label).ok_or(Denial::NoRole)?;
        let containers = spec["containers"].as_list().unwrap_or_default();
        let is_sparks = |name: &str| {
            name == role.container() || (role == Role::Executor && name == container::EXECUTOR_SPARK_2)
        };
        let named = containers.iter().position(|c| c["name"].as_str().is_some_and(is_sparks));
        let annotations = &metadata["annotations"];
        let found = named.or_else(|| unnamed(containers, &asked_sidecars(annotations)));
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
        self.annotations[key].as_str().is_some()
    }
}

/// The names of the first ten containers, for a message.
fn names(containers: &[BorrowedJson]) -> Vec<String> {
    const SHOWN: usize = 10;
    let name = |container: &BorrowedJson| format!("`{}`", container["name"].as_str().unwrap_or_default());
    let more = (containers.len() > SHOWN).then(|| "…".to_owned());
    let names =
        containers.iter().take(SHOWN).map(|container| excerpt::beginning(name(container), LONGEST_NAME));
    names.chain(more).collect()
}

/// The only container, or else the one whose args begin with a role, of those that are not `sidecars`.
fn unnamed(containers: &[BorrowedJson], sidecars: &BTreeSet<String>) -> Option<usize> {
    let is_other =
        |container: &BorrowedJson| container["name"].as_str().is_none_or(|name| !sidecars.contains(name));
    let begins = |container: &BorrowedJson| {
        let first = container["args"].as_list().and_then(<[_]>::first);
        matches!(first.and_then(BorrowedJson::as_str), Some(role::DRIVER | role::EXECUTOR))
    };
    let others: Vec<_> = (0..containers.len()).filter(|i| is_other(&containers[*i])).collect();
    match others[..] {
        [only] => Some(only),
        _ => others.into_iter().find(|i| begins(&containers[*i])),
    }
}

/// The names of the sidecars that the pod's annotation asks for; of one that cannot be read, none.
fn asked_sidecars(annotations: &BorrowedJson) -> BTreeSet<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let text = annotations[annotation::SIDECARS].as_str().unwrap_or_default();
    let named: Vec<Named> = serde_json::from_str(text).unwrap_or_default();
    named.into_iter().map(|sidecar| sidecar.name).collect()
}

/// The fields of an object in the pod, and what is to change in them. What was there is only looked at, since
/// most of a pod stays as it is.
#[derive(Debug)]
pub(super) struct Fields<'p> {
    before: &'p BorrowedJson<'p>,
    /// What comes after a list's entries.
    appended: BTreeMap<&'static str, Vec<Value>>,
    /// What takes the place of a field, or nothing.
    set: BTreeMap<&'static str, Option<Value>>,
}

/// An entry of a list in the pod.
#[derive(Clone, Copy)]
pub(super) enum Entry<'f> {
    /// One that was there.
    Before(&'f BorrowedJson<'f>),
    /// One that is to be there.
    Made(&'f Value),
}

impl<'f> Entry<'f> {
    /// What stands in a field of it.
    pub(super) fn field(self, field: &str) -> Cow<'f, Value> {
        match self {
            Self::Before(entry) => Cow::Owned((&entry[field]).into()),
            Self::Made(entry) => Cow::Borrowed(&entry[field]),
        }
    }

    /// The text that stands in a field of it.
    pub(super) fn text(self, field: &str) -> Option<&'f str> {
        api::steps::took(1);
        match self {
            Self::Before(entry) => entry[field].as_str(),
            Self::Made(entry) => entry[field].as_str(),
        }
    }

    /// All of it.
    pub(super) fn value(self) -> Cow<'f, Value> {
        match self {
            Self::Before(entry) => Cow::Owned(entry.into()),
            Self::Made(entry) => Cow::Borrowed(entry),
        }
    }
}

impl<'p> Fields<'p> {
    const fn of(before: &'p BorrowedJson<'p>) -> Self {
        Self { before, appended: BTreeMap::new(), set: BTreeMap::new() }
    }

    /// What stands in a field that nothing is appended to.
    pub(super) fn get(&self, field: &str) -> Option<Cow<'_, Value>> {
        let before = || self.before.get(field).map(|before| Cow::Owned(before.into()));
        self.set.get(field).map_or_else(before, |set| set.as_ref().map(Cow::Borrowed))
    }

    /// A copy of the object that stands in a field, to be changed; what is absent, or anything else, is an empty
    /// one.
    pub(super) fn object(&self, field: &str) -> Map<String, Value> {
        match self.get(field).map(Cow::into_owned) {
            Some(Value::Object(object)) => object,
            _ => Map::new(),
        }
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
    pub(super) fn list(&self, field: &str) -> Result<impl Iterator<Item = Entry<'_>>, Problem> {
        let before = match &self.before[field] {
            BorrowedJson::Null => &[][..],
            BorrowedJson::List(entries) => entries,
            _ => return Err(Problem::new("", format!("the pod's `{field}` are not a list"))),
        };
        let appended = self.appended.get(field).map_or(&[][..], Vec::as_slice);
        Ok(before.iter().map(Entry::Before).chain(appended.iter().map(Entry::Made)))
    }

    /// Adds entries to a list.
    pub(super) fn append(&mut self, field: &'static str, entries: impl IntoIterator<Item = Value>) {
        let mut entries = entries.into_iter().peekable();
        if entries.peek().is_some() {
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
            if self.before[field].as_list().is_some() {
                let end = path.with_trailing_token("-");
                operations.extend(entries.into_iter().map(|entry| add(end.clone(), entry)));
            } else {
                operations.push(add(path, entries.into()));
            }
        }
        for (field, value) in self.set {
            match (self.before.get(field), value) {
                (None, Some(value)) => operations.push(add(path(field), value)),
                (Some(before), Some(value)) if Value::from(before) == value => {}
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
    use super::{BorrowedJson, Fields};
    use serde_json::{Value, json};

    /// What `change` makes of the container `before`: the patch.
    fn patch(before: Value, change: fn(&mut Fields)) -> Value {
        let before = BorrowedJson::from(&before);
        let mut fields = Fields::of(&before);
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
        let before = BorrowedJson::from(&before);
        let mut fields = Fields::of(&before);
        fields.set("image", "b");
        fields.append("env", [json!(2)]);
        assert_eq!(fields.get("image").as_deref(), Some(&json!("b")));
        let entries: Vec<_> = fields.list("env").unwrap().map(|entry| entry.value().into_owned()).collect();
        assert_eq!(entries, [json!(1), json!(2)]);
        fields.remove("image");
        assert_eq!(fields.get("image"), None);
        let problem = fields.list("args").err().unwrap();
        assert_eq!(problem.text, "the pod's `args` are not a list");
    }
}
