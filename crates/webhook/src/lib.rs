//! The admission webhook: an HTTPS server that answers from the request alone, without a Kubernetes client, without a
//! cache, and independently of the controller. There are two exceptions, which ask the API server: the check of quotas,
//! if it is enabled, and the check of the permissions of a user who exposes a driver outside the cluster.

mod applications;
mod bodies;
mod checks;
mod connection_limit;
mod connections;
mod decision;
mod exposure_rights;
mod large_reviews;
mod listener;
mod lookups;
mod objects;
mod pods;
mod quotas;
mod review;
mod review_metrics;
mod reviews;
mod spark_connects;
mod threads;
mod tls;
mod verdict;

use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    routing::post,
};
use certificates::ServingCertificate;
use connections::Host;
pub use connections::{Closing, Limits};
pub use exposure_rights::ExposureRights;
pub use large_reviews::LargeReviews;
pub use lookups::{Caller, Lookups};
pub use quotas::{Quotas, ReadSubmissionEnvironment};
pub use review_metrics::ReviewMetrics;
pub use reviews::Reviews;
use std::{io, sync::Arc, time::Duration};
pub use threads::on_threads_of_their_own;
pub use tls::{Tls, TlsVersion, cipher_suite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How long a review waits for the API server's answer to a request of its own (quotas, permissions). In the meantime
/// the API server waits for the webhook (5 s in the manifests), and the client that has sent the object waits for the
/// API server.
const PATIENCE: Duration = Duration::from_secs(1);

/// The kinds of objects as written in the paths of the webhook of Kubeflow's operator.
const KINDS_IN_PATHS: [&str; 4] = [
    "--v1-pod",
    "-sparkoperator-k8s-io-v1beta2-sparkapplication",
    "-sparkoperator-k8s-io-v1beta2-scheduledsparkapplication",
    "-sparkoperator-k8s-io-v1alpha1-sparkconnect",
];

/// Returns the webhook's routes. The routes expect requests whose body has arrived completely.
///
/// The paths of Kubeflow's operator lead to the same functions: during an upgrade from it, or back, one Service leads the
/// API server to pods of both operators.
pub fn router(reviews: Reviews) -> Router {
    let mut router = Router::new();
    for asked in [review::MUTATE, review::VALIDATE] {
        let review = move |State(reviews): State<Arc<Reviews>>, request: Request| async move {
            let (head, body) = request.into_parts();
            let caller = head.extensions.get::<Caller>().copied().unwrap_or_default();
            // bodies.rs has received the whole body and has limited its size already.
            let body = to_bytes(body, usize::MAX).await.expect("a body in memory cannot fail");
            asked.reviewed(caller, head.headers, body, reviews).await
        };
        for kind in [""].into_iter().chain(KINDS_IN_PATHS) {
            router = router.route(&format!("{}{kind}", asked.path), post(review));
        }
    }
    router.with_state(Arc::new(reviews))
}

/// Serves `router` on `tcp` until `stop` is cancelled, and then for the delay in `closing`; without `tls`, over HTTP/1.1 that
/// is not encrypted. Requests that have begun are answered.
///
/// # Errors
///
/// If `tls` leaves no usable combination of TLS version and cipher suite.
pub async fn serve_routes(
    tcp: TcpListener,
    tls: Option<(Arc<ServingCertificate>, &Tls)>,
    router: Router,
    limits: Limits,
    closing: Closing,
    stop: CancellationToken,
) -> io::Result<()> {
    let config =
        tls.map(|(certificate, tls)| tls.config(certificate)).transpose().map_err(io::Error::other)?;
    let acceptor = config.map(|config| TlsAcceptor::from(Arc::new(config)));
    let host =
        Host { router, limits, closing, bodies: Arc::default(), stop, closed: CancellationToken::new() };
    listener::receive(tcp, acceptor, host).await;
    Ok(())
}
