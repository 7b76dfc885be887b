//! Proves that the CRDs are complete and follow Kubernetes' rules, and that the Rust types keep every field of the
//! objects that Kubeflow's operator accepts.

use crate::prelude::*;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use spark_operator::manifests::CRDS;
use sparkctl::crds;

/// The maximum size of a CRD in bytes of JSON. `kubectl apply` stores the whole object in an annotation, and Kubernetes
/// allows 262,144 bytes for all annotations of an object. The difference is for fields to come; a smaller
/// `LONGEST_SENTENCE` in crates/sparkctl/src/embedded.rs makes more room.
const LARGEST_DEFINITION: usize = 250_000;

/// The fields of ours that have types of the Kubernetes API.
const EMBEDDED: [&str; 15] = [
    "affinity", "conditions", "dnsConfig", "env", "envFrom", "hostAliases", "ingressTLS", "initContainers",
    "lifecycle", "podSecurityContext", "securityContext", "sidecars", "tolerations", "volumeMounts",
    "volumes",
];

#[test]
fn the_committed_definitions_are_those_of_the_types() {
    let (mut golden, mut expected) = (Golden::default(), BTreeSet::new());
    for (name, yaml) in crds::files() {
        let file = Path::new("manifests/crds").join(name);
        golden.compare(&file, &yaml);
        expected.insert(file);
    }
    golden.finish();
    assert_eq!(BTreeSet::from_iter(entries("manifests/crds")), expected);
}

#[test]
fn the_definitions_in_the_operator_are_those_of_the_types() {
    for ((name, yaml), definition) in CRDS.into_iter().zip(crds::custom_resource_definitions()) {
        let read: CustomResourceDefinition = serde_saphyr::from_str(yaml).unwrap();
        assert!(read == definition, "{name}");
    }
}

#[test]
fn a_definition_fits_into_an_annotation() {
    for crd in crds::custom_resource_definitions() {
        let size = serde_json::to_string(&crd).unwrap().len();
        assert!(size < LARGEST_DEFINITION, "{}: {size} bytes", crd.spec.names.kind);
    }
}

#[test]
fn schemas_are_structural_and_have_no_defaults_except_of_a_list_key() {
    for schema in schemas() {
        let mut opaque = Vec::new();
        visit(&schema, "", &mut |schema, path| {
            let is_int_or_string = schema["x-kubernetes-int-or-string"] == true;
            assert!(schema["type"].is_string() != is_int_or_string, "{path} has no type: {schema}");
            for keyword in ["default", "$ref", "anyOf", "oneOf", "allOf", "title"] {
                // The API server requires a default for a key of a list (`x-kubernetes-list-map-keys`) that may be
                // missing.
                let is_of_key = keyword == "default" && path.ends_with("[].ports[].protocol");
                assert!(is_of_key || schema.get(keyword).is_none(), "{path} has `{keyword}`");
            }
            if schema["x-kubernetes-preserve-unknown-fields"] == true {
                opaque.push(path.rsplit('.').next().unwrap_or_default().to_owned());
            }
        });
        opaque.retain(|field| field != "service");
        assert_eq!(opaque, ["template", "template"], "only templates of pods and Services are not pruned");
    }
}

/// Types that are embedded from the Kubernetes API are skipped: only the size of the whole object limits their lists.
#[test]
fn every_list_map_and_text_of_a_spec_has_a_limit() {
    for schema in schemas() {
        let mut lists = 0;
        visit(&schema["properties"]["spec"], "spec", &mut |schema, path| {
            let limit = match schema["type"].as_str() {
                Some("array") => "maxItems",
                Some("object") if schema.get("additionalProperties").is_some() => "maxProperties",
                Some("string") if schema.get("enum").is_none() => "maxLength",
                _ => return,
            };
            if schema.get("description").is_some() && !is_embedded(path) {
                assert!(schema[limit].as_u64().is_some_and(|most| most >= 100), "{path} has no {limit}");
                lists += 1;
            }
        });
        assert!(lists > 5, "only {lists} were checked");
    }
}

/// Without descriptions, `kubectl explain` would show only the types of these fields.
#[test]
fn every_field_of_kubernetes_is_described_by_a_sentence() {
    for schema in schemas() {
        visit(&schema, "", &mut |schema, path| {
            // The schema of metadata is not taken from Kubernetes.
            if is_embedded(path) && !path.ends_with(']') && !path.contains(".metadata.") {
                let length = schema["description"].as_str().map_or(0, str::len);
                assert!((2..=120).contains(&length), "{path}: {schema}");
            }
        });
    }
}

/// A new field of these types needs an example in `tests/data/api`.
#[test]
fn every_field_of_ours_is_described_and_has_an_example() {
    let examples = ["sparkapplication", "scheduledsparkapplication", "sparkconnect"];
    for (schema, example) in schemas().iter().zip(examples) {
        let example = documents(format!("tests/data/api/{example}.yaml")).remove(0);
        let missing = undemonstrated(schema, &example, "");
        // The template of a schedule is a SparkApplicationSpec, which `sparkapplication.yaml` shows in full.
        let missing: Vec<_> = missing.iter().filter(|path| !path.starts_with(".spec.template.")).collect();
        assert!(missing.is_empty(), "{missing:#?}");
    }
}

#[test]
fn objects_pass_through_our_types_without_loss() {
    for file in entries("manifests/examples").into_iter().chain(entries("tests/data/api")) {
        let ours = documents(&file).into_iter().filter(|document| {
            document["spec"]["sparkVersion"].is_string()
                || document["spec"]["template"]["sparkVersion"].is_string()
        });
        let mut read = 0;
        for written in ours {
            let kept = match written["kind"].as_str() {
                Some("SparkApplication") => round_trip::<SparkApplication>(&written),
                Some("ScheduledSparkApplication") => round_trip::<ScheduledSparkApplication>(&written),
                Some("SparkConnect") => round_trip::<SparkConnect>(&written),
                kind => panic!("{}: {kind:?} is not a kind of ours", file.display()),
            };
            let lost = lost(&written, &kept, "");
            assert!(lost.is_empty(), "{}: {lost:#?}", file.display());
            read += 1;
        }
        assert_eq!(read, 1, "{}: one application a file", file.display());
    }
}

#[test]
fn every_example_begins_with_a_comment() {
    for file in entries("manifests/examples") {
        assert!(fs::read_to_string(&file).unwrap().starts_with("# "), "{}", file.display());
    }
}

fn round_trip<K: serde::Serialize + serde::de::DeserializeOwned>(written: &Value) -> Value {
    let object: K = serde_json::from_value(written.clone()).unwrap();
    serde_json::to_value(object).unwrap()
}

/// Returns the paths of values in `written` that are missing or different in `kept`.
fn lost(written: &Value, kept: &Value, path: &str) -> Vec<String> {
    match (written, kept) {
        (Value::Object(written), Value::Object(kept)) => {
            let member = |(key, value)| {
                let path = format!("{path}.{key}");
                kept.get(key).map_or_else(|| vec![path.clone()], |kept| lost(value, kept, &path))
            };
            written.iter().flat_map(member).collect()
        }
        (Value::Array(written), Value::Array(kept)) if written.len() == kept.len() => {
            let elements = written.iter().zip(kept).enumerate();
            elements.flat_map(|(at, (written, kept))| lost(written, kept, &format!("{path}[{at}]"))).collect()
        }
        // A quantity that was written as a number is kept as text.
        (Value::Number(number), Value::String(text)) if number.to_string() == *text => Vec::new(),
        (written, kept) if written == kept => Vec::new(),
        (written, kept) => vec![format!("{path}: {written} became {kept}")],
    }
}

/// Whether `path` is that of a field of a type that is embedded from the Kubernetes API.
fn is_embedded(path: &str) -> bool {
    let mut above = path.split('.').rev().skip(1);
    above.any(|field| EMBEDDED.contains(&field.trim_end_matches("[]")))
}

/// Returns the paths of fields of ours that have no description, or are missing in `example`.
fn undemonstrated(schema: &Value, example: &Value, path: &str) -> Vec<String> {
    let Some(fields) = schema["properties"].as_object() else {
        let element = &example[0];
        return if element.is_object() {
            undemonstrated(&schema["items"], element, path)
        } else {
            Vec::new()
        };
    };
    let field = |(name, field): (&String, &Value)| {
        let path = format!("{path}.{name}");
        match example.get(name) {
            None => vec![format!("{path} has no example")],
            Some(_) if field.get("description").is_none() => vec![format!("{path} has no description")],
            Some(_) if EMBEDDED.contains(&name.as_str()) => Vec::new(),
            Some(example) => undemonstrated(field, example, &path),
        }
    };
    fields.iter().flat_map(field).collect()
}

/// Calls `see` with the schema and the path of every value in `schema`.
fn visit(schema: &Value, path: &str, see: &mut impl FnMut(&Value, &str)) {
    see(schema, path);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        visit(field, &format!("{path}.{name}"), see);
    }
    for inner in ["items", "additionalProperties"].iter().filter_map(|keyword| schema.get(keyword)) {
        visit(inner, &format!("{path}[]"), see);
    }
}

fn schemas() -> [Value; 3] {
    crds::custom_resource_definitions().map(|crd| {
        let validation = crd.spec.versions[0].schema.as_ref().unwrap();
        serde_json::to_value(validation.open_api_v3_schema.as_ref().unwrap()).unwrap()
    })
}
