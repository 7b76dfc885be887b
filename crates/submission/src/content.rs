//! Compares an object that exists with the object that the operator would create under its name. Name, owner and labels
//! follow from facts that other users can read, so whoever may create such objects can create one in advance. Its
//! content decides whether a run uses it.

use serde_json::{Value, json};
use spark_client::without_times;

/// The key of Spark's properties in a ConfigMap, as a JSON pointer.
const PROPERTIES: &str = "/data/spark.properties";
/// The families of the IP addresses of a Service, as a JSON pointer.
const IP_FAMILIES: &str = "/spec/ipFamilies";

/// Whether objects of this kind are compared. All others are used as they are: the API server and other programs change
/// their specs.
pub fn is_compared(kind: &str) -> bool {
    ["ConfigMap", "Secret", "Service", "NetworkPolicy"].contains(&kind)
}

/// Whether the object `there` has the content of `wanted`, an object of a kind that is compared: the same fields, except the
/// metadata and the status. The defaults of the API server and the time of the submission do not count, because two
/// attempts to submit a run differ in them.
pub fn is_same(there: &Value, wanted: &Value) -> bool {
    let kind = wanted["kind"].as_str().unwrap_or_default();
    let (mut there, wanted) = (content(kind, there), content(kind, wanted));
    // In a cluster with both families, the API server adds the second one, unless the policy is SingleStack.
    let families = wanted.pointer(IP_FAMILIES).and_then(Value::as_array);
    let all = there.pointer_mut(IP_FAMILIES).and_then(Value::as_array_mut);
    if let (Some(all), Some(families)) = (all, families) {
        all.truncate(families.len());
    }
    there == wanted
}

/// Returns the fields of an object of this kind that are compared, with the API server's defaults for those that it does
/// not have.
fn content(kind: &str, object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.retain(|field, _| !["apiVersion", "kind", "metadata", "status"].contains(&field.as_str()));
    }
    let (at, defaults) = match kind {
        "ConfigMap" => ("", json!({"immutable": false})),
        "Secret" => ("", json!({"immutable": false, "type": "Opaque"})),
        "NetworkPolicy" => ("/spec", json!({"policyTypes": ["Ingress"]})),
        "Service" => {
            let of_service = json!({
                "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                // The Service of a driver has no cluster IP.
                "clusterIPs": ["None"],
                // The API server omits the field if it is false.
                "publishNotReadyAddresses": false,
            });
            ("/spec", of_service)
        }
        _ => ("", json!({})),
    };
    set_defaults(content.pointer_mut(at), defaults);
    let ports = content.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        set_defaults(Some(port), json!({"protocol": "TCP"}));
    }
    if let Some(properties) = content.pointer_mut(PROPERTIES)
        && let Some(text) = properties.as_str().map(without_times)
    {
        *properties = text.into();
    }
    content
}

/// Adds those of `defaults` that `object` does not have.
fn set_defaults(object: Option<&mut Value>, defaults: Value) {
    if let (Some(Value::Object(fields)), Value::Object(defaults)) = (object, defaults) {
        for (field, value) in defaults {
            fields.entry(field).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an object as the operator creates it, and as the API server stores it.
    fn stored(kind: &str) -> [Value; 2] {
        let wanted = match kind {
            "ConfigMap" => json!({"immutable": true, "data": {"spark.properties": "#a\n#1\nspark.a=b\n"}}),
            "Secret" => json!({"immutable": true, "data": {"oauth-token": "YQ=="}}),
            "Service" => json!({"spec": {
                "clusterIP": "None", "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"],
                "publishNotReadyAddresses": false, "selector": {"spark-role": "driver"},
                "ports": [{"name": "spark-ui", "port": 4040, "targetPort": 4040}],
            }}),
            _ => json!({"spec": {
                "podSelector": {"matchLabels": {"spark-role": "executor"}},
                "ingress": [{"from": [{"podSelector": {"matchLabels": {"spark-app-selector": "a"}}}]}],
            }}),
        };
        let mut stored = wanted.clone();
        match kind {
            "ConfigMap" => stored["data"]["spark.properties"] = "#a\n#2\nspark.a=b\n".into(),
            "Secret" => stored["type"] = "Opaque".into(),
            "Service" => {
                stored["status"] = json!({"loadBalancer": {}});
                stored["spec"]["ports"][0]["protocol"] = "TCP".into();
                let spec = stored["spec"].as_object_mut().unwrap();
                spec.remove("publishNotReadyAddresses");
                for (field, value) in [
                    ("clusterIPs", json!(["None"])),
                    ("internalTrafficPolicy", "Cluster".into()),
                    ("ipFamilies", json!(["IPv4", "IPv6"])),
                    ("sessionAffinity", "None".into()),
                    ("type", "ClusterIP".into()),
                ] {
                    spec.insert(field.to_owned(), value);
                }
            }
            _ => stored["spec"]["policyTypes"] = json!(["Ingress"]),
        }
        [wanted, stored].map(|mut object| {
            object["kind"] = kind.into();
            object
        })
    }

    #[test]
    fn what_the_api_server_adds_and_the_time_are_no_other_content() {
        for kind in ["ConfigMap", "Secret", "Service", "NetworkPolicy"] {
            let [wanted, mut there] = stored(kind);
            there["metadata"] = json!({"uid": "1", "annotations": {"a": "b"}});
            assert!(is_compared(kind) && is_same(&there, &wanted), "{there}");
        }
        assert!(!is_compared("Pod"));
    }

    #[test]
    fn any_other_difference_is_another_content() {
        for (kind, field, value) in [
            ("ConfigMap", "/data/spark.properties", json!("#a\n#2\nspark.a=c\n")),
            ("ConfigMap", "/data", json!({})),
            ("ConfigMap", "/immutable", json!(false)),
            ("Secret", "/data/oauth-token", json!("Yg==")),
            ("Secret", "/type", json!("kubernetes.io/tls")),
            ("Service", "/spec/clusterIP", json!("10.0.0.1")),
            ("Service", "/spec/ipFamilies", json!(["IPv6", "IPv4"])),
            ("Service", "/spec/ports", json!([])),
            ("Service", "/spec/ports/0/targetPort", json!(1)),
            ("Service", "/spec/selector/spark-role", json!("executor")),
            ("NetworkPolicy", "/spec/ingress/0", json!({})),
            ("NetworkPolicy", "/spec/policyTypes", json!(["Ingress", "Egress"])),
        ] {
            let [wanted, mut there] = stored(kind);
            *there.pointer_mut(field).unwrap() = value;
            assert!(!is_same(&there, &wanted), "{there}");
        }
        for (kind, at, field, value) in [
            ("ConfigMap", "", "binaryData", json!({"a": "YQ=="})),
            ("ConfigMap", "/data", "a", json!("")),
            ("Service", "/spec", "externalIPs", json!(["10.0.0.1"])),
            ("Service", "/spec/ports/0", "nodePort", json!(1)),
            ("Service", "/spec/selector", "a", json!("b")),
            ("NetworkPolicy", "/spec/ingress/0/from/0", "namespaceSelector", json!({})),
        ] {
            let [wanted, mut there] = stored(kind);
            there.pointer_mut(at).unwrap()[field] = value;
            assert!(!is_same(&there, &wanted), "{there}");
        }
    }
}
