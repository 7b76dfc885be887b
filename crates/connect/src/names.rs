//! Derives the names of the objects of a SparkConnect. They are the same as in Kubeflow's operator.

use crate::CONNECT_PORT;
use api::{Identity, SparkConnect};
use kube_core::ResourceExt;

/// The maximum length of the name of a SparkConnect, so that the name of the server's pod is a DNS label.
pub const LONGEST_NAME: usize = api::LONGEST_LABEL - SERVER.len();
const SERVER: &str = "-server";
/// The key of the executors' pod template in its ConfigMap.
pub(super) const TEMPLATE_KEY: &str = "executor-pod-template.yaml";
/// The path of that template in the server's container, where Spark reads it when the server starts.
pub(super) const TEMPLATE_FILE: &str = "/tmp/spark/executor-pod-template.yaml";

/// Returns the name of the server's pod and of its NetworkPolicy.
pub fn server(connect: &SparkConnect) -> String {
    connect.name_any() + SERVER
}

/// Returns the name of the ConfigMap with the executors' pod template.
pub fn config_map(connect: &SparkConnect) -> String {
    connect.name_any() + "-conf"
}

/// Returns the name of the Service: that in `spec.server.service`, which is not checked here, else that of the server's
/// pod.
pub fn service(connect: &SparkConnect) -> String {
    let given = connect.spec.server.service.as_ref();
    let given = given.and_then(|service| service.json()["metadata"]["name"].as_str());
    given.filter(|name| !name.is_empty()).map_or_else(|| server(connect), str::to_owned)
}

/// Returns the URL for clients in the cluster, `sc://…`, once the status names the Service.
pub fn address(connect: &SparkConnect) -> Option<String> {
    let service = connect.status.as_ref()?.server.service_name.as_ref()?;
    Some(format!("sc://{service}.{}.svc:{CONNECT_PORT}", connect.own_namespace()))
}

/// Returns the name of the Ingress of the web UI. It may exceed the 63 characters of a Service's name: Kubernetes
/// allows an Ingress 253.
pub(super) fn ui_ingress(connect: &SparkConnect) -> String {
    server(connect) + "-ui"
}

/// Returns the names of the two EndpointSlices of a Service without a selector: the first for the port that the gateway
/// serves, the second for the ports of the server's pod.
pub fn endpoint_slices(connect: &SparkConnect) -> [String; 2] {
    let service = service(connect);
    [format!("{service}-gateway"), format!("{service}-direct")]
}
