//! Computes the hash of a spec. Two specs with equal hashes ask for the same run.

use crate::digest::sha256_hex;
use api::{SparkApplicationSpec, with_defaults};
use serde_json::Value;

/// The version of the algorithm. Hashes of different versions cannot show whether the spec has changed.
const VERSION: &str = "v1";

/// Returns the hash of those fields of a spec that define a run: `v1:` and the SHA-256, in hexadecimal, of the
/// canonical JSON of the spec with its defaults.
///
/// `suspend` and `timeToLiveSeconds` are left out: they affect the present run, but do not require another run.
#[must_use]
pub fn spec_hash(spec: &SparkApplicationSpec) -> String {
    let spec =
        SparkApplicationSpec { suspend: None, time_to_live_seconds: None, ..with_defaults(spec.clone()) };
    let document = serde_json::to_value(&spec).expect("a spec is JSON");
    let mut canonical = String::new();
    write_canonical(&document, &mut canonical);
    format!("{VERSION}:{}", sha256_hex(canonical.as_bytes()))
}

/// Returns the version of the algorithm that computed `hash`. Only hashes of the same version can be compared.
#[must_use]
pub fn hash_version(hash: &str) -> &str {
    hash.split_once(':').map_or("", |(version, _)| version)
}

/// Writes JSON without white space and with the members of objects in the order of their keys.
///
/// `serde_json` itself is not used for this, because it keeps the order of insertion as soon as any crate of the build
/// enables that feature.
fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (position, (key, value)) in members.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(elements) => {
            out.push('[');
            for (position, element) in elements.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_canonical(element, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
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
