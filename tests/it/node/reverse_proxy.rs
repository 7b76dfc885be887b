//! Implements a small Ingress controller for one Ingress: its host, its path with nginx's rewriting, and TLS.

use crate::apiserver::{prelude::*, proxy::identity};
use axum::body::Body;
use certificates::Certificates;
use hyper::{Request, Response, Uri, body::Incoming, client::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, fmt::Debug};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

/// nginx's annotation for rewriting a path. The path in the Ingress then ends with [`REST`], whose second group matches
/// the rest of a request's path.
const REWRITE: &str = "nginx.ingress.kubernetes.io/rewrite-target";
const REST: &str = "(/|$)(.*)";
/// The first byte of a TLS handshake.
const HANDSHAKE: [u8; 1] = [0x16];

/// The proxy, which stops when this value is dropped.
pub(super) struct ReverseProxy {
    /// The address for HTTP and for HTTPS.
    pub address: SocketAddr,
    _background: Background,
}

/// The path of the Ingress.
struct Route {
    host: String,
    /// The path without [`REST`].
    prefix: String,
    rewrite: String,
    backend: SocketAddr,
}

impl ReverseProxy {
    /// Starts a proxy for an Ingress of the namespace `default` that has one path and TLS. It presents these certificates.
    pub(super) fn start(ingress: &Value, certificates: &Certificates) -> Self {
        let route = Arc::new(Route::of(ingress));
        let tls = TlsAcceptor::from(Arc::new(identity(certificates)));
        let background = Background::start();
        let tcp = background.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = tcp.local_addr().unwrap();
        background.spawn(async move {
            loop {
                let Ok((stream, _)) = tcp.accept().await else { continue };
                let (route, tls) = (Arc::clone(&route), tls.clone());
                tokio::spawn(async move {
                    // The two ports of a real controller are one port here: the first byte of a TLS handshake is not a
                    // letter.
                    let mut first = [0];
                    let is_tls = stream.peek(&mut first).await.is_ok() && first == HANDSHAKE;
                    if !is_tls {
                        route.serve(stream, true).await;
                    } else if let Ok(stream) = tls.accept(stream).await {
                        route.serve(stream, false).await;
                    }
                });
            }
        });
        Self { address, _background: background }
    }
}

impl Route {
    fn of(ingress: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{ingress:#}")).to_owned();
        let rule = &ingress["spec"]["rules"][0];
        let path = &rule["http"]["paths"][0];
        let backend = &path["backend"]["service"];
        let (name, port) = (text(&backend["name"]), &backend["port"]["number"]);
        let service = calls::get(&format!("/api/v1/namespaces/default/services/{name}")).expect(&name);
        let mut ports = service["spec"]["ports"].as_array().unwrap().iter();
        assert!(ports.any(|open| open["port"] == *port), "{name} has no port {port}");
        let address = format!("{}:{port}", text(&service["spec"]["clusterIP"]));
        Self {
            host: text(&rule["host"]),
            prefix: text(&path["path"]).strip_suffix(REST).expect("nginx rewrites it").to_owned(),
            rewrite: text(&ingress["metadata"]["annotations"][REWRITE]),
            backend: address.parse().unwrap(),
        }
    }

    /// Answers requests on a connection. A connection without TLS is answered with a redirection, as by nginx.
    async fn serve(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin, lacks_tls: bool) {
        let answer = service_fn(|request: Request<Incoming>| {
            let route = Arc::clone(&self);
            async move {
                if lacks_tls {
                    let host = request.headers()["host"].to_str().unwrap_or_default();
                    let secure = format!("https://{host}{}", request.uri());
                    let answer = Response::builder().status(StatusCode::PERMANENT_REDIRECT);
                    return Ok(answer.header("location", secure).body(Body::empty()).unwrap());
                }
                let answer = route.forward(request).await;
                let failed =
                    |(status, why)| Response::builder().status(status).body(Body::from(why)).unwrap();
                Ok::<_, Infallible>(answer.unwrap_or_else(failed))
            }
        });
        // A browser may close the connection at any time.
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await.ok();
    }

    /// Forwards a request to the Service that the Ingress names.
    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Body>, (StatusCode, String)> {
        let host = request.headers()["host"].to_str().unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default();
        let Some(path) = self.takes(host, request.uri().path()) else {
            return Err((StatusCode::NOT_FOUND, format!("no Ingress for {host}{}", request.uri())));
        };
        let failed = |error: &dyn Debug| (StatusCode::BAD_GATEWAY, format!("{}: {error:?}", self.backend));
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let uri: Uri = format!("{path}{query}").parse().map_err(|error| failed(&error))?;
        let (mut head, body) = request.into_parts();
        head.uri = uri;
        let stream = TcpStream::connect(self.backend).await.map_err(|error| failed(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        tokio::spawn(connection);
        let response = sender.send_request(Request::from_parts(head, body)).await;
        response.map(|response| response.map(Body::new)).map_err(|error| failed(&error))
    }

    /// Returns the path at the backend for a request, if the request belongs to this route.
    fn takes(&self, host: &str, path: &str) -> Option<String> {
        let rest = path.strip_prefix(&*self.prefix)?;
        let is_below = rest.is_empty() || rest.starts_with('/');
        let rewritten = self.rewrite.replace("$2", rest.strip_prefix('/').unwrap_or_default());
        (host == self.host && is_below).then_some(rewritten)
    }
}
