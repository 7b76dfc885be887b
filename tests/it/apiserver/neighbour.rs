//! Runs another admission webhook beside ours, which records what the API server sends.

use crate::apiserver::prelude::*;
use axum::{extract::Path, routing::post};
use certificates::{Certificates, ServingCertificate};
use std::net::TcpListener;
use webhook::{Closing, Limits, Tls, serve_routes};

/// The kinds of the webhook's configurations, and their name: the API server calls configurations in the order of their names.
const KINDS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
const NAME: &str = "first-party";

/// The webhook; it and its configurations end when this value is dropped.
pub(crate) struct Neighbour(Reviewer);

/// A server that answers reviews; it ends when this value is dropped.
pub(crate) struct Reviewer {
    pub address: SocketAddr,
    /// The CA that clients have to trust, in PEM.
    pub ca: ByteString,
    /// The path and the review of each request, in order.
    received: Arc<Mutex<Vec<(String, Value)>>>,
    _background: Background,
}

impl Reviewer {
    /// Starts a server at `host`, an address of this machine, that applies `change` to every object.
    pub(crate) fn start(host: &str, change: fn(&mut Value)) -> Self {
        let certificates = Certificates::generate(&[host.to_owned()], now()).unwrap();
        let shown = Arc::new(ServingCertificate::default());
        shown.set(&certificates.certificate, &certificates.key).unwrap();
        let received = Arc::<Mutex<Vec<_>>>::default();
        let heard = Arc::clone(&received);
        let answer = async move |Path(path): Path<String>, Json(review): Json<Value>| {
            let answer = Json(changed(&review, change));
            heard.lock().unwrap().push((path, review));
            answer
        };
        let routes = Router::new().route("/{path}", post(answer));
        let tcp = TcpListener::bind((host, 0)).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let address = tcp.local_addr().unwrap();
        let background = Background::start();
        background.spawn(async {
            let (tcp, tls) = (tokio::net::TcpListener::from_std(tcp).unwrap(), Tls::default());
            let shown = Some((shown, &tls));
            serve_routes(tcp, shown, routes, Limits::REVIEWS, Closing::default(), CancellationToken::new())
                .await
        });
        let ca = ByteString(certificates.ca_certificate.into_bytes());
        Self { address, ca, received, _background: background }
    }

    /// Returns the number of reviews so far.
    pub(crate) fn asked(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

impl Neighbour {
    /// Starts a webhook that changes nothing and is called before ours, for all objects for which ours may be called.
    pub(crate) async fn listening(namespace: &Namespace) -> Self {
        let neighbour = Self(Reviewer::start("127.0.0.1", |_| {}));
        for kind in KINDS {
            configure(kind, namespace.name, &neighbour.0);
        }
        let probe = plain_pod(&json!({"name": "probe"}));
        eventually("the API server calls the webhook", async || {
            let before = neighbour.0.asked();
            calls::tried_in(namespace.name, &probe)?;
            seen(neighbour.0.asked() == before + KINDS.len(), neighbour.0.asked())
        })
        .await;
        neighbour
    }

    /// Returns the path and the review of each request.
    pub(crate) fn received(&self) -> Vec<(String, Value)> {
        self.0.received.lock().unwrap().clone()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        for kind in KINDS {
            calls::delete(&webhooks(kind, NAME));
        }
    }
}

fn configure(kind: &str, namespace: &str, reviewer: &Reviewer) {
    let Reviewer { address, ca, .. } = reviewer;
    let path = if kind.starts_with('M') { "mutate" } else { "validate" };
    let rule = |group: &str, version: &str, resources: &[&str]| {
        let operations = ["CREATE", "UPDATE"];
        json!({"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources})
    };
    let ours = ["sparkapplications", "scheduledsparkapplications"];
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME},
        "webhooks": [{
            "name": format!("{path}.{NAME}.example.com"), "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": format!("https://{address}/{path}"), "caBundle": ca},
            "rules": [rule("", "v1", &["pods"]), rule("sparkoperator.k8s.io", "v1beta2", &ours)],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        }],
    });
    calls::apply(&configuration, None);
}

/// Returns the answer to `review`: a patch with the effect of `change` on the object.
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
