//! Proves that the webhook answers over real HTTPS, to any client and any request.

mod answers;
mod bounds;
mod crowds;
mod hostile;
mod http;
mod metrics;
mod process;
mod stop;
mod tls;

use crate::{fuzzed, prelude::*};
use axum::http::{Request, header};
use certificates::{Certificates, ServingCertificate};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prometheus_client::registry::Registry;
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    time_provider::{DefaultTimeProvider, TimeProvider},
};
use tokio::task::JoinHandle;
use tokio_rustls::{TlsConnector, client::TlsStream};
use webhook::{Closing, Limits, Tls, router, serve_routes};

/// The time after which an answer counts as missing. No machine needs that long.
const DEADLINE: Duration = Duration::from_secs(60);
const BOTH: [&str; 2] = ["http/1.1", "h2"];

/// A webhook on loopback, with the CA that its clients trust.
pub struct Server {
    address: SocketAddr,
    certificate: Arc<ServingCertificate>,
    ca: String,
    registry: Registry,
    stop: CancellationToken,
    serving: JoinHandle<io::Result<()>>,
}

impl Server {
    pub async fn start() -> Self {
        Self::closing(Tls::default(), Closing::default()).await
    }

    /// Starts a server that has a certificate.
    pub(crate) async fn closing(tls: Tls, closing: Closing) -> Self {
        let mut server = Self::bare(tls, closing).await;
        server.show_new_certificate();
        server
    }

    async fn bare(tls: Tls, closing: Closing) -> Self {
        let tcp = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = tcp.local_addr().unwrap();
        let (certificate, stop) = (Arc::new(ServingCertificate::default()), CancellationToken::new());
        let mut registry = Registry::default();
        let routes = router(fuzzed::reviews(&mut registry));
        let (shown, stopped) = (Arc::clone(&certificate), stop.clone());
        let serving = tokio::spawn(async move {
            serve_routes(tcp, Some((shown, &tls)), routes, Limits::REVIEWS, closing, stopped).await
        });
        Self { address, certificate, ca: certificates().ca_certificate, registry, stop, serving }
    }

    fn show_new_certificate(&mut self) {
        let made = certificates();
        self.certificate.set(&made.certificate, &made.key).unwrap();
        self.ca = made.ca_certificate;
    }

    /// Opens a TLS connection as a client that trusts `ca` and offers these protocols.
    pub(crate) async fn handshake(&self, protocols: &[&str]) -> io::Result<TlsStream<TcpStream>> {
        self.handshake_in(rustls::DEFAULT_VERSIONS, protocols).await
    }

    async fn handshake_in(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> io::Result<TlsStream<TcpStream>> {
        handshake(self.address, &connector(&self.ca, Arc::new(Now), versions, protocols)).await
    }

    pub async fn connect(&self, protocol: &str) -> Client {
        let stream = self.handshake(&[protocol]).await.unwrap();
        if protocol == "h2" { Client::http2(stream).await } else { Client::http1(stream).await }
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the server has stopped.
    pub(crate) async fn ends(self) {
        self.serving.await.unwrap().unwrap();
    }

    async fn shown_certificate(&self) -> CertificateDer<'static> {
        let stream = self.handshake(&["h2"]).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// Asserts that a new client gets an answer.
    async fn answers(&self) {
        let review = review(&spark_pod(json!({})));
        assert_eq!(self.connect("h2").await.review(&review).await["response"]["allowed"], true);
    }
}

/// Returns a connector for a client that trusts `ca` and offers these protocols.
pub(crate) fn connector(
    ca: &str,
    clock: Arc<dyn TimeProvider>,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_details(provider, clock).with_protocol_versions(versions);
    let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Returns a connector for a client of HTTP/1.1 that trusts `ca` and has the clock of this machine.
pub(crate) fn trusting(ca: &str) -> TlsConnector {
    connector(ca, Arc::new(DefaultTimeProvider), rustls::DEFAULT_VERSIONS, &["http/1.1"])
}

pub(crate) async fn handshake(
    address: SocketAddr,
    connector: &TlsConnector,
) -> io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    timeout(DEADLINE, connector.connect(name, tcp)).await?
}

/// One connection to the webhook.
pub enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    pub(crate) async fn http1(stream: TlsStream<TcpStream>) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::Http1(sender)
    }

    async fn http2(stream: TlsStream<TcpStream>) -> Self {
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self::Http2(sender)
    }

    async fn review(&mut self, review: &Value) -> Value {
        self.review_at("/mutate", review).await
    }

    pub async fn review_at(&mut self, path: &str, review: &Value) -> Value {
        self.text_at(path, review.to_string()).await
    }

    /// Sends a review as text, which may be JSON that [`Value`] cannot hold.
    pub async fn text_at(&mut self, path: &str, review: String) -> Value {
        let (code, body) = self.post_to(path, "application/json", review).await.unwrap();
        assert_eq!(code, StatusCode::OK, "{body:?}");
        serde_json::from_slice(&body).unwrap()
    }

    async fn post(&mut self, content_type: &str, body: String) -> hyper::Result<(StatusCode, Bytes)> {
        self.post_to("/mutate", content_type, body).await
    }

    async fn post_to(
        &mut self,
        path: &str,
        content_type: &str,
        body: String,
    ) -> hyper::Result<(StatusCode, Bytes)> {
        let request =
            Request::post(format!("https://localhost{path}")).header(header::CONTENT_TYPE, content_type);
        self.send(request.body(Full::from(body)).unwrap()).await
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<(StatusCode, Bytes)> {
        let answer = async {
            let response = match self {
                Self::Http1(sender) => sender.send_request(request).await?,
                Self::Http2(sender) => sender.send_request(request).await?,
            };
            let code = response.status();
            Ok((code, response.into_body().collect().await?.to_bytes()))
        };
        timeout(DEADLINE, answer).await.expect("the webhook answers")
    }
}

/// The clock of these tests, which is fixed.
#[derive(Debug)]
struct Now;

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        let now = Duration::from_secs(now().as_second().unsigned_abs());
        Some(UnixTime::since_unix_epoch(now))
    }
}

fn now() -> jiff::Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn certificates() -> Certificates {
    Certificates::generate(&["localhost".to_owned()], now()).unwrap()
}

/// Returns the review of the creation of `pod`, as an API server of Kubernetes 1.35 sends it.
pub(crate) fn review(pod: &Value) -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "name": "everything-driver", "namespace": "default", "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:default:spark", "groups": ["system:authenticated"]},
        "object": pod, "oldObject": null, "dryRun": false,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }})
}

/// Returns the head of a review over HTTP/1.1 whose body has this number of bytes.
fn head(length: usize) -> String {
    format!(
        "POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Returns a driver pod with these annotations of the operator; the keys are given without their prefix.
pub(crate) fn spark_pod(annotations: Value) -> Value {
    let mut pod: Value = yaml(&data("annotations/driver.pod.yaml"));
    let annotations = annotations.as_object().unwrap().iter();
    pod["metadata"]["annotations"] =
        annotations.map(|(key, value)| (format!("sparkoperator.k8s.io/{key}"), value.clone())).collect();
    pod
}
