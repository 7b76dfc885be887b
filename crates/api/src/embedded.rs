//! Defines [`Embedded`], which keeps parts of the Kubernetes API inside our own types as the JSON that the user wrote.
//!
//! A `Volume` of a newer Kubernetes version than that of k8s-openapi has fields that our Rust types do not know.
//! Parsing the volume into those types and writing it again would silently lose these fields. So the JSON is kept, and
//! parsed only when its fields are needed.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

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
    pub fn entries(&self) -> &[Value] {
        self.json.as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the same entries as [`Self::entries`], by value.
    pub fn into_entries(self) -> Vec<Value> {
        if let Value::Array(entries) = self.json { entries } else { Vec::new() }
    }
}

impl<T: DeserializeOwned> Embedded<T> {
    /// Parses the JSON as `T`. Fields that `T` does not know are ignored.
    ///
    /// # Errors
    ///
    /// If a field has a value that does not fit `T`; the CRD's schema refuses such objects.
    pub fn decode(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.json)
    }
}

impl<T: Serialize> Embedded<T> {
    /// Returns the JSON form of `value`.
    pub fn new(value: &T) -> Self {
        Self::from(serde_json::to_value(value).expect("types of the Kubernetes API are JSON"))
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
        definitions.extend(replacements());
        let plain = plain(&definitions[&*T::schema_name()], &definitions);
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

/// Returns schemas that are more exact than those of k8s-openapi and replace them, by their names in k8s-openapi.
fn replacements() -> Map<String, Value> {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let Value::Object(replacements) = json!({
        // A quantity can also be a JSON number. The pattern is Kubernetes' own (apimachinery, `resource.Quantity`, as
        // in controller-gen's output).
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {
            "x-kubernetes-int-or-string": true,
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        },
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"x-kubernetes-int-or-string": true},
        // The metadata fields that a volumeClaimTemplate can use and that controller-gen allows. The other fields of
        // ObjectMeta are set by the API server; if they were listed here, the `creationTimestamp: null` that Go
        // programs write would be refused instead of pruned.
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"type": "object", "properties": {
            "annotations": strings,
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "labels": strings,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        }},
    }) else {
        unreachable!("written as an object above")
    };
    replacements
}

/// References to other objects, whose name may be missing: Kubernetes has the default `""` for it. Server-side apply
/// replaces them as a whole.
const REFERENCES: [&str; 8] = [
    "ConfigMapEnvSource", "ConfigMapKeySelector", "ConfigMapProjection", "ConfigMapVolumeSource",
    "LocalObjectReference", "SecretEnvSource", "SecretKeySelector", "SecretProjection",
];

/// The other objects that server-side apply replaces as a whole.
const ATOMIC: [&str; 7] = [
    "FileKeySelector", "LabelSelector", "NodeSelector", "NodeSelectorTerm", "ObjectFieldSelector",
    "ResourceFieldSelector", "TypedLocalObjectReference",
];

/// The lists whose entries server-side apply merges, with the fields by which it knows an entry.
const KEYED: [(&str, &[&str]); 5] = [
    ("claims", &["name"]),
    ("env", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
];

/// Changes the schema of a Kubernetes type to what Kubeflow's definitions have of it.
fn as_in_kubeflow(kind: &str, schema: &mut Value) {
    if REFERENCES.contains(&kind) || ATOMIC.contains(&kind) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    match kind {
        "ConfigMapKeySelector" | "SecretKeySelector" => schema["required"] = json!(["key"]),
        reference if REFERENCES.contains(&reference) => {
            schema.as_object_mut().and_then(|keywords| keywords.remove("required"));
        }
        // The API server demands a default of a key that may be missing.
        "ContainerPort" => schema["properties"]["protocol"]["default"] = "TCP".into(),
        "ContainerRestartRuleOnExitCodes" => {
            schema["properties"]["values"]["x-kubernetes-list-type"] = "set".into();
        }
        _ => {}
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
fn of_field(field: &str, written: &Value, definitions: &Map<String, Value>) -> Value {
    let mut schema = plain(written, definitions);
    // What server-side apply has to know of a list, as Kubeflow's definitions have it. k8s-openapi leaves it out.
    if schema["type"] == "array" && field != "finalizers" {
        let keys = KEYED.iter().find(|(list, _)| *list == field).map(|(_, keys)| *keys);
        schema["x-kubernetes-list-type"] = if keys.is_some() { "map" } else { "atomic" }.into();
        if let Some(keys) = keys {
            schema["x-kubernetes-list-map-keys"] = keys.into();
        }
    }
    if let Some(description) = written["description"].as_str() {
        schema["title"] = first_sentence(field, description).into();
    }
    schema
}

/// Returns `schema` with its references replaced by the schemas to which they refer, and with only the keywords that
/// restrict the allowed values or are for server-side apply, and titles of fields.
fn plain(schema: &Value, definitions: &Map<String, Value>) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        let definition = definitions.get(name).expect("schemars lists what it refers to");
        let mut schema = plain(definition, definitions);
        as_in_kubeflow(name.rsplit('.').next().unwrap_or_default(), &mut schema);
        return schema;
    }
    let Value::Object(keywords) = schema else {
        return schema.clone();
    };
    let constraint = |(keyword, value): (&String, &Value)| {
        let value = match keyword.as_str() {
            "properties" => {
                let fields = value.as_object().into_iter().flatten();
                fields.map(|(field, schema)| (field.clone(), of_field(field, schema, definitions))).collect()
            }
            "items" | "additionalProperties" => plain(value, definitions),
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

    #[test]
    fn fields_of_a_newer_kubernetes_survive() {
        let written =
            json!({"name": "scratch", "emptyDir": {"sizeLimit": "1Gi", "tiering": "cold"}, "wormhole": {}});
        let volume: Embedded<Volume> = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(volume.decode().unwrap().name, "scratch");
        assert_eq!(serde_json::to_value(&volume).unwrap(), written);
    }

    #[test]
    fn a_quantity_may_be_a_number() {
        let container: Embedded<Container> =
            serde_json::from_value(json!({"name": "sidecar", "resources": {"limits": {"cpu": 1}}})).unwrap();
        let limits = container.decode().unwrap().resources.unwrap().limits.unwrap();
        assert_eq!(limits["cpu"].0, "1");
    }

    #[test]
    fn schemas_hold_constraints_and_a_sentence_for_each_field() {
        let schema =
            schemars::SchemaGenerator::default().into_root_schema_for::<Embedded<Container>>().to_value();
        let text = schema.to_string();
        assert!(
            !text.contains("\"description\":\"") && !text.contains("$ref") && !text.contains("$defs"),
            "{text}"
        );
        let fields = &schema["properties"];
        assert_eq!(fields["image"]["title"], "Container image name");
        assert_eq!(schema.pointer("/properties/volumeDevices/items/title"), None);
        assert_eq!(schema["required"], json!(["name"]));
        let limit = &fields["resources"]["properties"]["limits"]["additionalProperties"];
        assert_eq!(limit["x-kubernetes-int-or-string"], true);
    }

    #[test]
    fn a_field_is_described_by_one_short_sentence() {
        for (field, written, expected) in [
            (
                "args",
                "Arguments to the entrypoint. The image's CMD is used if",
                "Arguments to the entrypoint",
            ),
            ("fsType", "fsType is the filesystem type. Ex. \"ext4\"", "the filesystem type"),
            ("Key", "key is  the taint\nkey. More info: https://k8s.io", "the taint key"),
            ("x", "Affinity (e.g. co-locate this). More", "Affinity (e.g. co-locate this)"),
            ("x", "Required. A list of terms. The terms are ORed.", "Required. A list of terms"),
        ] {
            assert_eq!(first_sentence(field, written), expected);
        }
        let long = first_sentence("x", &"words ".repeat(50));
        assert!(long.len() <= LONGEST_SENTENCE && long.ends_with(" words…"), "{long}");
    }

    #[test]
    fn references_and_lists_are_those_of_kubeflows_definitions() {
        let schema =
            schemars::SchemaGenerator::default().into_root_schema_for::<Embedded<Container>>().to_value();
        let fields = &schema["properties"];
        let reference = &fields["envFrom"]["items"]["properties"]["secretRef"];
        assert_eq!(
            (&reference["required"], &reference["x-kubernetes-map-type"]),
            (&Value::Null, &json!("atomic"))
        );
        let source = &fields["env"]["items"]["properties"]["valueFrom"]["properties"];
        assert_eq!(source["configMapKeyRef"]["required"], json!(["key"]));
        for (field, kind, keys) in [
            ("env", "map", json!(["name"])),
            ("ports", "map", json!(["containerPort", "protocol"])),
            ("args", "atomic", Value::Null),
        ] {
            let list = &fields[field];
            assert_eq!(
                (&list["x-kubernetes-list-type"], &list["x-kubernetes-list-map-keys"]),
                (&json!(kind), &keys)
            );
        }
        let codes = &fields["restartPolicyRules"]["items"]["properties"]["exitCodes"]["properties"]["values"];
        assert_eq!(codes["x-kubernetes-list-type"], "set");
    }
}
