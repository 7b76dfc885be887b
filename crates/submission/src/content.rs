//! Compares an object that exists with the object that the operator would create under its name. Name, owner and labels
//! follow from facts that other users can read, so whoever may create such objects can create one in advance. Its
//! content decides whether a run uses it.

use serde_json::Value;
use spark_client::without_times;

/// Whether objects of this kind are compared: those from which the driver's configuration comes, and by which executors
/// find the driver. Whoever may create a NetworkPolicy can also add one of another name, and the operator has no rights on
/// Secrets.
pub fn is_compared(kind: &str) -> bool {
    ["ConfigMap", "Service"].contains(&kind)
}

/// Whether the object `there` has the content of `wanted`, an object of a kind that is compared. The time of the
/// submission does not count, because two attempts to submit a run differ in it.
pub fn is_same(there: &Value, wanted: &Value) -> bool {
    content(there) == content(wanted)
}

/// Returns the data of a ConfigMap, and which pods a Service leads to. The other fields of a Service have defaults of the
/// API server, and without its pods none of them leads anywhere.
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
    fn what_the_api_server_adds_and_the_time_are_no_other_content_and_all_else_is() {
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
