//! Computes the hash of a spec. Two specs with equal hashes ask for the same run.

use api::{SparkApplication, SparkApplicationSpec, annotation, volume::is_scratch, with_defaults};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The version of the algorithm. Hashes of different versions cannot show whether the spec has changed.
const VERSION: &str = "v1";
/// The version of hashes that leave out `executor.instances` too: see [`hash_of`].
const ELASTIC: &str = "v1-elastic";
/// The version of hashes that leave out what executors have from their template: see [`without_template`].
const PARTIAL: &str = "v1-partial";

/// The fields that affect the present run at once, and do not require another run: no hash has them.
pub const AT_ONCE: [&str; 2] = ["suspend", "timeToLiveSeconds"];

/// The fields of a spec with what an edit of each, or of what is below it, does to a run, in the words of `validation::Effect`.
pub const EDITS: &str = include_str!("edits.txt");
/// How a line of [`EDITS`] ends whose field only the executors' template has: it is no property of the driver.
const OF_TEMPLATE: &str = " takes effect for the next executor";

/// Returns the hash of those fields of a spec that define a run: `v1:` and the SHA-256, in hexadecimal, of the
/// [canonical] JSON of the spec: no white space, and the members of objects in the order of their keys.
///
/// The fields of [`AT_ONCE`] are left out.
pub fn spec_hash(spec: &SparkApplicationSpec) -> String {
    hashed(VERSION, canonical(spec))
}

/// Returns the hash that is recorded with a run of `application`. An edit of `executor.instances` alone requires no other run of
/// an elastic job of Kueue.
pub fn hash_of(application: &SparkApplication) -> String {
    let mut annotations = application.metadata.annotations.iter().flatten();
    let is_elastic = annotations.any(|(key, value)| key == annotation::ELASTIC_JOB && value == "true");
    hashed(if is_elastic { ELASTIC } else { VERSION }, canonical(&application.spec))
}

/// Returns the hash that is recorded with a run whose executors' template is written anew after edits.
pub fn partial_hash(spec: &SparkApplicationSpec) -> String {
    hashed(PARTIAL, canonical(spec))
}

/// Whether `recorded` is the hash of `spec`; none if it is of a version that cannot be compared. The comparison is by
/// the rules under which the hash was recorded: an annotation that was added since does not look like an edit. The first
/// hashes had the protocol of containers' ports as it was written, so both forms are compared.
pub fn is_hash_of(recorded: &str, spec: &SparkApplicationSpec) -> Option<bool> {
    let (version, _) = recorded.split_once(':')?;
    let is_of = |document| hashed(version, document) == recorded;
    [VERSION, ELASTIC, PARTIAL].contains(&version).then(|| is_of(canonical(spec)) || is_of(document(spec)))
}

/// Whether the present run of `application` is that of an elastic job: an edit of `executor.instances` leaves it alone.
pub fn has_elastic_run(application: &SparkApplication) -> bool {
    version_of_run(application) == Some(ELASTIC)
}

/// Whether an edit of what the executors' template has leaves the present run of `application` alone.
pub fn has_partial_run(application: &SparkApplication) -> bool {
    version_of_run(application) == Some(PARTIAL)
}

fn version_of_run(application: &SparkApplication) -> Option<&str> {
    let (version, _) = application.status.as_ref()?.spec_hash.as_ref()?.split_once(':')?;
    Some(version)
}

/// Returns a spec as JSON with its defaults, so that two specs that mean the same are equal. The default protocol of
/// containers' ports is left out: the API server adds it by the definitions, which have not always had it.
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

/// Returns a [canonical] spec without what only the executors' template has. Scratch space stays, which is a property of the
/// driver, and so does a volume whose name is anywhere in the driver's section.
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

/// Keeps those entries of a list that `is_kept`, and removes a list of which nothing is left.
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
    // Some crate of a build may ask serde_json to keep the order of insertion.
    document.sort_all_objects();
    format!("{version}:{}", crate::digest::sha256_hex(document.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn hash(spec: &str) -> String {
        spec_hash(&serde_json::from_str(spec).unwrap())
    }

    #[test]
    fn the_order_of_keys_does_not_count() {
        let one =
            r#"{"volumes":[{"name":"a","emptyDir":{"medium":"Memory","sizeLimit":"1Gi"}}],"type":"Java"}"#;
        let other =
            r#"{"type":"Java","volumes":[{"emptyDir":{"sizeLimit":"1Gi","medium":"Memory"},"name":"a"}]}"#;
        assert_eq!(hash(one), hash(other));
    }

    #[test]
    fn suspending_time_to_live_and_written_defaults_do_not_count_and_everything_else_does() {
        let cases = include_str!("../../../tests/data/spec-hashes.json");
        let cases: BTreeMap<String, Vec<[Value; 2]>> = serde_json::from_str(cases).unwrap();
        for (hashes, pairs) in cases {
            for pair in pairs {
                let [one, other] = pair.each_ref().map(|spec| hash(&spec.to_string()));
                assert_eq!(one == other, hashes == "same", "{pair:?}");
            }
        }
    }

    #[test]
    fn the_executors_of_an_elastic_job_do_not_count() {
        let of = |annotation: &str, spec: Value| -> SparkApplication {
            let annotations = json!({annotation::ELASTIC_JOB: annotation});
            serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": spec})).unwrap()
        };
        let [two, three] = [2, 3].map(|instances| json!({"executor": {"instances": instances}}));
        let recorded = hash_of(&of("true", two.clone()));
        assert_eq!(hash_of(&of("true", three.clone())), recorded);
        assert_ne!(hash_of(&of("false", three.clone())), hash_of(&of("false", two.clone())));
        // The rules of the recorded hash count, whatever the annotation says now.
        let whole = hash_of(&of("false", two.clone()));
        let [two, three] = [two, three].map(|spec| of("true", spec).spec);
        let compared = [&recorded, &whole].map(|hash| [&two, &three].map(|spec| is_hash_of(hash, spec)));
        assert_eq!(compared, [[Some(true), Some(true)], [Some(true), Some(false)]]);
        assert_eq!(is_hash_of(&recorded, &of("true", json!({"arguments": ["1"]})).spec), Some(false));
        assert_eq!(is_hash_of("v0:1", &two), None);
    }

    #[test]
    fn what_only_the_template_of_executors_has_does_not_count_in_a_partial_run() {
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
    fn the_hash_of_a_known_spec_is_known() {
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
