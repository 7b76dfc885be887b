//! Ends connections at a moment that costs no review: every request that the API server has sent is answered.
//!
//! The API server speaks HTTP/1.1 to a webhook behind a Service, so that requests are spread over replicas, and HTTP/2
//! to a webhook with a URL. An HTTP/2 server may end a connection at any time and names the last request that it will
//! answer (GOAWAY), so the client sends later requests elsewhere; the client has to read that frame, though (`lent`).
//! Over HTTP/1.1 a request may be on its way whenever the server hangs up, and a POST is not sent again; so an answer
//! announces that it is the last one.

use super::{
    bodies::Bodies,
    connection_limit::Place,
    graceful_close::{ReturningStream, read_to_end},
};
use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, Response, Version, header::CONNECTION},
    response::IntoResponse,
};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use std::{convert::Infallible, future::pending, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::debug;

/// The most that is kept of a request's head over HTTP/1.1; an API server's has a few hundred bytes. (Over HTTP/2
/// hyper allows 16 KiB, and 200 requests at once.)
const LARGEST_HEAD: usize = 64 << 10;
/// How long requests that have begun may take to be finished: as long as they may take to arrive, and a little.
const LAST_ANSWERS: Duration = Duration::from_secs(12);
/// How long it may take to say goodbye where nothing has to be finished.
const GOODBYE: Duration = Duration::from_secs(1);

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

/// What all connections have in common.
pub(super) struct Host {
    pub router: Router,
    pub closing: Closing,
    pub bodies: Bodies,
    /// The process is asked to stop.
    pub stop: CancellationToken,
    /// Nobody is received any more.
    pub closed: CancellationToken,
}

pub(super) struct Connection {
    host: Arc<Host>,
    opened: Instant,
    place: Place,
}

impl Connection {
    /// One that begins now.
    pub(super) fn new(host: Arc<Host>, place: Place) -> Arc<Self> {
        Arc::new(Self { host, opened: Instant::now(), place })
    }

    /// Answers requests until the client hangs up, or it is time that we do: at the latest when the host has
    /// closed.
    pub(super) async fn serve(self: Arc<Self>, stream: Box<TlsStream<TcpStream>>) {
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let (stream, returned) = ReturningStream::new(stream);
        let is_in_order = self.converse(stream, is_http2).await;
        // Over HTTP/1.1 the client knows that nothing more is heard.
        if is_in_order
            && is_http2
            && let Ok(stream) = returned.await
        {
            timeout(GOODBYE, read_to_end(stream)).await.ok();
        }
    }

    /// Whether it has ended as both sides can know.
    async fn converse(self: &Arc<Self>, stream: ReturningStream, is_http2: bool) -> bool {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().max_buf_size(LARGEST_HEAD);
        let answer = service_fn(|request| Arc::clone(self).answer(request));
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
        let old = async {
            match self.host.closing.max_age {
                Some(age) if is_http2 => sleep(age).await,
                _ => pending().await,
            }
        };
        let time = async {
            tokio::select! {
                () = old => (LAST_ANSWERS, true),
                () = self.host.closed.cancelled() => (LAST_ANSWERS, true),
                () = self.place.idle() => (GOODBYE, true),
                // Its place is wanted.
                () = self.place.evicted() => {
                    debug!("closed for others");
                    (GOODBYE, false)
                }
            }
        };
        let (ended, is_patient) = tokio::select! {
            ended = connection.as_mut() => (ended, false),
            (rest, is_patient) = time => {
                connection.as_mut().graceful_shutdown();
                match timeout(rest, connection).await {
                    Ok(ended) => (ended, is_patient),
                    Err(_) => {
                        debug!("hung up on");
                        return false;
                    }
                }
            }
        };
        if let Err(error) = &ended {
            debug!(error, "connection failed");
        }
        ended.is_ok() && is_patient
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        self.place.used();
        let (head, body) = request.into_parts();
        let version = head.version;
        let mut response = match self.host.bodies.whole(body).await {
            Ok(body) => {
                let request = Request::from_parts(head, Body::from(body));
                self.host.router.clone().oneshot(request).await?
            }
            Err(refused) => {
                debug!(%refused, "request refused");
                refused.into_response()
            }
        };
        if version < Version::HTTP_2 && self.is_to_end() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        self.place.used();
        Ok(response)
    }

    fn is_to_end(&self) -> bool {
        let Host { stop, closing, .. } = &*self.host;
        stop.is_cancelled() || closing.max_age.is_some_and(|age| self.opened.elapsed() >= age)
    }
}
