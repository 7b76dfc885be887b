//! What if another admission webhook has a say as well? Configurations have their turn in the order of their
//! names: one that changes pods after ours, and one that writes down what the API server sends before.

use super::{
    eventually,
    kubectl::{kubectl, kubectl_with},
    namespace::Namespace,
    seen,
};
use axum::{Json, Router, extract::Path, routing::post};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use spark_operator::webhook::{Certificates, Closing, ServingCertificate, Tls, serve_routes};
use std::sync::{Arc, Mutex};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

/// The webhook; it ends with this value, and so do its configurations.
pub(crate) struct Neighbour {
    /// Kinds and name of its configurations.
    configurations: (&'static [&'static str], &'static str),
    received: Received,
    /// Its own, so that it also answers while the test waits for `kubectl`.
    runtime: Option<Runtime>,
}

/// Paths and reviews, as they came.
type Received = Arc<Mutex<Vec<(String, Value)>>>;

impl Neighbour {
    /// One that does this to every pod that is created in `namespace`, after ours.
    pub(crate) async fn changing(namespace: &Namespace, change: fn(&mut Value)) -> Self {
        const KINDS: [&str; 1] = ["MutatingWebhookConfiguration"];
        Self::start(namespace, (&KINDS, "third-party"), change).await
    }

    /// One that changes nothing and is asked before ours what ours may be asked.
    pub(crate) async fn listening(namespace: &Namespace) -> Self {
        const KINDS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
        Self::start(namespace, (&KINDS, "first-party"), |_| {}).await
    }

    async fn start(
        namespace: &Namespace,
        configurations: (&'static [&'static str], &'static str),
        change: fn(&mut Value),
    ) -> Self {
        let certificates = Certificates::generate(&["localhost".to_owned()], now()).unwrap();
        let shown = Arc::new(ServingCertificate::default());
        shown.set(&certificates.certificate, &certificates.key).unwrap();
        let received = Received::default();
        let heard = Arc::clone(&received);
        let answer = async move |Path(path): Path<String>, Json(review): Json<Value>| {
            let answer = Json(changed(&review, change));
            heard.lock().unwrap().push((path, review));
            answer
        };

        let runtime = Runtime::new().unwrap();
        let binding = runtime.spawn(async { TcpListener::bind("127.0.0.1:0").await.unwrap() });
        let tcp = binding.await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        let routes = Router::new().route("/{path}", post(answer));
        runtime.spawn(async {
            serve_routes(tcp, shown, &Tls::default(), routes, Closing::default(), CancellationToken::new())
                .await
        });

        let ca = ByteString(certificates.ca_certificate.into_bytes());
        let (kinds, name) = configurations;
        for kind in kinds {
            configure(kind, name, namespace.name, port, &ca);
        }
        let neighbour = Self { configurations, received, runtime: Some(runtime) };
        let probe = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"},
            "spec": {"containers": [{"name": "probe", "image": "none"}]},
        });
        eventually("the API server has heard of it", async || {
            let create = ["create", "--dry-run=server", "--namespace", namespace.name, "-f", "-"];
            let before = neighbour.asked();
            kubectl_with(&probe, &create);
            seen(neighbour.asked() == before + kinds.len(), neighbour.asked())
        })
        .await;
        neighbour
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// Paths and reviews of all that it was asked.
    pub(crate) fn received(&self) -> Vec<(String, Value)> {
        self.received.lock().unwrap().clone()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let (kinds, name) = self.configurations;
        for kind in kinds {
            kubectl(&["delete", kind, name, "--ignore-not-found"]);
        }
        if let Some(runtime) = self.runtime.take() {
            // A test's thread must not wait for it.
            runtime.shutdown_background();
        }
    }
}

fn configure(kind: &str, name: &str, namespace: &str, port: u16, ca: &ByteString) {
    let path = if kind.starts_with('M') { "mutate" } else { "validate" };
    let rule = |group: &str, version: &str, resources: &[&str]| {
        let operations = ["CREATE", "UPDATE"];
        json!({"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources})
    };
    let ours = ["sparkapplications", "scheduledsparkapplications"];
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [{
            "name": format!("{path}.{name}.example.com"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": format!("https://localhost:{port}/{path}"), "caBundle": ca},
            "rules": [rule("", "v1", &["pods"]), rule("sparkoperator.k8s.io", "v1beta2", &ours)],
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
    let mut response = json!({"uid": request["uid"], "allowed": true});
    let patch = json_patch::diff(&request["object"], &object);
    if !patch.0.is_empty() {
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(ByteString(json!(patch).to_string().into_bytes()));
    }
    json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
}

#[expect(clippy::disallowed_methods, reason = "the clock of its certificate")]
fn now() -> Timestamp {
    Timestamp::now()
}
