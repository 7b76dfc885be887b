//! Derives the names of the objects of a SparkConnect, which are those of Kubeflow's operator.

use crate::CONNECT_PORT;
use api::SparkConnect;
use kube_core::ResourceExt;

/// The greatest length of a name, so that the name of the server's pod is a label.
pub const LONGEST_NAME: usize = api::LONGEST_LABEL - SERVER.len();
const SERVER: &str = "-server";
/// The key of the pod template of the executors in its ConfigMap.
pub(super) const TEMPLATE_KEY: &str = "executor-pod-template.yaml";
/// The file with that template, which Spark reads when the server starts.
pub(super) const TEMPLATE_FILE: &str = "/tmp/spark/executor-pod-template.yaml";

/// Returns the name of the server's pod and of its NetworkPolicy.
pub fn server(connect: &SparkConnect) -> String {
    connect.name_any() + SERVER
}

/// Returns the name of the ConfigMap with the pod template of the executors.
pub fn config_map(connect: &SparkConnect) -> String {
    connect.name_any() + "-conf"
}

/// Returns the name of the Service. A name that the user has given is not checked here.
pub fn service(connect: &SparkConnect) -> String {
    let given = connect.spec.server.service.as_ref();
    let given = given.and_then(|service| service.json()["metadata"]["name"].as_str());
    given.filter(|name| !name.is_empty()).map_or_else(|| server(connect), str::to_owned)
}

/// Returns the address for clients in the cluster, once there is a Service.
pub fn address(connect: &SparkConnect) -> Option<String> {
    let service = connect.status.as_ref()?.server.service_name.as_ref()?;
    Some(format!("sc://{service}.{}.svc:{CONNECT_PORT}", connect.namespace().unwrap_or_default()))
}

/// Returns the name of the Ingress of the web UI. An Ingress may have a longer name than a Service.
pub(super) fn ui_ingress(connect: &SparkConnect) -> String {
    server(connect) + "-ui"
}

/// Returns the names of the EndpointSlices of a Service without a selector: of the port that the gateway serves, and of
/// the others.
pub fn endpoint_slices(connect: &SparkConnect) -> [String; 2] {
    let service = service(connect);
    [format!("{service}-gateway"), format!("{service}-direct")]
}
