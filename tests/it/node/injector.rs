//! A webhook that adds a sidecar to every submission pod of a namespace, like a service mesh that ignores the
//! annotations by which a pod opts out.

use super::{apply, reverse_proxy::acceptor};
use crate::{apiserver::kubectl::kubectl, background::Background};
use axum::body::Body;
use certificates::Certificates;
use http_body_util::BodyExt;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use tokio::net::TcpListener;

/// The webhook, which is stopped and unregistered when this value is dropped.
pub(super) struct Injector {
    name: String,
    injected: Arc<AtomicU32>,
    _background: Background,
}

impl Injector {
    /// Starts the webhook for the submission pods of `namespace`; the API server reaches the webhook at `host`, an
    /// address of the node.
    pub(super) fn start(host: &str, namespace: &str) -> Self {
        let certificates = Certificates::generate(&[host.to_owned()], now()).unwrap();
        let tls = acceptor(certificates.certificate.as_bytes(), certificates.key.as_bytes());
        let background = Background::start();
        let listener = background.block_on(TcpListener::bind((host, 0))).unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let injected = Arc::<AtomicU32>::default();
        let count = Arc::clone(&injected);
        background.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (tls, count) = (tls.clone(), Arc::clone(&count));
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let answer = service_fn(|request| {
                        count.fetch_add(1, Ordering::SeqCst);
                        inject(request)
                    });
                    // The API server may close the connection at any time.
                    http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await.ok();
                });
            }
        });
        let name = format!("injects-into-{namespace}");
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{
                "name": "sidecar.injector.test",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "clientConfig": {"url": url, "caBundle": ByteString(certificates.ca_certificate.into_bytes())},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "objectSelector": {"matchLabels": {"spark-role": "submission"}},
            }],
        });
        apply(&configuration);
        Self { name, injected, _background: background }
    }

    /// Returns the number of pods that were given a sidecar.
    pub(super) fn injected(&self) -> u32 {
        self.injected.load(Ordering::SeqCst)
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        kubectl(&["delete", "mutatingwebhookconfiguration", &self.name]);
    }
}

/// Answers a review with a patch that adds a container which runs for an hour.
async fn inject(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let sidecar = json!({
        "name": "istio-proxy",
        "image": "docker.io/library/busybox:stable",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "3600"],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    let patch = json!([{"op": "add", "path": "/spec/containers/-", "value": sidecar}]).to_string();
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": true,
            "patchType": "JSONPatch",
            "patch": ByteString(patch.into_bytes()),
        },
    });
    let answer = Body::from(answer.to_string());
    Ok(Response::builder().header("content-type", "application/json").body(answer).unwrap())
}

#[expect(clippy::disallowed_methods, reason = "the API server checks from when on the certificate is valid")]
fn now() -> Timestamp {
    Timestamp::now()
}
