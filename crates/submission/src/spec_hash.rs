//! Computes the hash of a spec. Two specs with equal hashes ask for the same run.

use crate::digest::sha256_hex;
use api::{SparkApplicationSpec, with_defaults};
use serde_json::Value;

/// The version of the algorithm. Hashes of different versions cannot show whether the spec has changed.
const VERSION: &str = "v1";

/// Returns the hash of those fields of a spec that define a run: `v1:` and the SHA-256, in hexadecimal, of the
/// canonical JSON of the spec with its defaults: no white space, and the members of objects in the order of their keys.
///
/// `suspend` and `timeToLiveSeconds` are left out: they affect the present run, but do not require another run. So is the
/// default protocol of containers' ports: the API server adds it by the definitions, which have not always had it.
#[must_use]
pub fn spec_hash(spec: &SparkApplicationSpec) -> String {
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
    hash(document)
}

/// Whether `spec` is another one than that of which `recorded` is the hash. A hash of another version does not show it.
///
/// The first hashes of this version had the protocol of containers' ports as it was written, so both forms are compared.
#[must_use]
pub fn is_edited(spec: &SparkApplicationSpec, recorded: &str) -> bool {
    hash_version(recorded) == VERSION && recorded != spec_hash(spec) && recorded != hash(document(spec))
}

fn document(spec: &SparkApplicationSpec) -> Value {
    let spec =
        SparkApplicationSpec { suspend: None, time_to_live_seconds: None, ..with_defaults(spec.clone()) };
    serde_json::to_value(&spec).expect("a spec is JSON")
}

fn hash(mut document: Value) -> String {
    // Some crate of a build may ask serde_json to keep the order of insertion.
    document.sort_all_objects();
    format!("{VERSION}:{}", sha256_hex(document.to_string().as_bytes()))
}

/// Returns the version of the algorithm that computed `hash`. Only hashes of the same version can be compared.
#[must_use]
pub fn hash_version(hash: &str) -> &str {
    hash.split_once(':').map_or("", |(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
    fn suspending_and_time_to_live_do_not_count() {
        assert_eq!(hash(r#"{"suspend":true,"timeToLiveSeconds":60}"#), hash("{}"));
    }

    #[test]
    fn a_default_that_was_written_out_does_not_count() {
        let written = r#"{"mode":"cluster","restartPolicy":{"type":"Never"},"executor":{"instances":1}}"#;
        assert_eq!(hash(written), hash("{}"));
        assert_eq!(hash(r#"{"arguments":[],"sparkConf":{},"image":null}"#), hash("{}"));
    }

    #[test]
    fn the_protocol_that_the_api_server_adds_to_a_port_does_not_count() {
        for (role, list) in ["driver", "executor"]
            .into_iter()
            .flat_map(|role| ["initContainers", "sidecars"].map(|list| (role, list)))
        {
            let with = |port: Value| {
                hash(&json!({role: {list: [{"name": "a"}, {"name": "b", "ports": [port]}]}}).to_string())
            };
            let tcp = with(json!({"containerPort": 1, "protocol": "TCP"}));
            assert_eq!(tcp, with(json!({"containerPort": 1})), "{role}.{list}");
            assert_ne!(tcp, with(json!({"containerPort": 1, "protocol": "UDP"})), "{role}.{list}");
        }
    }

    #[test]
    fn everything_else_counts() {
        for edit in [
            r#"{"arguments":["1"]}"#,
            r#"{"driver":{"cores":2}}"#,
            r#"{"volumes":[{"name":"a","wormhole":{}}]}"#,
        ] {
            assert_ne!(hash(edit), hash("{}"), "{edit}");
        }
        assert_ne!(hash(r#"{"arguments":["1","2"]}"#), hash(r#"{"arguments":["2","1"]}"#));
    }

    /// If this test fails, the meaning of every recorded hash has changed: after an upgrade, the operator would run
    /// again every application of which only `suspend` is edited. Raise [`VERSION`] and handle the older one.
    #[test]
    fn the_hash_of_a_known_spec_is_known() {
        let spec = json!({
            "type": "Scala",
            "sparkVersion": "4.0.1",
            "mainClass": "org.apache.spark.examples.SparkPi",
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
