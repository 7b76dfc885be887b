//! What if another admission webhook has a say as well? One that the API server asks after ours, because
//! configurations have their turn in the order of their names.

use super::{
    eventually,
    kubectl::{kubectl, kubectl_with},
    namespace::Namespace,
    seen,
};
use axum::{Json, Router, routing::post};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use spark_operator::webhook::{Certificates, Closing, ServingCertificate, Tls, serve_routes};
use std::sync::{Arc, Mutex};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

const NAME: &str = "third-party";

/// The webhook; it ends with this value, and so does its configuration.
pub(crate) struct Neighbour {
    asked: Arc<Mutex<usize>>,
    /// Its own, so that it also answers while the test waits for `kubectl`.
    runtime: Option<Runtime>,
}

impl Neighbour {
    /// One that does this to every pod that is created in `namespace`.
    pub(crate) async fn start(namespace: &Namespace, change: fn(&mut Value)) -> Self {
        let certificates = Certificates::generate(&["localhost".to_owned()], now()).unwrap();
        let shown = Arc::new(ServingCertificate::default());
        shown.set(&certificates.certificate, &certificates.key).unwrap();
        let asked = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&asked);
        let answer = async move |Json(review): Json<Value>| {
            *counted.lock().unwrap() += 1;
            Json(changed(&review, change))
        };

        let runtime = Runtime::new().unwrap();
        let binding = runtime.spawn(async { TcpListener::bind("127.0.0.1:0").await.unwrap() });
        let tcp = binding.await.unwrap();
        let address = tcp.local_addr().unwrap();
        let routes = Router::new().route("/", post(answer));
        runtime.spawn(async {
            serve_routes(tcp, shown, &Tls::default(), routes, Closing::default(), CancellationToken::new())
                .await
        });

        let url = format!("https://localhost:{}", address.port());
        let ca = ByteString(certificates.ca_certificate.into_bytes());
        configure(namespace.name, &url, &ca);
        let neighbour = Self { asked, runtime: Some(runtime) };
        let probe = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
            "spec": {"containers": [{"name": "probe", "image": "none"}]},
        });
        eventually("the API server has heard of it", async || {
            let create = ["create", "--dry-run=server", "--namespace", namespace.name, "-f", "-"];
            kubectl_with(&probe, &create);
            seen(neighbour.asked() > 0, "not asked")
        })
        .await;
        neighbour
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        kubectl(&["delete", "mutatingwebhookconfiguration", NAME, "--ignore-not-found"]);
        if let Some(runtime) = self.runtime.take() {
            // A test's thread must not wait for it.
            runtime.shutdown_background();
        }
    }
}

fn configure(namespace: &str, url: &str, ca: &ByteString) {
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [{
            "name": "pods.third-party.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": url, "caBundle": ca},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        }],
    });
    kubectl_with(&configuration, &["apply", "-f", "-"]);
}

/// The answer to `review`: its object as `change` leaves it.
fn changed(review: &Value, change: fn(&mut Value)) -> Value {
    let request = &review["request"];
    let mut object = request["object"].clone();
    change(&mut object);
    let patch = json!(json_patch::diff(&request["object"], &object)).to_string();
    json!({
        "apiVersion": review["apiVersion"],
        "kind": review["kind"],
        "response": {
            "uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": ByteString(patch.into_bytes()),
        },
    })
}

#[expect(clippy::disallowed_methods, reason = "the clock of its certificate")]
fn now() -> Timestamp {
    Timestamp::now()
}
