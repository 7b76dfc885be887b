//! Converts the schema of a Kubernetes API type inside our own types ([`api::Embedded`]) to the one that a
//! CustomResourceDefinition publishes.

use schemars::Schema;
use serde_json::{Map, Value};

/// Replaces the schema of an embedded type by one with all references resolved and only those keywords that constrain a
/// value, name its fields, or are for server-side apply. Descriptions, which are nine tenths of the schema, are left
/// out, but the first sentence of each field's description is its `title` until the definition is published. Defaults,
/// which the API server would write into the user's object, are left out. The schemas of our own types stay as they
/// are.
pub(super) fn resolve(schema: &mut Schema) {
    // Only the schema of an embedded type has `$schema`.
    if schema.remove("$schema").is_none() {
        return;
    }
    let description = schema.remove("description");
    let name = schema.get("title").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut definitions = match schema.remove("$defs") {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    definitions.insert(name.clone(), schema.clone().to_value());
    let differences: Value = DIFFERENCES.parse().expect("the file is JSON");
    definitions.extend(differences["replaced"].as_object().cloned().unwrap_or_default());
    let sources = Sources { definitions, differences };
    let plain = plain(&sources.definitions[&name], &sources);
    *schema = Schema::try_from(plain).expect("the schema of a Kubernetes type is an object");
    if let Some(description) = description {
        schema.insert("description".to_owned(), description);
    }
}

/// Where Kubeflow's definitions differ from the schemas of k8s-openapi.
///
/// `replaced` has schemas that are more exact, by their names in k8s-openapi. A quantity can also be a JSON number; its pattern is
/// Kubernetes' own (apimachinery, `resource.Quantity`, as in controller-gen's output). The metadata are what a volumeClaimTemplate
/// can use and controller-gen allows: the other fields of ObjectMeta are set by the API server, and if they were listed, the
/// `creationTimestamp: null` that Go programs write would be refused instead of pruned.
///
/// `changed` has the keywords that are set in the schemas of other types, or removed if they are null. Server-side
/// apply replaces an `atomic` object as a whole. The name of a reference may be missing: Kubernetes has the default
/// `""` for it. The API server demands a default of a key that may be missing.
///
/// `keys` has the lists whose entries server-side apply merges, with the fields that are the key of an entry.
const DIFFERENCES: &str = include_str!("kubeflow.json");

/// The sources of the schemas of embedded types.
struct Sources {
    /// The schemas of Kubernetes' types by their names in k8s-openapi.
    definitions: Map<String, Value>,
    /// [`DIFFERENCES`].
    differences: Value,
}

/// Sets or removes the keywords of `changes` in `schema`, at any depth.
fn change(schema: &mut Value, changes: &Value) {
    for (keyword, changed) in changes.as_object().into_iter().flatten() {
        match (changed, schema.as_object_mut()) {
            (Value::Object(_), _) => change(&mut schema[keyword], changed),
            (Value::Null, Some(keywords)) => drop(keywords.remove(keyword)),
            _ => schema[keyword] = changed.clone(),
        }
    }
}

/// The maximum length of a field's description, in bytes. A definition has some 1,600 of them, and has to fit into an
/// annotation (`tests/it/crds.rs`): without a limit, they would take 7 KB more.
const LONGEST_SENTENCE: usize = 120;

/// Returns the first sentence of Kubernetes' description of `field`, without the name of the field before it.
fn first_sentence(field: &str, description: &str) -> String {
    let text = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.split(" More info").next().unwrap_or_default();
    // A single word, such as `Required`, is no sentence, and `e.g.` does not end one.
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

/// Returns the schema of a field: that of its type, with what server-side apply needs for lists, and with its title.
fn of_field(field: &str, written: &Value, sources: &Sources) -> Value {
    let mut schema = plain(written, sources);
    // How server-side apply merges a list, as in Kubeflow's definitions; k8s-openapi leaves it out.
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
    use api::Embedded;
    use k8s_openapi::api::core::v1::Container;
    use schemars::SchemaGenerator;

    #[test]
    fn a_schema_has_constraints_field_titles_and_apply_markers() {
        let mut schema = SchemaGenerator::default().into_root_schema_for::<Embedded<Container>>();
        resolve(&mut schema);
        let schema = schema.to_value();
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
