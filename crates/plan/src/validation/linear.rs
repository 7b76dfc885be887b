//! Tests that the work on an application before its submission grows no faster than the size of the application.

use super::{CHECKS, Findings, Subject};
use crate::submission::starting_point;
use api::{
    Role, SparkApplication, fill_in,
    names::{conf, label},
    steps,
};
use pod_customization::{self, borrowed_json::BorrowedJson};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A number of entries that no real application has; that many entries still fit into a few hundred KiB.
const MANY: usize = 10_000;

/// Ten times the allowed growth: twice the input may take 2.2 times the steps.
const MOST_TIMES_TEN: usize = 22;

/// Returns a spec with the given number of entries of one kind.
type Spec = fn(usize) -> Value;

#[test]
fn twice_the_input_takes_twice_the_steps() {
    let specs: [(&str, Spec); 11] = [
        ("volumes", |n| json!({"volumes": list(n, |i| json!({"name": format!("v{i}")}))})),
        (
            "volumes of one name",
            |n| json!({"volumes": list(n, |i| json!({"name": "v", "hostPath": {"path": format!("/{i}")}}))}),
        ),
        ("volumes that are mounted", |n| {
            json!({
                "volumes": list(n, |i| json!({"name": format!("v{i}"), "emptyDir": {}})),
                "driver": {"volumeMounts": list(n, |i| json!({"name": format!("v{i}"), "mountPath": format!("/{i}")}))},
            })
        }),
        ("scratch space", |n| {
            let name = |i| format!("spark-local-dir-{i}");
            json!({
                "volumes": list(n, |i| json!({"name": name(i), "emptyDir": {}})),
                "executor": {"volumeMounts": list(n, |i| json!({"name": name(i), "mountPath": format!("/{i}")}))},
            })
        }),
        (
            "mounts without volumes",
            |n| json!({"driver": {"volumeMounts": list(n, |i| json!({"name": format!("v{i}"), "mountPath": "/"}))}}),
        ),
        ("mounts of a template's volumes", |n| {
            json!({"driver": {
                "template": {"spec": {"volumes": list(n, |i| json!({"name": format!("v{i}")})), "containers": []}},
                "volumeMounts": list(n, |i| json!({"name": format!("v{i}"), "mountPath": format!("/{i}")})),
            }})
        }),
        ("mounts of volumes in sparkConf", |n| {
            let prefix = conf::kubernetes(Role::Driver, conf::VOLUMES_PREFIX);
            let key = |i| format!("{prefix}emptyDir.v{i}.mount.path");
            json!({
                "sparkConf": (0..n).map(|i| (key(i), json!(format!("/{i}")))).collect::<serde_json::Map<_, _>>(),
                "driver": {"volumeMounts": list(n, |i| json!({"name": format!("v{i}"), "mountPath": format!("/m{i}")}))},
            })
        }),
        ("ConfigMaps that are mounted twice", |n| {
            json!({"executor": {
                "configMaps": list(n, |i| json!({"name": format!("c{i}"), "path": format!("/{i}")})),
                "volumeMounts": list(n, |i| json!({"name": format!("c{i}-vol"), "mountPath": format!("/m{i}")})),
            }})
        }),
        (
            "environment variables",
            |n| json!({"driver": {"env": list(n, |i| json!({"name": format!("A{i}"), "value": "x"}))}}),
        ),
        ("lines of metricsProperties", |n| {
            let text: String = (0..n).map(|i| format!("line{i}\n")).collect();
            json!({"monitoring": {"metricsProperties": text}})
        }),
        ("properties that refer to one another", |n| {
            let text = |i: usize| format!("${{spark.x{}}}", if i.is_multiple_of(50) { n } else { i - 1 });
            json!({"sparkConf": (0..n).map(|i| (format!("spark.x{i}"), json!(text(i)))).collect::<serde_json::Map<_, _>>()})
        }),
    ];
    let grown = specs.into_iter().filter_map(|(what, spec)| {
        let [once, twice] = [MANY, 2 * MANY].map(|n| steps_for(spec(n)));
        let is_linear = once > MANY && twice * 10 < once * MOST_TIMES_TEN;
        (!is_linear).then(|| format!("{what}: {once} steps, and {twice} for twice as many"))
    });
    let grown: Vec<_> = grown.collect();
    assert!(grown.is_empty(), "{grown:#?}");
}

fn list(n: usize, entry: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..n).map(entry).collect()
}

/// Returns the number of steps that all work on an application with `spec` takes: filling in defaults, every check,
/// building Spark's properties and templates, and customizing pods from these templates. The limit for the size of a
/// spec is not checked first, because then little would be examined.
fn steps_for(mut spec: Value) -> usize {
    fill_in(spec.as_object_mut().unwrap()).unwrap();
    let mut application = SparkApplication::new("pi", serde_json::from_value(spec).unwrap());
    application.metadata.uid = Some("1".to_owned());
    steps::of(|| {
        let (subject, mut findings) = (Subject::new(&application, "spec"), Findings::default());
        for check in CHECKS {
            check(&subject, &mut findings);
        }
        let (_, templates) = starting_point(&application, BTreeMap::new());
        for (mut pod, role) in templates.into_iter().zip(Role::ALL) {
            pod["metadata"]["labels"][label::SPARK_ROLE] = role.as_str().into();
            // The result is ignored: the steps are counted whether the customization succeeds or is denied.
            pod_customization::patch(&BorrowedJson::from(&pod)).ok();
        }
    })
}
