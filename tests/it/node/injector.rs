//! A webhook that adds a sidecar to every submission pod of a namespace, like a service mesh that ignores the
//! annotations by which a pod opts out.

use super::apply;
use crate::apiserver::{neighbour::Reviewer, prelude::*};

/// Starts the webhook for the submission pods of `namespace`; the API server reaches it at `host`, an address of the
/// node. Returns its server, and a value that unregisters the webhook when it is dropped.
pub(super) fn injector(host: &str, namespace: &str) -> (Reviewer, Finally) {
    let reviewer = Reviewer::start(host, inject);
    let url = format!("https://{}/mutate", reviewer.address);
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": format!("injects-into-{namespace}")},
        "webhooks": [{
            "name": "sidecar.injector.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "clientConfig": {"url": url, "caBundle": reviewer.ca},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": {"matchLabels": {"spark-role": "submission"}},
        }],
    });
    apply(&configuration);
    (reviewer, Finally::new(move || calls::delete_object(&configuration)))
}

/// Adds a container that runs for an hour.
fn inject(pod: &mut Value) {
    let sidecar = json!({
        "name": "istio-proxy", "image": "docker.io/library/busybox:stable", "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "3600"],
        "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
            "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    pod["spec"]["containers"].as_array_mut().unwrap().push(sidecar);
}
