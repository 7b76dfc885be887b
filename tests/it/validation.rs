//! Tests which objects validation refuses, and its messages. Each case in `tests/data/validation` is an application or
//! a schedule, with all errors and warnings about it.

use crate::prelude::*;
use api::excerpt::LONGEST_EXPLANATION;
use serde::{Deserialize, de::DeserializeOwned};
use validation::{self, Files, Findings, Invalid, Precision, Refusal};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Case {
    case: String,
    /// The name of the object: `pi` by default.
    name: Option<String>,
    labels: BTreeMap<String, String>,
    /// The spec of a schedule if it has the field `schedule`, otherwise the spec of an application.
    spec: Map<String, Value>,
    invalid: Vec<String>,
    warnings: Vec<String>,
}

/// The object of a case, with all expected mistakes and warnings.
pub(crate) struct Told {
    /// The file and the name of the case.
    pub context: String,
    pub object: Value,
    pub invalid: Vec<String>,
    pub warnings: Vec<String>,
}

#[test]
fn all_mistakes_are_reported_at_once_and_nothing_else() {
    for Told { context, object, invalid, warnings } in cases("default") {
        let found = examined(&object);
        let said: Vec<_> = found.invalid.iter().map(Invalid::to_string).collect();
        assert_eq!(said, invalid, "{context}");
        assert_eq!(found.warnings, warnings, "{context}");
        // `kubectl` prints a warning of this length completely.
        assert!(found.warnings.iter().all(|warning| warning.len() <= 160), "{context}");
    }
}

/// Returns all cases, with their objects in `namespace`.
pub(crate) fn cases(namespace: &str) -> Vec<Told> {
    let mut told = Vec::new();
    for file in entries(data("validation")) {
        for Case { case, name, labels, spec, invalid, warnings } in yaml::<Vec<Case>>(&file) {
            let context = format!("{}: {case}", file.display());
            let kind =
                if spec.contains_key("schedule") { "ScheduledSparkApplication" } else { "SparkApplication" };
            let mut object = json!({
                "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": kind,
                "metadata": {"name": name.as_deref().unwrap_or("pi"), "namespace": namespace, "labels": labels},
                "spec": spec,
            });
            let place = if object["spec"]["schedule"].is_null() { "/spec" } else { "/spec/template" };
            if place != "/spec" && object["spec"]["template"].is_null() {
                object["spec"]["template"] = json!({});
            }
            for (field, value) in [
                ("type", json!("Scala")),
                ("mainClass", json!("a.B")),
                ("mainApplicationFile", json!("local:///app.jar")),
                ("sparkVersion", json!("4.0.1")),
                ("image", json!("spark")),
                ("driver", json!({})),
                ("executor", json!({})),
            ] {
                if let Some(spec) = object.pointer_mut(place).and_then(Value::as_object_mut) {
                    spec.entry(field).or_insert(value);
                }
            }
            told.push(Told { context, object, invalid, warnings });
        }
    }
    told
}

/// Validates the examples, which are those of Kubeflow's operator, and all objects in the data of the tests.
#[test]
fn every_example_and_every_object_of_the_tests_is_valid() {
    // This file has every field, including fields that exclude each other.
    let exception = data("api/sparkapplication.yaml");
    let mut seen = 0;
    for path in files_below(data("")).into_iter().chain(files_below("manifests/examples")) {
        if path.extension().is_none_or(|extension| extension != "yaml") || path == exception {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let Ok(objects) = serde_saphyr::from_multiple::<Value>(&text) else { continue };
        let is_ours = |object: &&Value| {
            object["apiVersion"] == "sparkoperator.k8s.io/v1beta2" && object["metadata"]["name"].is_string()
        };
        for object in objects.iter().filter(is_ours) {
            assert_eq!(examined(object).invalid, [], "{}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 30, "only {seen} objects were checked");
}

#[test]
fn a_long_value_is_quoted_in_part() {
    let spec = json!({"driver": {"memory": "1".repeat(100_000)}, "sparkConf": {"spark.kubernetes.namespace": "x".repeat(100_000)}});
    let found =
        examined(&json!({"metadata": {"name": "ü".repeat(100_000), "namespace": "default"}, "spec": spec}));
    assert!(found.invalid.len() > 2);
    assert!(found.invalid.iter().all(|invalid| invalid.field.len() + invalid.why.len() < 400), "{found:?}");
}

/// A request to the API server can have at most 3 MiB, enough for 60,000 mounts, each of which except the first is a
/// mistake.
#[test]
fn at_most_fifty_mistakes_are_listed_and_the_others_counted() {
    let of = |number: usize| {
        let mounts = vec![json!({"name": "a", "mountPath": "/x"}); number + 1];
        let port = |i| json!({"name": format!("p{i}"), "containerPort": 8090, "protocol": "TCP"});
        let ports: Vec<_> = (0..number).map(port).collect();
        let monitoring = json!({
            "exposeDriverMetrics": true, "exposeExecutorMetrics": false, "prometheus": {"jmxExporterJar": "/a.jar"},
        });
        let driver = json!({"ports": ports, "volumeMounts": mounts});
        let volumes = [json!({"name": "a", "emptyDir": {}})];
        examined(
            &json!({"metadata": {"name": "pi"}, "spec": {"sparkVersion": "4.0.1", "image": "spark", "monitoring": monitoring, "volumes": volumes, "driver": driver}}),
        )
    };
    let few = of(50);
    assert_eq!((few.invalid.len(), few.warnings.len()), (50, 50));
    let many = of(1000);
    assert_eq!(many.invalid[..50], few.invalid);
    assert_eq!(many.invalid.len(), 51);
    assert_eq!(many.invalid[50].to_string(), "spec: 950 more mistakes are not listed: correct these first");
    assert_eq!(many.warnings.len(), 51);
    assert_eq!(many.warnings[0], "spec: 950 more warnings are not listed");
    let refusal = Refusal(many.invalid);
    assert!(refusal.to_string().len() < 30_000);
    assert!(refusal.brief().contains("; and at least "), "{}", refusal.brief());
}

#[test]
fn properties_that_need_too_many_replacements_are_refused_by_name() {
    let of = |field: &str, properties: BTreeMap<String, String>| {
        let spec = json!({field: properties});
        examined(&json!({"metadata": {"name": "pi"}, "spec": spec})).invalid
    };
    let doubled = |i: usize| (format!("spark.x{i}"), format!("${{spark.x{}}}", i + 1).repeat(2));
    let [Invalid { field, why }] = &of("sparkConf", (0..40).map(doubled).collect())[..] else { panic!() };
    assert_eq!(field, "spec.sparkConf[spark.x30]");
    assert_eq!(
        why,
        "it takes more than 1000 replacements of ${…}: write its value out, or let it refer to fewer properties"
    );
    let chained = |i: usize| (format!("x{i}"), format!("${{spark.hadoop.x{}}}", i + 1));
    let [Invalid { field, why }] = &of("hadoopConf", (0..10_000).map(chained).collect())[..] else {
        panic!()
    };
    assert_eq!(field, "spec.hadoopConf[x9934]");
    assert!(why.starts_with("${…} refer to one another through more than 64 properties: "), "{why}");
}

#[test]
fn a_spec_that_is_too_large_or_too_deep_is_refused_with_the_path() {
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"x": inner}));
    let of = |spec: Value| examined(&json!({"metadata": {"name": "pi"}, "spec": spec})).invalid;
    // The spec, the driver and the template are three levels.
    assert_eq!(of(json!({"driver": {"template": nested(61)}})), []);
    let invalid = of(json!({"driver": {"template": nested(62)}}));
    let [Invalid { field, why }] = &invalid[..] else { panic!("{invalid:?}") };
    assert_eq!(*field, format!("spec.driver.template{}", ".x".repeat(62)));
    assert_eq!(
        why,
        "is nested more than 64 levels deep, and parsers of the object accept little more: write it flatter"
    );
    let spec = json!({"schedule": "@daily", "template": {"executor": {"template": nested(100)}}});
    assert!(of(spec)[0].field.starts_with("spec.template.executor.template.x.x"));

    let large = of(json!({"arguments": ["x".repeat(768 << 10)], "mode": "client"}));
    let [Invalid { field, why }] = &large[..] else { panic!("{large:?}") };
    assert_eq!(field, "spec");
    assert!(why.contains("bytes as JSON, and at most 786432 are possible: move large values"), "{why}");
}

#[test]
fn a_status_lists_as_many_mistakes_as_fit_and_counts_the_others() {
    let invalid = |n: usize| Invalid { field: format!("spec.{n}"), why: "is wrong".repeat(20) };
    let refusal = Refusal((0..10).map(invalid).collect());
    let brief = refusal.brief();
    assert!(brief.len() < LONGEST_EXPLANATION + 20, "{}", brief.len());
    assert!(brief.starts_with("spec.0: is wrong") && brief.ends_with("; and 6 more"), "{brief}");
    let short = Refusal((0..2).map(invalid).collect());
    assert_eq!(short.brief(), short.to_string());
}

fn examined(object: &Value) -> Findings {
    examined_by(object, None)
}

/// Validates an application, or a schedule whose applications' names have times in units of `precision`.
pub(crate) fn examined_by(object: &Value, precision: Option<Precision>) -> Findings {
    fn read<K: DeserializeOwned>(object: &Value) -> K {
        serde_json::from_value(object.clone()).unwrap()
    }
    if object["spec"]["schedule"].is_null() {
        validation::examine(&read::<SparkApplication>(object), Files::Stay)
    } else {
        validation::examine_schedule(
            &read::<ScheduledSparkApplication>(object),
            precision,
            Duration::ZERO,
            Files::Stay,
        )
    }
}
