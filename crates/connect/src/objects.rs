//! Builds the objects of a server other than its pod: the ConfigMap with the executors' pod template, the Service, the
//! NetworkPolicy, the Ingress of the web UI, and the EndpointSlices of a Service whose clients pass the gateway.

use crate::{BLOCK_MANAGER_PORT, CONNECT_PORT, DRIVER_PORT, Gateway, Policy, UI_PORT, names, ui};
use api::{
    ConnectAccess, ObjectKind, SparkConnect,
    names::{label, role},
    owner_reference,
};
use kube_core::ResourceExt;
use serde_json::{Value, json};
use spark_client::template_text;

/// The value of the label `endpointslice.kubernetes.io/managed-by`.
const MANAGER: &str = "sparkoperator.k8s.io";
/// The ports of the Service, that of Spark Connect first: name, number, `appProtocol`.
const CONNECT: (&str, i32, &str) = ("spark-connect-server", CONNECT_PORT, "grpc");
const OTHERS: [(&str, i32, &str); 3] = [
    ("driver-rpc", DRIVER_PORT, "tcp"),
    ("blockmanager", BLOCK_MANAGER_PORT, "tcp"),
    ("web-ui", UI_PORT, "http"),
];

/// Returns the labels by which the Service and the NetworkPolicy select the server's pod. Unlike in Kubeflow's
/// operator, they do not contain the version of Spark, so that the running pod is still selected after the version was
/// edited.
pub(super) fn server_labels(connect: &SparkConnect) -> [(&'static str, String); 3] {
    [
        (label::LAUNCHED_BY, "true".to_owned()),
        (label::CONNECT_NAME, connect.name_any()),
        (label::SPARK_ROLE, role::CONNECT_SERVER.to_owned()),
    ]
}

/// Returns all objects other than the pod. `gateway` is the gateway with its port for this SparkConnect, if connections
/// pass it; `address` is the IP address of the server's pod, if it has one.
pub(super) fn wanted(
    connect: &SparkConnect,
    policy: &Policy,
    gateway: Option<(&Gateway, i32)>,
    address: Option<&str>,
) -> Vec<Value> {
    let (mut objects, ingress) = (vec![config_map(connect)], ui::ingress(connect, &policy.exposure));
    if connect.spec.server.access.unwrap_or(policy.default_access) == ConnectAccess::Namespace {
        objects.push(network_policy(connect, gateway.map(|(gateway, _)| gateway), ingress.is_some()));
    }
    objects.push(service(connect, gateway.is_none()));
    objects.extend(ingress.map(|ingress| owned(connect, ingress)));
    if let Some((gateway, port)) = gateway {
        let [of_gateway, direct] = names::endpoint_slices(connect);
        let (name, _, protocol) = CONNECT;
        let addresses: Vec<_> = gateway.addresses.iter().map(String::as_str).collect();
        // A slice's `addressType` is immutable, so it is created when the first address is known.
        if !addresses.is_empty() {
            objects.push(endpoint_slice(connect, &of_gateway, &[(name, port, protocol)], &addresses));
        }
        objects.extend(address.map(|address| endpoint_slice(connect, &direct, &OTHERS, &[address])));
    }
    objects
}

fn object(connect: &SparkConnect, kind: &ObjectKind, name: &str) -> Value {
    owned(connect, json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}))
}

/// Returns an object with the SparkConnect as its owner and with the labels by which the operator finds it.
fn owned(connect: &SparkConnect, mut object: Value) -> Value {
    object["metadata"]["labels"] =
        json!({label::CREATED_BY: "true", label::CONNECT_NAME: connect.name_any()});
    object["metadata"]["ownerReferences"] = json!([owner_reference(connect)]);
    object
}

fn config_map(connect: &SparkConnect) -> Value {
    let mut template =
        connect.spec.executor.template.as_ref().map_or(Value::Null, |stated| stated.json().clone());
    if !template.is_null() {
        template["apiVersion"] = "v1".into();
        template["kind"] = "Pod".into();
        if template["spec"].is_null() {
            // Spark refuses a template without a spec.
            template["spec"] = json!({"containers": []});
        }
    }
    let mut object = object(connect, &ObjectKind::CONFIG_MAP, &names::config_map(connect));
    object["data"] = json!({names::TEMPLATE_KEY: template_text(&template)});
    object
}

/// Returns a policy that allows traffic from the pods of the namespace, executors among them, and from the gateway. If
/// the web UI has an Ingress, its port is open to everybody: the Ingress controller may run in any namespace.
fn network_policy(connect: &SparkConnect, gateway: Option<&Gateway>, has_ingress: bool) -> Value {
    let selector: Value = server_labels(connect).into_iter().collect();
    let mut ingress = vec![json!({"from": [{"podSelector": {}}]})];
    if let Some(Gateway { namespace, labels, .. }) = gateway {
        let of_gateway = json!({
            "namespaceSelector": {"matchLabels": {label::NAMESPACE_NAME: namespace}},
            "podSelector": {"matchLabels": labels},
        });
        ingress.push(json!({"from": [of_gateway], "ports": [{"port": CONNECT_PORT, "protocol": "TCP"}]}));
    }
    if has_ingress {
        ingress.push(json!({"ports": [{"port": UI_PORT, "protocol": "TCP"}]}));
    }
    let mut object = object(connect, &ObjectKind::NETWORK_POLICY, &names::server(connect));
    object["spec"] =
        json!({"podSelector": {"matchLabels": selector}, "policyTypes": ["Ingress"], "ingress": ingress});
    object
}

/// Returns the user's Service with the ports of the server. If it does not select pods, the operator writes its
/// EndpointSlices.
fn service(connect: &SparkConnect, selects: bool) -> Value {
    let mut service = object(connect, &ObjectKind::SERVICE, &names::service(connect));
    let given = connect.spec.server.service.as_ref().map_or(Value::Null, |given| given.json().clone());
    if !given["metadata"]["annotations"].is_null() {
        service["metadata"]["annotations"] = given["metadata"]["annotations"].clone();
    }
    for (key, value) in given["metadata"]["labels"].as_object().into_iter().flatten() {
        let labels = service["metadata"]["labels"].as_object_mut();
        labels.expect("every object has labels").entry(key).or_insert_with(|| value.clone());
    }
    service["spec"] = given["spec"].clone();
    let ports = OTHERS.iter().chain([&CONNECT]).map(|(name, port, protocol)| {
        json!({"name": name, "port": port, "targetPort": port, "protocol": "TCP", "appProtocol": protocol})
    });
    service["spec"]["ports"] = ports.collect();
    if selects {
        for (key, value) in server_labels(connect) {
            service["spec"]["selector"][key] = value.into();
        }
    } else if let Some(spec) = service["spec"].as_object_mut() {
        spec.remove("selector");
    }
    service
}

/// Returns an EndpointSlice of the Service with these ports. A slice has addresses of one IP family: that of the first
/// address.
fn endpoint_slice(
    connect: &SparkConnect,
    name: &str,
    ports: &[(&str, i32, &str)],
    addresses: &[&str],
) -> Value {
    let is_v6 = addresses.first().is_some_and(|address| address.contains(':'));
    let of_family = addresses.iter().filter(|address| address.contains(':') == is_v6);
    let endpoints: Vec<_> =
        of_family.map(|address| json!({"addresses": [address], "conditions": {"ready": true}})).collect();
    let ports = ports.iter().map(|(name, port, protocol)| {
        json!({"name": name, "port": port, "protocol": "TCP", "appProtocol": protocol})
    });
    let mut slice = object(connect, &ObjectKind::ENDPOINT_SLICE, name);
    slice["metadata"]["labels"][label::SERVICE_NAME] = names::service(connect).into();
    slice["metadata"]["labels"][label::ENDPOINT_SLICE_MANAGED_BY] = MANAGER.into();
    slice["addressType"] = Value::from(if is_v6 { "IPv6" } else { "IPv4" });
    slice["endpoints"] = endpoints.into();
    slice["ports"] = ports.collect();
    slice
}
