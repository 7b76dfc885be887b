//! Compares an object that exists with the object that the operator would create under its name. Users who may read the
//! application can compute name, owner and labels, so those who may create such objects can create one in advance.
//! Therefore the content decides whether a run uses an object.

use serde_json::Value;
use spark_client::without_times;

/// Whether objects of this kind are compared. The driver's configuration comes from ConfigMaps, and executors find the
/// driver by its Service. A NetworkPolicy is not compared, because whoever can forge it can also add one of another
/// name, nor a Secret, because the operator may not read it.
pub fn is_compared(kind: &str) -> bool {
    ["ConfigMap", "Service"].contains(&kind)
}

/// Whether the object `there` has the content of `wanted`, an object of a kind that is compared. The time of the
/// submission does not count, because two attempts to submit a run differ in it.
pub fn is_same(there: &Value, wanted: &Value) -> bool {
    content(there) == content(wanted)
}

/// Returns the data of a ConfigMap, or the fields of a Service that decide where it leads. Its other fields may have
/// defaults of the API server, and they lead to no other pods.
fn content(object: &Value) -> [Value; 7] {
    let mut data = object["data"].clone();
    if let Some(Value::String(text)) = data.get_mut("spark.properties") {
        *text = without_times(text);
    }
    let spec = |field: &str| object["spec"][field].clone();
    let (immutable, binary) = (object["immutable"].clone(), object["binaryData"].clone());
    [data, binary, immutable, spec("selector"), spec("clusterIP"), spec("externalName"), spec("externalIPs")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_of_the_api_server_metadata_and_the_time_do_not_count_as_content() {
        let config_map = json!({"immutable": true, "data": {"spark.properties": "#a\n#1\nspark.a=b\n"}});
        let service = json!({"spec": {"clusterIP": "None", "selector": {"spark-role": "driver"}}});
        for (wanted, field, value, is_content) in [
            (&config_map, "/data/spark.properties", json!("#a\n#2\nspark.a=b\n"), false),
            (&config_map, "/metadata", json!({"annotations": {"a": "b"}}), false),
            (&config_map, "/data/spark.properties", json!("#a\n#2\nspark.a=c\n"), true),
            (&config_map, "/data/a", json!(""), true),
            (&config_map, "/binaryData", json!({"a": "YQ=="}), true),
            (&config_map, "/immutable", json!(false), true),
            (&service, "/spec/internalTrafficPolicy", json!("Cluster"), false),
            (&service, "/spec/clusterIP", json!("10.0.0.1"), true),
            (&service, "/spec/externalIPs", json!(["10.0.0.1"]), true),
            (&service, "/spec/externalName", json!("a"), true),
            (&service, "/spec/selector/a", json!("b"), true),
        ] {
            let mut there = wanted.clone();
            let (parent, field) = field.rsplit_once('/').unwrap();
            there.pointer_mut(parent).unwrap()[field] = value;
            assert_eq!(is_same(&there, wanted), !is_content, "{there}");
        }
        assert!(is_compared("ConfigMap") && is_compared("Service") && !is_compared("Pod"));
    }
}
