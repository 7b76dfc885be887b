//! Imitates how the API server changes a pod that it stores: enough of its defaults and of its own admission plugins to
//! show that customizing a stored pod changes nothing.

use api::quantity;
use serde_json::{Map, Value, json};

/// Fields that Go writes only when they are true or not zero. (Fields that are pointers in Go keep the value that was
/// written.)
const OMITTED_WHEN_ZERO: [&str; 5] = ["readOnly", "hostNetwork", "hostPID", "hostIPC", "hostPort"];

/// Returns `pod` as the API server stores it.
pub fn stored(pod: &Value) -> Value {
    let mut pod = pod.clone();
    walk(&mut pod, "");
    let host_network = pod["spec"]["hostNetwork"] == true;
    let spec = pod["spec"].as_object_mut().unwrap();
    let pod_defaults = json!({
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30, "securityContext": {},
        "schedulerName": "default-scheduler", "enableServiceLinks": true, "serviceAccountName": "default", "priority": 1000,
        "preemptionPolicy": "PreemptLowerPriority",
    });
    fill(spec, &pod_defaults);
    append(spec, "tolerations", [not_ready("not-ready"), not_ready("unreachable")]);
    let token = json!({"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": []}});
    append(spec, "volumes", [token]);
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            complete_container(container.as_object_mut().unwrap(), host_network);
        }
    }
    pod
}

fn complete_container(container: &mut Map<String, Value>, host_network: bool) {
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    let mount = json!({"name": "kube-api-access-x7k2p", "mountPath": path, "readOnly": true});
    append(container, "volumeMounts", [mount]);
    let defaults = json!({
        "resources": {}, "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    });
    fill(container, &defaults);
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = port["containerPort"].clone();
        let defaults = if host_network { json!({"hostPort": number}) } else { json!({}) };
        fill(port.as_object_mut().unwrap(), &defaults);
    }
    let resources = &mut container["resources"];
    if let Some(limits) = resources.get("limits").cloned() {
        // Kubernetes sets a missing request to the limit.
        let requests = resources.as_object_mut().unwrap().entry("requests").or_insert_with(|| json!({}));
        fill(requests.as_object_mut().unwrap(), &limits);
    }
}

fn not_ready(what: &str) -> Value {
    json!({"key": format!("node.kubernetes.io/{what}"), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
}

/// Applies the changes at any depth: empty values are removed, defaults are added, and quantities are normalized.
fn walk(value: &mut Value, field: &str) {
    match value {
        Value::Object(members) => {
            if ["limits", "requests"].contains(&field) {
                members.values_mut().for_each(canonical);
            }
            for (name, member) in members.iter_mut() {
                if ["sizeLimit", "storage", "divisor"].contains(&name.as_str()) {
                    canonical(member);
                } else {
                    walk(member, name);
                }
            }
            members.retain(|name, member| match member {
                Value::Null => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(list) => !list.is_empty(),
                Value::Bool(false) => !OMITTED_WHEN_ZERO.contains(&name.as_str()),
                _ => true,
            });
            fill(members, &defaults(field));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| walk(element, field)),
        _ => {}
    }
}

/// Returns the defaults of an object that is the value of `field`, or an element of the list in `field`.
fn defaults(field: &str) -> Value {
    match field {
        "configMap" | "secret" | "projected" | "downwardAPI" => json!({"defaultMode": 420}),
        "fieldRef" => json!({"apiVersion": "v1"}),
        "resourceFieldRef" => json!({"divisor": "0"}),
        "serviceAccountToken" => json!({"expirationSeconds": 3600}),
        "hostPath" => json!({"type": ""}),
        "httpGet" => json!({"path": "/", "scheme": "HTTP"}),
        "ports" => json!({"protocol": "TCP"}),
        "readinessProbe" | "livenessProbe" | "startupProbe" => {
            json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3})
        }
        _ => json!({}),
    }
}

fn fill(object: &mut Map<String, Value>, defaults: &Value) {
    for (name, default) in defaults.as_object().unwrap() {
        object.entry(name).or_insert_with(|| default.clone());
    }
}

fn append<const N: usize>(object: &mut Map<String, Value>, field: &str, more: [Value; N]) {
    object.entry(field).or_insert_with(|| json!([])).as_array_mut().unwrap().extend(more);
}

/// Replaces a quantity by its shortest form in the same family of suffixes: `1024Mi` becomes `1Gi`, `1500m` stays,
/// `2000M` becomes `2G`.
fn canonical(quantity: &mut Value) {
    let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
    let amount = quantity::amount(&text).unwrap();
    let (base, suffixes) =
        if text.ends_with('i') { (1024, ["Ki", "Mi", "Gi", "Ti"]) } else { (1000, ["k", "M", "G", "T"]) };
    *quantity = if amount % 1000 == 0 {
        let (mut number, mut suffix) = (amount / 1000, "");
        for larger in suffixes {
            if number == 0 || number % base != 0 {
                break;
            }
            (number, suffix) = (number / base, larger);
        }
        format!("{number}{suffix}").into()
    } else {
        format!("{amount}m").into()
    };
}

#[test]
fn a_stored_pod_has_the_defaults_of_the_api_server() {
    let pod = json!({"spec": {"hostNetwork": true, "volumes": [{"name": "v", "configMap": {"name": "c"}}], "containers": [
        {"name": "c", "env": [{"name": "E", "value": ""}], "ports": [{"containerPort": 1}], "resources": {"limits": {"memory": "1024Mi", "cpu": 1.5}}},
    ]}});
    let stored = stored(&pod);
    let container = &stored["spec"]["containers"][0];
    assert_eq!(container["env"], json!([{"name": "E"}]));
    assert_eq!(container["ports"], json!([{"containerPort": 1, "hostPort": 1, "protocol": "TCP"}]));
    assert_eq!(container["resources"]["requests"], json!({"memory": "1Gi", "cpu": "1500m"}));
    assert_eq!(stored["spec"]["volumes"][0]["configMap"], json!({"name": "c", "defaultMode": 420}));
}
