//! A simulated API server that stores SparkConnects, sends their changes to watches, and accepts the gateway's reports
//! of connections.

use crate::prelude::*;
use axum::http::{Method, Request, Response};
use kube::client::Body;
use std::{convert::Infallible, sync::MutexGuard};
use tokio::{sync::watch, time::Instant};

/// The name of the SparkConnect, the value of the annotation, and when it was written.
pub(crate) type Report = (String, String, Instant);

pub(crate) struct ApiServer {
    stored: Mutex<Stored>,
    version: watch::Sender<usize>,
}

#[derive(Default)]
pub(crate) struct Stored {
    objects: BTreeMap<String, Value>,
    /// The events of a watch. The resource version of each is its position, counted from 1.
    events: Vec<String>,
    reports: Vec<Report>,
    /// How many of the next reports fail.
    pub(crate) failures: usize,
    /// How long a report takes. `under_way` are the reports at present, and `busiest` is the largest number of them so
    /// far.
    pub(crate) delay: Duration,
    under_way: usize,
    pub(crate) busiest: usize,
}

/// Returns a SparkConnect.
pub(crate) fn object(name: &str, created: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "sparkoperator.k8s.io/v1alpha1", "kind": "SparkConnect",
        "metadata": {"name": name, "namespace": "team", "uid": name, "creationTimestamp": created},
        "spec": {"sparkVersion": "4.0.1"}, "status": status,
    })
}

impl ApiServer {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { stored: Mutex::default(), version: watch::Sender::new(0) })
    }

    pub(crate) fn client(self: &Arc<Self>) -> Client {
        let server = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// Creates or changes an object.
    pub(crate) fn put(&self, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let is_new = !self.stored().objects.contains_key(&name);
        self.tell(if is_new { "ADDED" } else { "MODIFIED" }, name, object);
    }

    pub(crate) fn delete(&self, name: &str) {
        let object = self.stored().objects[name].clone();
        self.tell("DELETED", name.to_owned(), object);
    }

    fn tell(&self, kind: &str, name: String, mut object: Value) {
        let mut stored = self.stored();
        let version = stored.events.len() + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        // The type comes first, as the API server writes it: the watch keeps an object only once it knows the type.
        stored.events.push(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"));
        if kind == "DELETED" {
            stored.objects.remove(&name);
        } else {
            stored.objects.insert(name, object);
        }
        self.version.send_replace(version);
    }

    /// Returns the state of the server.
    pub(crate) fn stored(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap()
    }

    pub(crate) fn reports(&self) -> Vec<Report> {
        self.stored().reports.clone()
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or_default();
        if head.method == Method::PATCH {
            let body = body.collect_bytes().await.unwrap();
            sleep(self.begins()).await;
            return self.reported(head.uri.path(), &serde_json::from_slice(&body).unwrap());
        }
        assert_eq!(head.uri.path(), "/apis/sparkoperator.k8s.io/v1alpha1/sparkconnects");
        if !query.contains("watch=") {
            let stored = self.stored();
            let items: Vec<_> = stored.objects.values().collect();
            let metadata = json!({"resourceVersion": stored.events.len().to_string()});
            let list =
                json!({"kind": "SparkConnectList", "apiVersion": "v1", "metadata": metadata, "items": items});
            return answer(200, &list);
        }
        let known = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).unwrap();
        let known: usize = known.parse().unwrap();
        self.version.subscribe().wait_for(|version| *version > known).await.unwrap();
        let events = self.stored().events[known..].to_vec();
        Response::new(Body::from(events.concat().into_bytes()))
    }

    fn begins(&self) -> Duration {
        let mut stored = self.stored();
        stored.under_way += 1;
        stored.busiest = stored.busiest.max(stored.under_way);
        stored.delay
    }

    fn reported(&self, path: &str, patch: &Value) -> Response<Body> {
        let name = path.strip_prefix("/apis/sparkoperator.k8s.io/v1alpha1/namespaces/team/sparkconnects/");
        let metadata = json!({"name": name, "namespace": "team"});
        let annotations = patch["metadata"]["annotations"].as_object().unwrap();
        assert_eq!((patch.as_object().unwrap().len(), annotations.len()), (1, 1), "nothing else is changed");
        let value = annotations["sparkoperator.k8s.io/last-connection"].as_str().unwrap();
        let mut stored = self.stored();
        stored.under_way -= 1;
        if stored.failures > 0 {
            stored.failures -= 1;
            return answer(500, &json!({"kind": "Status", "status": "Failure", "code": 500}));
        }
        stored.reports.push((name.unwrap().to_owned(), value.to_owned(), Instant::now()));
        answer(200, &json!({"metadata": metadata}))
    }
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}
