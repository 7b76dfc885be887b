//! Defines [`Embedded`], which keeps parts of the Kubernetes API inside our own types as the JSON that the user wrote.
//!
//! A `Volume` of a newer Kubernetes version than that of k8s-openapi has fields that our Rust types do not know.
//! Parsing the volume into those types and writing it again would silently lose these fields. So the JSON is kept, and
//! parsed only when its fields are needed.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

    /// Returns the JSON as the user wrote it, by value.
    pub fn into_json(self) -> Value {
        self.json
    }
}

impl<T> Embedded<Vec<T>> {
    /// Joins `pieces` into one list; none if there are no pieces.
    pub fn list(pieces: &[Embedded<T>]) -> Option<Self> {
        (!pieces.is_empty())
            .then(|| Self::from(pieces.iter().map(|piece| piece.json.clone()).collect::<Value>()))
    }

    /// Returns the entries as the user wrote them; empty if the value is not a list.
    pub fn into_entries(self) -> Vec<Value> {
        if let Value::Array(entries) = self.json { entries } else { Vec::new() }
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

/// The schema of `T` with all references resolved and only those keywords that constrain a value, name its fields, or are for
/// server-side apply. Of the descriptions, which are nine tenths of the schema, the first sentence of each field is its `title`
/// until the definition is published. Defaults, which the API server would write into the user's object, are left out.
impl<T: JsonSchema> JsonSchema for Embedded<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let root = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
        let mut definitions = root["$defs"].as_object().cloned().unwrap_or_default();
        definitions.insert(T::schema_name().into_owned(), root);
        let differences: Value = DIFFERENCES.parse().expect("the file is JSON");
        definitions.extend(differences["replaced"].as_object().cloned().unwrap_or_default());
        let sources = Sources { definitions, differences };
        let plain = plain(&sources.definitions[&*T::schema_name()], &sources);
        Schema::try_from(plain).expect("the schema of a Kubernetes type is an object")
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

/// Where Kubeflow's definitions differ from the schemas of k8s-openapi.
///
/// `replaced` has schemas that are more exact, by their names in k8s-openapi. A quantity can also be a JSON number; its pattern is
/// Kubernetes' own (apimachinery, `resource.Quantity`, as in controller-gen's output). The metadata are what a volumeClaimTemplate
/// can use and controller-gen allows: the other fields of ObjectMeta are set by the API server, and if they were listed, the
/// `creationTimestamp: null` that Go programs write would be refused instead of pruned.
///
/// `changed` has what is set in schemas of other types, or taken out if it is null. Server-side apply replaces an `atomic` object
/// as a whole. The name of a reference may be missing: Kubernetes has the default `""` for it. The API server demands a default of
/// a key that may be missing.
///
/// `keys` has the lists whose entries server-side apply merges, with the fields by which it knows an entry.
const DIFFERENCES: &str = include_str!("kubeflow.json");

/// The sources of the schemas of embedded types.
struct Sources {
    /// The schemas of Kubernetes' types by their names in k8s-openapi.
    definitions: Map<String, Value>,
    /// [`DIFFERENCES`].
    differences: Value,
}

/// Sets in `schema` what `changes` has, at any depth.
fn change(schema: &mut Value, changes: &Value) {
    for (keyword, changed) in changes.as_object().into_iter().flatten() {
        match (changed, schema.as_object_mut()) {
            (Value::Object(_), _) => change(&mut schema[keyword], changed),
            (Value::Null, Some(keywords)) => drop(keywords.remove(keyword)),
            _ => schema[keyword] = changed.clone(),
        }
    }
}

/// The most bytes of a field's description. A definition has some 1,600 of them, and has to fit into an annotation
/// (`tests/it/crds.rs`): without a limit, they would take 7 KB more.
const LONGEST_SENTENCE: usize = 120;

/// Returns the first sentence of Kubernetes' description of `field`, without the name of the field before it.
fn first_sentence(field: &str, description: &str) -> String {
    let text = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.split(" More info").next().unwrap_or_default();
    // A word alone, such as `Required`, is no sentence, and `e.g.` is the end of none.
    let is_end = |&(at, _): &(usize, &str)| {
        text[..at].contains(' ') && text[at + 2..].starts_with(|next: char| next.is_ascii_uppercase())
    };
    let end = text.match_indices(". ").find(is_end).map_or(text.len(), |(at, _)| at);
    let sentence = text[..end].trim_end_matches('.');
    let name = format!("{field} is ");
    let sentence = match sentence.split_at_checked(name.len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case(&name) => rest,
        _ => sentence,
    };
    if sentence.len() <= LONGEST_SENTENCE {
        return sentence.to_owned();
    }
    let ends = sentence.match_indices(' ').map(|(at, _)| at);
    let end = ends.take_while(|at| at + '…'.len_utf8() <= LONGEST_SENTENCE).last().unwrap_or_default();
    format!("{}…", &sentence[..end])
}

/// Returns the schema of a field with what a definition has of it beside the schema of its type.
fn of_field(field: &str, written: &Value, sources: &Sources) -> Value {
    let mut schema = plain(written, sources);
    // What server-side apply has to know of a list, as Kubeflow's definitions have it. k8s-openapi leaves it out.
    if schema["type"] == "array" && field != "finalizers" {
        let keys = &sources.differences["keys"][field];
        schema["x-kubernetes-list-type"] = if keys.is_null() { "atomic" } else { "map" }.into();
        if !keys.is_null() {
            schema["x-kubernetes-list-map-keys"] = keys.clone();
        }
    }
    if let Some(description) = written["description"].as_str() {
        schema["title"] = first_sentence(field, description).into();
    }
    schema
}

/// Returns `schema` with its references replaced by the schemas to which they refer, and with only the keywords that
/// restrict the allowed values or are for server-side apply, and titles of fields.
fn plain(schema: &Value, sources: &Sources) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        let definition = sources.definitions.get(name).expect("schemars lists what it refers to");
        let mut schema = plain(definition, sources);
        change(&mut schema, &sources.differences["changed"][name.rsplit('.').next().unwrap_or_default()]);
        return schema;
    }
    let Value::Object(keywords) = schema else {
        return schema.clone();
    };
    let constraint = |(keyword, value): (&String, &Value)| {
        let value = match keyword.as_str() {
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                fields.map(|(field, schema)| (field.clone(), of_field(field, schema, sources))).collect()
            }
            "items" | "additionalProperties" => plain(value, sources),
            "type" | "format" | "required" | "enum" | "pattern" => value.clone(),
            extension if extension.starts_with("x-kubernetes-") => value.clone(),
            _ => return None,
        };
        Some((keyword.clone(), value))
    };
    keywords.iter().filter_map(constraint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Container, Volume};
    use serde_json::json;

    #[test]
    fn fields_of_a_newer_kubernetes_survive() {
        let written =
            json!({"name": "scratch", "emptyDir": {"sizeLimit": "1Gi", "tiering": "cold"}, "wormhole": {}});
        let volume: Embedded<Volume> = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&volume).unwrap(), written);
    }

    #[test]
    fn schemas_hold_constraints_a_sentence_for_each_field_and_kubeflows_references_and_lists() {
        let schema =
            schemars::SchemaGenerator::default().into_root_schema_for::<Embedded<Container>>().to_value();
        let text = schema.to_string();
        assert!(
            !text.contains("\"description\":\"") && !text.contains("$ref") && !text.contains("$defs"),
            "{text}"
        );
        let expected = include_str!("../../../tests/data/container-schema.json");
        let expected: Value = serde_json::from_str(expected).unwrap();
        for (place, value) in expected.as_object().unwrap() {
            assert_eq!(schema.pointer(place).unwrap_or(&Value::Null), value, "{place}");
        }
    }

    #[test]
    fn a_field_is_described_by_one_short_sentence() {
        let cases = include_str!("../../../tests/data/sentences.json");
        for [field, written, expected] in &serde_json::from_str::<Vec<[String; 3]>>(cases).unwrap() {
            assert_eq!(first_sentence(field, written), *expected);
        }
        let long = first_sentence("x", &"words ".repeat(50));
        assert!(long.len() <= LONGEST_SENTENCE && long.ends_with(" words…"), "{long}");
    }
}
