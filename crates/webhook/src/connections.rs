//! Serves connections, and closes them without losing a review: every request that the API server has sent is answered.
//!
//! The API server speaks HTTP/1.1 to a webhook behind a Service, so that requests are spread over replicas, and HTTP/2
//! to a webhook with a URL. An HTTP/2 server may end a connection at any time: a GOAWAY frame names the last request
//! that the server will answer, and the client sends later requests over another connection. For this, the client has
//! to read the frame: closing a socket with unread bytes sends a TCP reset, which discards data that was sent before it.
//! Therefore hyper only borrows the socket, which is then read until the client closes it as well. Over HTTP/1.1 a request
//! may be on its way whenever the server closes the connection, and a client does not send a POST again; so the last answer
//! announces the end with `Connection: close`.

use super::{bodies::Bodies, connection_limit::Place, lookups::Caller};
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderValue, Request, Response, Version, header::CONNECTION},
    response::IntoResponse,
};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::{convert::Infallible, error::Error, sync::Arc, time::Duration};
use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::server::TlsStream;
use tokio_util::{either::Either, sync::CancellationToken};
use tower::ServiceExt;
use tracing::debug;

/// The largest head of a request over HTTP/1.1, in bytes, as hyper allows it over HTTP/2. The head of an API server's
/// request has a few hundred bytes.
const LARGEST_HEAD: usize = 16 << 10;
/// How many requests may be under way over one connection of HTTP/2: as many as a client in Go sends before it knows the
/// server's limit.
const STREAMS: u32 = 100;
/// How long a connection that is being closed waits for requests that have begun: as long as a body may take to arrive
/// (10 s), and a little longer.
const LAST_ANSWERS: Duration = Duration::from_secs(12);
/// How long the closing of a connection may take if no request has to be finished.
const GOODBYE: Duration = Duration::from_secs(1);

/// How long connections last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Closing {
    /// The maximum age of a connection; `None` for no maximum. An API server keeps a connection as long as the connection
    /// is in use, so without a maximum the API server would never see a new certificate or another replica.
    pub max_age: Option<Duration>,
    /// How long new connections are still accepted after the process was asked to stop: the time until every node sends
    /// new connections to another replica.
    pub delay: Duration,
}

/// The limits for the clients of a port, in addition to those for every body: see bodies.rs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of open connections.
    pub connections: usize,
    /// The time that a client of HTTP/1.1 may be silent between two requests, and that the head of a request may take to
    /// arrive. `None` for clients that keep connections open and do not repeat a request that was on its way.
    pub head: Option<Duration>,
}

impl Limits {
    /// For reviews. An API server keeps 25 idle connections and uses one connection for each concurrent review, of which
    /// there are a few hundred; a large cluster has seven API servers.
    pub const REVIEWS: Self = Self { connections: 4096, head: None };
    /// For probes and metrics. A kubelet opens a connection for each probe, and Prometheus repeats a request.
    pub const ADMIN: Self = Self { connections: 256, head: Some(Duration::from_secs(5)) };
}

/// The state that all connections share.
pub(super) struct Host {
    pub router: Router,
    pub limits: Limits,
    pub closing: Closing,
    pub bodies: Arc<Bodies>,
    /// Cancelled when the process is asked to stop.
    pub stop: CancellationToken,
    /// Cancelled when no new connections are accepted any more.
    pub closed: CancellationToken,
}

/// The stream of a connection, without or with TLS.
pub(super) type Stream = Box<Either<TcpStream, TlsStream<TcpStream>>>;

pub(super) struct Connection {
    host: Arc<Host>,
    opened: Instant,
    place: Place,
    caller: Caller,
}

impl Connection {
    /// Answers requests until the client closes the connection, or this side closes it because of its age, because it
    /// is idle, because the client does not take its answers or because there are too many connections; at the latest
    /// until the process stops.
    pub(super) async fn serve(host: Arc<Host>, place: Place, mut stream: Stream) {
        let tls = match &*stream {
            Either::Left(_) => None,
            Either::Right(stream) => Some(stream.get_ref().1),
        };
        // A certificate that a client presents was checked in the handshake.
        let is_api_server = tls.is_some_and(|tls| tls.peer_certificates().is_some());
        let is_http2 = tls.is_some_and(|tls| tls.alpn_protocol() == Some(b"h2"));
        let caller = Caller { peer: Some(place.peer()), is_api_server };
        // Keeps its place in the limit until the stream has been read to its end.
        let connection = Arc::new(Self { host, opened: Instant::now(), place, caller });
        let is_in_order = connection.converse(&mut stream, is_http2).await;
        // Needed only for HTTP/2: over HTTP/1.1 the client knows that no further request is read.
        if is_in_order && is_http2 {
            timeout(GOODBYE, read_to_end(stream)).await.ok();
        }
    }

    /// Serves the requests of a connection. Returns whether this side has closed the connection in order, so that the
    /// client may still have to read the announcement of the end (GOAWAY). Returns false if the client has closed the
    /// connection, if the connection failed or had to make room for others, or if it was cut off after a timeout.
    async fn converse(self: &Arc<Self>, stream: &mut Stream, is_http2: bool) -> bool {
        let (stream, used) = (TokioIo::new(stream), &self.place.used);
        let answer = service_fn(|request| Arc::clone(self).answer(request));
        let mut connection = if is_http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.max_concurrent_streams(STREAMS).max_send_buf_size(LARGEST_HEAD);
            Either::Left(builder.serve_connection(stream, answer))
        } else {
            let mut builder = http1::Builder::new();
            builder.max_buf_size(LARGEST_HEAD);
            if let Some(head) = self.host.limits.head {
                builder.timer(TokioTimer::new()).header_read_timeout(head);
            }
            Either::Right(builder.serve_connection(stream, answer))
        };
        let max_age = self.host.closing.max_age.filter(|_| is_http2);
        let time = async {
            tokio::select! {
                () = sleep(max_age.unwrap_or_default()), if max_age.is_some() => (LAST_ANSWERS, true),
                () = self.host.closed.cancelled() => (LAST_ANSWERS, true),
                () = used.silent() => {
                    let has_unread = used.has_unread();
                    debug!(has_unread, "the client was silent for too long");
                    (if has_unread { Duration::ZERO } else { GOODBYE }, !has_unread)
                }
                // There are too many connections, and this one has been idle for longest; or its unread answers take memory
                // that others need. Its room is needed at once; only over HTTP/2 can an API server with requests on their
                // way be informed in time.
                () = used.evicted.cancelled() => {
                    debug!("closed to make room for others");
                    (if is_http2 && !used.has_unread() { GOODBYE } else { Duration::ZERO }, false)
                }
            }
        };
        let (ended, is_patient) = tokio::select! {
            ended = &mut connection => (ended, false),
            (rest, is_patient) = time => {
                match &mut connection {
                    Either::Left(http2) => Pin::new(http2).graceful_shutdown(),
                    Either::Right(http1) => Pin::new(http1).graceful_shutdown(),
                }
                match timeout(rest, connection).await {
                    Ok(ended) => (ended, is_patient),
                    Err(_) => {
                        debug!("closed before its requests were finished");
                        return false;
                    }
                }
            }
        };
        if let Err(error) = &ended {
            debug!(error = error as &(dyn Error + 'static), "connection failed");
        }
        ended.is_ok() && is_patient
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        self.place.used.given(0);
        let (head, body) = request.into_parts();
        let version = head.version;
        let mut response = match self.host.bodies.whole(&head.headers, body).await {
            Ok(body) => {
                let mut request = Request::from_parts(head, Body::from(body));
                request.extensions_mut().insert(self.caller);
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
        let (head, body) = response.into_parts();
        // The body is in memory already.
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        Ok(Response::from_parts(head, self.host.bodies.answer(body, &self.place.used)))
    }

    fn is_to_end(&self) -> bool {
        let Host { stop, closing, .. } = &*self.host;
        stop.is_cancelled() || closing.max_age.is_some_and(|age| self.opened.elapsed() >= age)
    }
}

/// Reads and discards what the client still sends, until the client closes the connection.
async fn read_to_end(mut stream: Stream) {
    let socket = match &mut *stream {
        Either::Left(socket) => socket,
        Either::Right(stream) => stream.get_mut().0,
    };
    let mut words = [0; 1024];
    while socket.read(&mut words).await.is_ok_and(|length| length > 0) {}
}
