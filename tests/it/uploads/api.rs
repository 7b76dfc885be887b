//! The part of an API server that `sparkctl create` needs to create applications; accepts every object.

use crate::{prelude::*, program::kubeconfig};
use axum::{
    extract::Request,
    response::{IntoResponse, Response},
    routing::any,
};
use http_body_util::BodyExt;

/// The server stops when this value is dropped.
pub(super) struct ApiServer {
    /// The kubeconfig that contains the server's address.
    pub kubeconfig: PathBuf,
    written: Arc<Mutex<Vec<(String, Value)>>>,
    _serving: AbortOnDropHandle<()>,
}

impl ApiServer {
    pub(super) async fn start(folder: &Path) -> Self {
        let written = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&written);
        let answer = move |request: Request| {
            let keeps = Arc::clone(&keeps);
            async move { answer(request, &keeps).await }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(any(answer));
        let serving = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
        let serving = AbortOnDropHandle::new(serving);
        let kubeconfig = kubeconfig(folder, &server, "team");
        Self { kubeconfig, written, _serving: serving }
    }

    /// Returns the writes since the last call: the method and the plural of the kind, and the object.
    pub(super) fn written(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.written.lock().unwrap())
    }
}

async fn answer(request: Request, written: &Mutex<Vec<(String, Value)>>) -> Response {
    let (parts, body) = request.into_parts();
    // No object exists yet.
    if parts.method == "GET" || parts.method == "PUT" {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404});
        return (StatusCode::NOT_FOUND, Json(status)).into_response();
    }
    let mut object: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    if !parts.uri.query().unwrap_or_default().contains("dryRun=All") {
        let plural =
            parts.uri.path().split('/').find(|part| {
                ["configmaps", "sparkapplications", "scheduledsparkapplications"].contains(part)
            });
        written.lock().unwrap().push((format!("{} {}", parts.method, plural.unwrap()), object.clone()));
    }
    object["metadata"]["uid"] = json!("6c1f0b5e-0000-4000-8000-000000000001");
    (StatusCode::CREATED, Json(object)).into_response()
}
