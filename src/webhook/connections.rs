//! When does a connection end? At a moment that costs no review: every request that the API server has sent is
//! answered.
//!
//! The API server speaks HTTP/1.1 to a webhook that it finds through a Service, so that requests are spread
//! over replicas, and HTTP/2 to one that it finds by URL. Over HTTP/2 one may hang up at any time and says
//! which requests will be answered (GOAWAY). Over HTTP/1.1 a request may be on its way whenever one hangs up,
//! and a POST is not sent again; so an answer says that it is the last one.

use super::listener::TlsListener;
use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, Response, Version, header::CONNECTION},
    serve::Listener,
};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use std::{convert::Infallible, future::pending, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};
use tokio_rustls::server::TlsStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service;
use tracing::debug;

/// How long connections last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Closing {
    /// How old a connection may become; as old as its client likes if there is nothing here. An API server
    /// keeps one for as long as it is in use: it would see a new certificate, or another replica, never.
    pub max_age: Option<Duration>,
    /// How long new ones are still taken once the process is asked to stop: until whoever chooses among
    /// replicas has heard of it.
    pub delay: Duration,
}

/// Serves `router` to all who come, until `stop` and for a while after it; then answers what was asked, and
/// hangs up.
pub(super) async fn serve(
    mut listener: TlsListener,
    router: Router,
    closing: Closing,
    stop: CancellationToken,
) {
    let (connections, closed) = (TaskTracker::new(), CancellationToken::new());
    let mut end = pin!(async {
        stop.cancelled().await;
        sleep(closing.delay).await;
    });
    loop {
        let stream = tokio::select! {
            (stream, _) = listener.accept() => stream,
            () = &mut end => break,
        };
        let connection = Connection { opened: Instant::now(), closing, stop: stop.clone() };
        connections.spawn(Arc::new(connection).serve(stream, router.clone(), closed.clone()));
    }
    drop(listener);
    closed.cancel();
    connections.close();
    connections.wait().await;
}

struct Connection {
    opened: Instant,
    closing: Closing,
    /// The process is asked to stop.
    stop: CancellationToken,
}

impl Connection {
    /// Answers requests until the client hangs up, or it is time that we do: at the latest when `closed`.
    async fn serve(self: Arc<Self>, stream: TlsStream<TcpStream>, router: Router, closed: CancellationToken) {
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let builder = auto::Builder::new(TokioExecutor::new());
        let answer = service_fn(|request| Arc::clone(&self).answer(router.clone(), request));
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
        let old = async {
            match self.closing.max_age {
                Some(age) if is_http2 => sleep(age).await,
                _ => pending().await,
            }
        };
        let time = async {
            tokio::select! { () = old => {}, () = closed.cancelled() => {} }
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = time => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(error, "connection failed");
        }
    }

    async fn answer(
        self: Arc<Self>,
        mut router: Router,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let version = request.version();
        let mut response = router.call(request).await?;
        if version < Version::HTTP_2 && self.is_to_end() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    fn is_to_end(&self) -> bool {
        self.stop.is_cancelled() || self.closing.max_age.is_some_and(|age| self.opened.elapsed() >= age)
    }
}
