//! Is the process alive, and is it ready? The port that Kubernetes' probes ask.

use axum::{Router, extract::State, http::StatusCode, routing::get};
use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What has to be in place before the process is ready.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<Mutex<BTreeSet<&'static str>>>);

impl Readiness {
    /// Ready once each of `conditions` has been [`met`](Self::met).
    #[must_use]
    pub fn waiting_for<const N: usize>(conditions: [&'static str; N]) -> Self {
        Self(Arc::new(Mutex::new(conditions.into())))
    }

    /// One condition is met.
    pub fn met(&self, condition: &'static str) {
        self.0.lock().expect("no code panics while it holds this lock").remove(condition);
    }

    /// What is still missing.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        self.0.lock().expect("no code panics while it holds this lock").iter().copied().collect()
    }
}

/// Serves `/healthz` and `/readyz` on `tcp` until `stop`. The body of a `/readyz` that is not ready says what
/// is missing.
///
/// # Errors
///
/// When the socket cannot be used.
pub async fn serve(tcp: TcpListener, readiness: Readiness, stop: CancellationToken) -> io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(readiness);
    axum::serve(tcp, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn readyz(State(readiness): State<Readiness>) -> (StatusCode, String) {
    let missing = readiness.missing();
    if missing.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {}\n", missing.join(", ")))
}
