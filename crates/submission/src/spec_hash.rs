//! Computes the hash of a spec. Two specs with equal hashes describe the same run.

use api::{SparkApplication, SparkApplicationSpec, annotation, volume::is_scratch, with_defaults};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The version of the algorithm. Hashes of different versions cannot show whether the spec has changed.
const VERSION: &str = "v1";
/// The version of hashes that leave out `executor.instances` too: see [`hash_of`].
const ELASTIC: &str = "v1-elastic";
/// The version of hashes that leave out the fields that take effect only through the executors' pod template: see
/// [`without_template`].
const PARTIAL: &str = "v1-partial";

/// The fields that affect the present run at once, and do not require another run: no hash includes them.
pub const AT_ONCE: [&str; 2] = ["suspend", "timeToLiveSeconds"];

/// The fields of a spec, each with the effect on a run of an edit of the field or of a field below it, as
/// `validation::Effect` writes it.
pub const EDITS: &str = include_str!("edits.txt");
/// The end of each line of [`EDITS`] whose field takes effect only through the executors' pod template, not through a
/// property of the driver.
const OF_TEMPLATE: &str = " takes effect for the next executor";

/// Returns the hash of those fields of a spec that define a run: `v1:` and the SHA-256, in hexadecimal, of the
/// [canonical] JSON of the spec: no white space, and the members of objects in the order of their keys.
///
/// The fields of [`AT_ONCE`] are left out.
pub fn spec_hash(spec: &SparkApplicationSpec) -> String {
    hashed(VERSION, canonical(spec))
}

/// Returns the hash that is recorded with a run of `application`. If the application is an elastic job of Kueue, an
/// edit of `executor.instances` alone requires no other run.
pub fn hash_of(application: &SparkApplication) -> String {
    let mut annotations = application.metadata.annotations.iter().flatten();
    let is_elastic = annotations.any(|(key, value)| key == annotation::ELASTIC_JOB && value == "true");
    hashed(if is_elastic { ELASTIC } else { VERSION }, canonical(&application.spec))
}

/// Returns the hash that is recorded with a run whose executors' pod template is updated after edits.
pub fn partial_hash(spec: &SparkApplicationSpec) -> String {
    hashed(PARTIAL, canonical(spec))
}

/// Whether `recorded` is the hash of `spec`; `None` if the version of the hash is unknown. The version of `recorded`
/// decides which fields are compared, so an annotation that was added later does not look like an edit. The first
/// hashes included the protocol of containers' ports as it was written, so both forms are compared.
pub fn is_hash_of(recorded: &str, spec: &SparkApplicationSpec) -> Option<bool> {
    let (version, _) = recorded.split_once(':')?;
    let is_of = |document| hashed(version, document) == recorded;
    [VERSION, ELASTIC, PARTIAL].contains(&version).then(|| is_of(canonical(spec)) || is_of(document(spec)))
}

/// Whether the present run of `application` is that of an elastic job: an edit of `executor.instances` requires no
/// other run.
pub fn has_elastic_run(application: &SparkApplication) -> bool {
    version_of_run(application) == Some(ELASTIC)
}

/// Whether the present run of `application` continues after an edit of fields that take effect only through the
/// executors' pod template.
pub fn has_partial_run(application: &SparkApplication) -> bool {
    version_of_run(application) == Some(PARTIAL)
}

fn version_of_run(application: &SparkApplication) -> Option<&str> {
    let (version, _) = application.status.as_ref()?.spec_hash.as_ref()?.split_once(':')?;
    Some(version)
}

/// Returns a spec as JSON with its defaults, so that two specs that mean the same are equal. The default protocol of
/// containers' ports is left out: whether the API server adds it depends on the version of the CRD.
pub fn canonical(spec: &SparkApplicationSpec) -> Value {
    let mut document = document(spec);
    for list in
        ["/driver/initContainers", "/driver/sidecars", "/executor/initContainers", "/executor/sidecars"]
    {
        let containers = document.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        let ports = containers.filter_map(|container| container.get_mut("ports")?.as_array_mut()).flatten();
        for port in ports.filter_map(Value::as_object_mut) {
            if port.get("protocol").is_some_and(|protocol| protocol == "TCP") {
                port.remove("protocol");
            }
        }
    }
    document
}

/// Returns a [canonical] spec without the fields that take effect only through the executors' pod template. Scratch
/// volumes are kept, because they become properties of the driver, and so is a volume whose name occurs anywhere in the
/// driver's section.
pub fn without_template(mut document: Value) -> Value {
    const MOUNTS: &str = "volumeMounts";
    let driver = document["driver"].to_string();
    let is_of_driver = |volume: &Value| is_scratch(volume) || driver.contains(&volume["name"].to_string());
    if let Some(executor) = document.get_mut("executor").and_then(Value::as_object_mut) {
        let of_executor = EDITS.lines().filter_map(|line| line.strip_prefix("executor."));
        let of_template: BTreeSet<_> =
            of_executor.filter_map(|line| line.strip_suffix(OF_TEMPLATE)).collect();
        executor.retain(|field, _| field == MOUNTS || !of_template.contains(field.as_str()));
        keep(executor, MOUNTS, is_scratch);
    }
    if let Some(spec) = document.as_object_mut() {
        keep(spec, "volumes", is_of_driver);
    }
    document
}

/// Keeps the entries of a list for which `is_kept` is true, and removes the list if no entry is left.
fn keep(object: &mut Map<String, Value>, list: &str, is_kept: impl Fn(&Value) -> bool) {
    let Some(entries) = object.get_mut(list).and_then(Value::as_array_mut) else { return };
    entries.retain(is_kept);
    if entries.is_empty() {
        object.remove(list);
    }
}

/// Returns a spec as JSON with its defaults.
fn document(spec: &SparkApplicationSpec) -> Value {
    serde_json::to_value(with_defaults(spec.clone())).expect("a spec is JSON")
}

fn hashed(version: &str, mut document: Value) -> String {
    if version == PARTIAL {
        document = without_template(document);
    }
    if let Some(spec) = document.as_object_mut() {
        spec.retain(|field, _| !AT_ONCE.contains(&field.as_str()));
    }
    if version == ELASTIC
        && let Some(executor) = document.get_mut("executor").and_then(Value::as_object_mut)
    {
        executor.remove("instances");
    }
    // Another crate of the build may turn on serde_json's feature `preserve_order`.
    document.sort_all_objects();
    format!("{version}:{}", crate::digest::sha256_hex(document.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, value::RawValue};
    use std::collections::BTreeMap;

    fn hash(spec: &str) -> String {
        spec_hash(&serde_json::from_str(spec).unwrap())
    }

    #[test]
    fn only_suspend_ttl_explicit_defaults_and_the_order_of_keys_do_not_change_the_hash() {
        let cases = include_str!("../../../tests/data/spec-hashes.json");
        let cases: BTreeMap<String, Vec<[&RawValue; 2]>> = serde_json::from_str(cases).unwrap();
        for (hashes, pairs) in cases {
            for pair in pairs {
                let [one, other] = pair.map(|spec| hash(spec.get()));
                assert_eq!(one == other, hashes == "same", "{pair:?}");
            }
        }
    }

    #[test]
    fn executor_instances_do_not_change_the_hash_of_an_elastic_job() {
        let of = |annotation: &str, spec: Value| -> SparkApplication {
            let annotations = json!({annotation::ELASTIC_JOB: annotation});
            serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": spec})).unwrap()
        };
        let [two, three] = [2, 3].map(|instances| json!({"executor": {"instances": instances}}));
        let recorded = hash_of(&of("true", two.clone()));
        assert_eq!(hash_of(&of("true", three.clone())), recorded);
        assert_ne!(hash_of(&of("false", three.clone())), hash_of(&of("false", two.clone())));
        // The version of the recorded hash decides, not the present annotation.
        let whole = hash_of(&of("false", two.clone()));
        let [two, three] = [two, three].map(|spec| of("true", spec).spec);
        let compared = [&recorded, &whole].map(|hash| [&two, &three].map(|spec| is_hash_of(hash, spec)));
        assert_eq!(compared, [[Some(true), Some(true)], [Some(true), Some(false)]]);
        assert_eq!(is_hash_of(&recorded, &of("true", json!({"arguments": ["1"]})).spec), Some(false));
        assert_eq!(is_hash_of("v0:1", &two), None);
    }

    #[test]
    fn fields_of_the_executor_template_do_not_change_the_partial_hash() {
        let of = |spec: Value| partial_hash(&serde_json::from_value(spec).unwrap());
        let with = |driver: &str, scratch: &str, data: &str, selector: &str| {
            let mount = |name: &str| json!({"name": name, "mountPath": format!("/{name}")});
            of(json!({
                "volumes": [
                    {"name": "of-driver", "hostPath": {"path": driver}},
                    {"name": "spark-local-dir-1", "hostPath": {"path": scratch}},
                    {"name": "data", "hostPath": {"path": data}},
                ],
                "driver": {"volumeMounts": [mount("of-driver")]},
                "executor": {
                    "nodeSelector": {"pool": selector},
                    "volumeMounts": [mount("of-driver"), mount("spark-local-dir-1"), mount("data")],
                },
            }))
        };
        let unedited = with("/a", "/b", "/c", "d");
        assert!(unedited.starts_with("v1-partial:"), "{unedited}");
        assert_eq!(with("/a", "/b", "/z", "z"), unedited);
        assert_ne!(with("/z", "/b", "/c", "d"), unedited);
        assert_ne!(with("/a", "/z", "/c", "d"), unedited);
        assert_eq!(of(json!({"volumes": [{"name": "data"}], "executor": {"env": []}})), of(json!({})));
        assert_ne!(of(json!({"executor": {"cores": 2}})), of(json!({})));
    }

    /// If this test fails, the meaning of every recorded hash has changed: after an upgrade, the operator would run
    /// again every application of which only `suspend` is edited. Raise [`VERSION`] and handle the older one.
    #[test]
    fn the_hash_of_a_fixed_spec_never_changes() {
        let spec = json!({
            "type": "Scala", "sparkVersion": "4.0.1", "mainClass": "org.apache.spark.examples.SparkPi",
            "mainApplicationFile": "local:///opt/spark/examples/jars/spark-examples.jar",
            "driver": {"cores": 1, "memory": "512m", "serviceAccount": "spark"},
            "executor": {"cores": 1, "memory": "512m", "instances": 2},
        });
        assert_eq!(
            hash(&spec.to_string()),
            "v1:67a867e130bd3b4c0093ecd1a5fbb31321dc536f62282afa19bf575fff8ade63"
        );
    }
}
