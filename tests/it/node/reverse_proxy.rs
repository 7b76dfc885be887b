//! Implements a small Ingress controller: hosts, paths, nginx's rewriting, TLS. The controller reads the Ingresses
//! once, when it starts.

use crate::apiserver::prelude::*;
use axum::body::Body;
use hyper::{Request, Response, Uri, body::Incoming, client::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::networking::v1::HTTPIngressPath;
use kube::core::ObjectList;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde::de::DeserializeOwned;
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
    /// The address for HTTP, and for HTTPS if any Ingress has TLS.
    pub address: SocketAddr,
    _background: Background,
}

/// The paths of all Ingresses.
struct Routes(Vec<Route>);

struct Route {
    host: Option<String>,
    path: String,
    rewrite: Option<String>,
    backend: SocketAddr,
}

impl ReverseProxy {
    /// Starts a proxy for the Ingresses that `namespace` has now.
    pub(super) fn start(namespace: &str) -> Self {
        let ingresses: Vec<Ingress> = all(namespace, "ingresses");
        let services: Vec<Service> = all(namespace, "services");
        let routes = ingresses.iter().flat_map(|ingress| Route::of(ingress, &services)).collect();
        let routes = Arc::new(Routes(routes));
        let tls = certificate(namespace, &ingresses);
        let background = Background::start();
        let tcp = background.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = tcp.local_addr().unwrap();
        background.spawn(async move {
            loop {
                let Ok((stream, _)) = tcp.accept().await else { continue };
                let (routes, tls) = (Arc::clone(&routes), tls.clone());
                tokio::spawn(async move {
                    // The two ports of a real controller are one port here: the first byte of a TLS handshake is not a
                    // letter.
                    let mut first = [0];
                    let is_tls = stream.peek(&mut first).await.is_ok() && first == HANDSHAKE;
                    match tls {
                        Some(tls) if is_tls => {
                            if let Ok(stream) = tls.accept(stream).await {
                                routes.serve(stream, false).await;
                            }
                        }
                        tls => routes.serve(stream, tls.is_some()).await,
                    }
                });
            }
        });
        Self { address, _background: background }
    }
}

impl Routes {
    /// Answers requests on a connection. A connection without TLS, if there is TLS, is answered with a redirection, as
    /// by nginx.
    async fn serve(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin, lacks_tls: bool) {
        let answer = service_fn(|request: Request<Incoming>| {
            let routes = Arc::clone(&self);
            async move {
                if lacks_tls {
                    let host = request.headers()["host"].to_str().unwrap_or_default();
                    let secure = format!("https://{host}{}", request.uri());
                    let answer = Response::builder().status(StatusCode::PERMANENT_REDIRECT);
                    return Ok(answer.header("location", secure).body(Body::empty()).unwrap());
                }
                let answer = routes.forward(request).await;
                let failed =
                    |(status, why)| Response::builder().status(status).body(Body::from(why)).unwrap();
                Ok::<_, Infallible>(answer.unwrap_or_else(failed))
            }
        });
        // A browser may close the connection at any time.
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await.ok();
    }

    /// Forwards a request to the Service that an Ingress names for it.
    async fn forward(&self, request: Request<Incoming>) -> Result<Response<Body>, (StatusCode, String)> {
        let host = request.headers()["host"].to_str().unwrap_or_default();
        let host = host.split(':').next().unwrap_or_default();
        let Some((backend, path)) = self.0.iter().find_map(|route| route.takes(host, request.uri().path()))
        else {
            return Err((StatusCode::NOT_FOUND, format!("no Ingress for {host}{}", request.uri())));
        };
        let failed = |error: &dyn Debug| (StatusCode::BAD_GATEWAY, format!("{backend}: {error:?}"));
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let uri: Uri = format!("{path}{query}").parse().map_err(|error| failed(&error))?;
        let (mut head, body) = request.into_parts();
        head.uri = uri;
        let stream = TcpStream::connect(backend).await.map_err(|error| failed(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        tokio::spawn(connection);
        let response = sender.send_request(Request::from_parts(head, body)).await;
        response.map(|response| response.map(Body::new)).map_err(|error| failed(&error))
    }
}

impl Route {
    fn of(ingress: &Ingress, services: &[Service]) -> Vec<Self> {
        let rewrite = ingress.annotations().get(REWRITE);
        let rules = ingress.spec.iter().flat_map(|spec| spec.rules.iter().flatten());
        let paths = rules.flat_map(|rule| {
            rule.http.iter().flat_map(|http| &http.paths).map(|path| (rule.host.clone(), path))
        });
        paths
            .map(|(host, path)| Self {
                host,
                path: path.path.clone().unwrap_or_default(),
                rewrite: rewrite.cloned(),
                backend: backend(path, services),
            })
            .collect()
    }

    /// Returns the backend and the path for a request, if the request belongs to this route.
    fn takes(&self, host: &str, path: &str) -> Option<(SocketAddr, String)> {
        if self.host.as_ref().is_some_and(|own| own != host) {
            return None;
        }
        let Some(prefix) = self.path.strip_suffix(REST) else {
            return path.starts_with(&self.path).then(|| (self.backend, path.to_owned()));
        };
        let rest = path.strip_prefix(prefix)?;
        if !(rest.is_empty() || rest.starts_with('/')) {
            return None;
        }
        let rest = rest.strip_prefix('/').unwrap_or_default();
        let rewritten = self.rewrite.as_ref().map(|rewrite| rewrite.replace("$2", rest));
        Some((self.backend, rewritten.unwrap_or_else(|| path.to_owned())))
    }
}

/// Returns the address of the Service that `path` names.
fn backend(path: &HTTPIngressPath, services: &[Service]) -> SocketAddr {
    let named = path.backend.service.as_ref().expect("a Service is named");
    let service = services.iter().find(|service| service.name_any() == named.name);
    let service = service.unwrap_or_else(|| panic!("no Service {}", named.name));
    let port = named.port.as_ref().and_then(|port| port.number).expect("its port has a number");
    let spec = service.spec.as_ref().unwrap();
    assert!(spec.ports.iter().flatten().any(|open| open.port == port), "{} has no port {port}", named.name);
    let address = spec.cluster_ip.as_ref().unwrap().parse().unwrap();
    SocketAddr::new(address, u16::try_from(port).unwrap())
}

/// Returns a TLS server with the certificate and key from the Secret that the Ingresses name for TLS.
fn certificate(namespace: &str, ingresses: &[Ingress]) -> Option<TlsAcceptor> {
    let tls =
        ingresses.iter().flat_map(|ingress| ingress.spec.iter().flat_map(|spec| spec.tls.iter().flatten()));
    let name = tls.filter_map(|tls| tls.secret_name.clone()).next()?;
    let secrets: Vec<Secret> = all(namespace, "secrets");
    let secret = secrets.iter().find(|secret| secret.name_any() == name);
    let data = secret.unwrap_or_else(|| panic!("no Secret {name}")).data.as_ref().unwrap();
    let pem = |key: &str| -> &[u8] { &data.get(key).map(|ByteString(bytes)| bytes).expect(key)[..] };
    let chain = CertificateDer::pem_slice_iter(pem("tls.crt")).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(pem("tls.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Some(Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()).into())
}

fn all<K: DeserializeOwned + Clone>(namespace: &str, kind: &str) -> Vec<K> {
    let list: ObjectList<K> =
        serde_json::from_str(&kubectl(&["-n", namespace, "get", kind, "-o", "json"])).unwrap();
    list.items
}
