//! Sets how the API server reaches the webhook of pods: by a URL, over HTTP/2, or through a Service, over HTTP/1.1.
//! Outside of tests the webhook is always reached through a Service.

use super::{certificates::bundle, operator::WEBHOOK_PORT};
use crate::apiserver::prelude::*;

/// The name of the webhook's Service, which is in [`NAMESPACE`].
pub(crate) const SERVICE: &str = "spark-operator-webhook-svc";

/// The route; dropping this value restores the usual one.
pub(crate) struct Route;

impl Route {
    /// Uses a URL with this port.
    pub(crate) fn url(port: u16) -> Self {
        point(&json!({"url": format!("https://localhost:{port}/mutate")}));
        Self
    }

    /// Uses the Service. Without a kube-proxy, the Service must have an external name, which is that of this machine.
    pub(crate) fn service(port: u16) -> Self {
        delete_service();
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        kubectl_with(&service, &["create", "-f", "-"]);
        let service = json!({"name": SERVICE, "namespace": NAMESPACE, "path": "/mutate", "port": port});
        point(&json!({"service": service}));
        Self
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        point(&json!({"url": format!("https://localhost:{WEBHOOK_PORT}/mutate")}));
        delete_service();
        calls::apply_manifests("manifests/webhook/service.yaml");
    }
}

pub(crate) fn delete_service() {
    kubectl(&["delete", "service", SERVICE, "--namespace", NAMESPACE, "--ignore-not-found"]);
}

/// Makes the API server call `client_config`, with the same CAs as before.
fn point(client_config: &Value) {
    let mut client_config = client_config.clone();
    client_config["caBundle"] = json!(bundle());
    let path = "/webhooks/0/clientConfig";
    let patch = json!([{"op": "replace", "path": path, "value": client_config}]);
    calls::patch(&webhooks("mutatingwebhookconfiguration", WEBHOOK), &patch);
}
