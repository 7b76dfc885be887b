//! Does the webhook answer, over real HTTPS, whoever calls and whatever they send?

use crate::golden::{data, yaml};
use axum::{
    body::Bytes,
    http::{Method, Request, StatusCode, header},
};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prometheus_client::registry::Registry;
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    time_provider::TimeProvider,
    version::{TLS12, TLS13},
};
use serde_json::{Value, json};
use spark_operator::{
    metrics,
    plan::customization::customized,
    webhook::{
        Certificates, Closing, ReviewMetrics, ServingCertificate, Tls, TlsVersion, cipher_suite, serve,
    },
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

/// Long enough for any machine; what takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(20);
const BOTH: [&str; 2] = ["http/1.1", "h2"];

#[tokio::test]
async fn a_review_is_answered_with_its_uid_its_version_and_a_patch() {
    let server = Server::start().await;
    let pod = spark_pod(json!({"host-network": "true", "scheduler-name": "volcano"}));
    for protocol in BOTH {
        let answer = server.connect(protocol).await.review(&review(&pod)).await;
        assert_eq!(
            (&answer["apiVersion"], &answer["kind"]),
            (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
        );
        let response = &answer["response"];
        assert_eq!(response["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
        assert_eq!((&response["allowed"], &response["patchType"]), (&json!(true), &json!("JSONPatch")));
        let patch: k8s_openapi::ByteString = serde_json::from_value(response["patch"].clone()).unwrap();
        let mut patched = pod.clone();
        json_patch::patch(&mut patched, &serde_json::from_slice::<json_patch::Patch>(&patch.0).unwrap())
            .unwrap();
        assert_eq!(patched, customized(&pod).unwrap(), "{protocol}");
    }
}

#[tokio::test]
async fn the_protocol_is_the_one_that_the_client_asks_for() {
    let server = Server::start().await;
    for (asked, negotiated) in [(vec!["h2", "http/1.1"], "h2"), (vec!["http/1.1"], "http/1.1")] {
        let stream = server.handshake(&asked).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(negotiated.as_bytes()));
    }
    let stream = server.handshake(&[]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), None);
    let answer = Client::http1(stream).await.review(&review(&spark_pod(json!({})))).await;
    assert_eq!(answer["response"]["allowed"], true);
}

#[tokio::test]
async fn a_pod_that_asks_for_nothing_is_allowed_without_a_patch() {
    let server = Server::start().await;
    let answer = server.connect("h2").await.review(&review(&spark_pod(json!({})))).await;
    assert_eq!(answer["response"], json!({"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "allowed": true}));
}

#[tokio::test]
async fn a_denial_says_everything_that_is_wrong() {
    let server = Server::start().await;
    let pod = spark_pod(json!({"memory-limit": "2g", "tolerations": "[1]"}));
    let answer = server.connect("h2").await.review(&review(&pod)).await;
    let message = "annotation sparkoperator.k8s.io/tolerations at [0]: invalid type: integer `1`, expected Toleration; \
        annotation sparkoperator.k8s.io/memory-limit: `2g` is not a Kubernetes quantity (try `2Gi`)";
    let expected = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "allowed": false,
        "status": {"code": 403, "reason": "Forbidden", "message": message},
    });
    assert_eq!(answer["response"], expected);
}

#[tokio::test]
async fn a_deletion_is_allowed() {
    let server = Server::start().await;
    let mut review = review(&spark_pod(json!({"memory-limit": "2g"})));
    let request = &mut review["request"];
    request["operation"] = "DELETE".into();
    request["oldObject"] = request["object"].take();
    assert_eq!(server.connect("h2").await.review(&review).await["response"]["allowed"], true);
}

#[tokio::test]
async fn an_object_of_another_kind_is_denied_and_the_rules_are_named() {
    let server = Server::start().await;
    let mut review = review(&json!({"metadata": {"name": "pi"}}));
    review["request"]["kind"] = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let response = &server.connect("h2").await.review(&review).await["response"];
    assert_eq!(response["allowed"], false);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("Deployment of group `apps`") && message.contains("MutatingWebhookConfiguration"),
        "{message}"
    );
}

/// The API server lets objects of up to 3 MiB through.
#[tokio::test]
async fn the_largest_pod_fits_and_what_no_api_server_sends_does_not() {
    let server = Server::start().await;
    let of_size = |bytes: usize| {
        let mut pod = spark_pod(json!({"host-network": "true"}));
        pod["metadata"]["annotations"]["example.com/large"] = "x".repeat(bytes).into();
        review(&pod)
    };
    for protocol in BOTH {
        let answer = server.connect(protocol).await.review(&of_size(3 << 20)).await;
        assert!(answer["response"]["patch"].is_string(), "{protocol}");
        // Refused before all of it was sent, so that over HTTP/1.1 a client may see a closed connection
        // instead of the answer.
        let body = of_size(9 << 20).to_string();
        let refused = server.connect(protocol).await.post("application/json", body).await;
        if let Ok((code, _)) = refused {
            assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE, "{protocol}");
        } else {
            assert_eq!(protocol, "http/1.1");
        }
    }
}

#[tokio::test]
async fn what_is_not_a_review_is_refused_with_a_sentence() {
    let server = Server::start().await;
    let plain = review(&spark_pod(json!({}))).to_string();
    let with = |pointer: &str, value: Value| {
        let mut review = review(&spark_pod(json!({})));
        *review.pointer_mut(pointer).unwrap() = value;
        review.to_string()
    };
    let json = "application/json";
    let cases = [
        ("text/plain", plain.clone(), "content type `text/plain`: must be application/json"),
        ("", plain, "content type ``: must be application/json"),
        (json, "\u{1}\u{2}\u{3}".to_owned(), "not an AdmissionReview: expected value at line 1 column 1"),
        (json, String::new(), "not an AdmissionReview: EOF while parsing a value at line 1 column 0"),
        (json, "[]".to_owned(), "not an AdmissionReview: invalid length 0"),
        (json, "{}".to_owned(), "not an AdmissionReview: missing field `apiVersion`"),
        (
            json,
            with("/request/uid", json!(5)),
            "not an AdmissionReview: invalid type: integer `5`, expected a string",
        ),
        (
            json,
            with("/kind", json!("Pod")),
            "not an AdmissionReview of admission.k8s.io but Pod of admission.k8s.io/v1",
        ),
        (
            json,
            with("/apiVersion", json!("v1")),
            "not an AdmissionReview of admission.k8s.io but AdmissionReview of v1",
        ),
    ];
    for (content_type, body, why) in cases {
        let (code, said) = server.connect("h2").await.post(content_type, body.clone()).await.unwrap();
        assert_eq!(code, StatusCode::BAD_REQUEST, "{body}");
        assert!(said.starts_with(why.as_bytes()), "{said:?} instead of {why}");
    }
    // A charset says nothing about JSON.
    let body = review(&spark_pod(json!({}))).to_string();
    let (code, _) = server.connect("h2").await.post("application/json; charset=utf-8", body).await.unwrap();
    assert_eq!(code, StatusCode::OK);
}

#[tokio::test]
async fn only_the_versions_and_suites_of_tls_are_spoken_that_are_asked_for() {
    let suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    let restricted = Tls { cipher_suites: vec![cipher_suite(suite).unwrap()], ..Tls::default() };
    let newest = Tls { min_version: TlsVersion::Tls13, ..Tls::default() };
    for (tls, version, spoken) in [
        (Tls::default(), &TLS12, Some("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")),
        (Tls::default(), &TLS13, Some("TLS13_AES_256_GCM_SHA384")),
        (restricted.clone(), &TLS12, Some(suite)),
        (restricted, &TLS13, Some("TLS13_AES_256_GCM_SHA384")),
        (newest.clone(), &TLS12, None),
        (newest, &TLS13, Some("TLS13_AES_256_GCM_SHA384")),
    ] {
        let mut server = Server::speaking(tls).await;
        server.show_new_certificate();
        let stream = server.handshake_in(&[version], &["h2"]).await.ok();
        let suite = stream.map(|stream| stream.get_ref().1.negotiated_cipher_suite().unwrap().suite());
        assert_eq!(suite.map(|suite| format!("{suite:?}")).as_deref(), spoken);
    }
}

#[tokio::test]
async fn whoever_speaks_no_tls_is_hung_up_on() {
    let server = Server::start().await;
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain
        .write_all(b"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        .await
        .unwrap();
    let mut said = Vec::new();
    // Hung up on with or without a TLS alert, and perhaps reset: all that matters is that it ends, and soon.
    timeout(DEADLINE, plain.read_to_end(&mut said)).await.unwrap().ok();
    assert!(!said.starts_with(b"HTTP"));
    server.answers().await;
}

#[tokio::test]
async fn clients_that_never_finish_their_handshake_delay_nobody() {
    let server = Server::start().await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    server.answers().await;
}

#[tokio::test]
async fn a_client_that_trusts_another_ca_is_not_served() {
    let (server, other) = (Server::start().await, Server::start().await);
    let stranger = Server { ca: other.ca.clone(), ..server };
    let error = stranger.handshake(&["h2"]).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn without_a_certificate_nobody_is_served_and_with_the_first_one_everybody() {
    let mut server = Server::without_certificate().await;
    assert!(server.handshake(&["h2"]).await.is_err());
    server.show_new_certificate();
    server.answers().await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections_and_drops_none() {
    let mut server = Server::start().await;
    let mut clients = Vec::new();
    for protocol in BOTH {
        let mut client = server.connect(protocol).await;
        client.review(&review(&spark_pod(json!({})))).await;
        clients.push(client);
    }
    let shown = server.shown_certificate().await;
    server.show_new_certificate();
    for client in &mut clients {
        let answer = client.review(&review(&spark_pod(json!({})))).await;
        assert_eq!(answer["response"]["allowed"], true);
    }
    // The client trusts only the new CA by now.
    assert_ne!(server.shown_certificate().await, shown);
}

#[tokio::test]
async fn a_key_of_another_certificate_is_refused_and_changes_nothing() {
    let server = Server::start().await;
    let (one, other) = (certificates(), certificates());
    assert!(server.certificate.set(&one.certificate, &other.key).is_err());
    assert!(server.certificate.set("nonsense", &one.key).is_err());
    server.answers().await;
}

#[tokio::test]
async fn a_review_that_has_begun_is_answered_before_the_server_stops() {
    let server = Server::start().await;
    let body = review(&spark_pod(json!({"host-network": "true"}))).to_string();
    let mut stream = server.handshake(&["http/1.1"]).await.unwrap();
    let head = format!(
        "POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Expect: 100-continue\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server says so when it has begun to wait for the body.
    let mut go_on = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    timeout(DEADLINE, stream.read_exact(&mut go_on)).await.unwrap().unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");

    server.stop.cancel();
    assert!(!server.serving.is_finished());
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("\"patch\""), "{answer}");
    timeout(DEADLINE, server.serving).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn connections_without_a_review_do_not_keep_the_server_from_stopping() {
    let server = Server::start().await;
    let never_spoke = server.handshake(&["http/1.1"]).await.unwrap();
    let no_handshake = TcpStream::connect(server.address).await.unwrap();
    let mut idle = Vec::new();
    for protocol in BOTH {
        let mut client = server.connect(protocol).await;
        client.review(&review(&spark_pod(json!({})))).await;
        idle.push(client);
    }
    server.stop.cancel();
    timeout(DEADLINE, server.serving).await.unwrap().unwrap().unwrap();
    drop((never_spoke, no_handshake, idle));
}

#[tokio::test]
async fn reviews_are_counted_by_what_is_known_of_them() {
    let server = Server::start().await;
    let mut client = server.connect("h2").await;
    for annotations in [json!({}), json!({"memory-limit": "1Gi"}), json!({"tolerations": "[{\"key\": 1}]"})] {
        client.review(&review(&spark_pod(annotations))).await;
    }
    let mut odd = review(&json!({}));
    odd["request"]["kind"]["kind"] = json!("Odd");
    odd["request"]["operation"] = json!("STEAL");
    client.review(&odd).await;
    client.post("application/json", "{".to_owned()).await.unwrap();
    let text = metrics::text(&server.registry);
    let reviews = |kind: &str, operation: &str, result: &str| {
        format!(
            "spark_operator_webhook_reviews_total{{path=\"/mutate\",kind=\"{kind}\",operation=\"{operation}\",result=\"{result}\"}} 1"
        )
    };
    for line in [
        &*reviews("Pod", "CREATE", "allowed"),
        &reviews("Pod", "CREATE", "patched"),
        &reviews("Pod", "CREATE", "denied"),
        &reviews("other", "other", "denied"),
        &reviews("other", "other", "unreadable"),
        "spark_operator_webhook_denials_total{kind=\"Pod\",reason=\"sparkoperator.k8s.io/tolerations\"} 1",
        "spark_operator_webhook_review_duration_seconds_count{path=\"/mutate\"} 5",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
}

#[tokio::test]
async fn a_hundred_reviews_at_once_share_a_connection() {
    let server = Server::start().await;
    let Client::Http2(sender) = server.connect("h2").await else { panic!("not HTTP/2") };
    let review = review(&spark_pod(json!({"host-network": "true"})));
    let reviews = (0..100).map(|_| {
        let mut client = Client::Http2(sender.clone());
        let review = &review;
        async move { client.review(review).await["response"]["patch"].is_string() }
    });
    assert_eq!(futures::future::join_all(reviews).await, [true; 100]);
}

#[tokio::test]
async fn only_a_post_to_its_two_paths_is_answered() {
    let server = Server::start().await;
    for (method, path, code) in [
        (Method::GET, "/mutate", StatusCode::METHOD_NOT_ALLOWED),
        (Method::GET, "/validate", StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/", StatusCode::NOT_FOUND),
    ] {
        let request = Request::builder().method(method).uri(format!("https://localhost{path}"));
        let request = request.body(Full::default()).unwrap();
        assert_eq!(server.connect("h2").await.send(request).await.unwrap().0, code, "{path}");
    }
}

/// A webhook on loopback, and whom its clients trust.
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

    async fn without_certificate() -> Self {
        Self::speaking(Tls::default()).await
    }

    async fn speaking(tls: Tls) -> Self {
        Self::bare(tls, Closing::default()).await
    }

    /// One that shows a certificate.
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
        let measured = ReviewMetrics::new(&mut registry);
        let (shown, stopped) = (Arc::clone(&certificate), stop.clone());
        let serving = tokio::spawn(async move { serve(tcp, shown, &tls, measured, closing, stopped).await });
        Self { address, certificate, ca: certificates().ca_certificate, registry, stop, serving }
    }

    fn show_new_certificate(&mut self) {
        let made = certificates();
        self.certificate.set(&made.certificate, &made.key).unwrap();
        self.ca = made.ca_certificate;
    }

    /// A new TLS connection of a client that trusts `ca` and asks for these protocols.
    pub(crate) async fn handshake(&self, protocols: &[&str]) -> io::Result<TlsStream<TcpStream>> {
        self.handshake_in(rustls::DEFAULT_VERSIONS, protocols).await
    }

    async fn handshake_in(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&str],
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.ca.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_details(provider, Arc::new(Now)).with_protocol_versions(versions);
        let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let tcp = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        timeout(DEADLINE, TlsConnector::from(Arc::new(config)).connect(name, tcp)).await?
    }

    pub async fn connect(&self, protocol: &str) -> Client {
        let stream = self.handshake(&[protocol]).await.unwrap();
        if protocol == "h2" { Client::http2(stream).await } else { Client::http1(stream).await }
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until it has stopped.
    pub(crate) async fn ends(self) {
        self.serving.await.unwrap().unwrap();
    }

    async fn shown_certificate(&self) -> CertificateDer<'static> {
        let stream = self.handshake(&["h2"]).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// That a new client gets an answer.
    async fn answers(&self) {
        let review = review(&spark_pod(json!({})));
        assert_eq!(self.connect("h2").await.review(&review).await["response"]["allowed"], true);
    }
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
        let (code, body) = self.post_to(path, "application/json", review.to_string()).await.unwrap();
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

/// The time at which these tests take place.
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

/// The review of the creation of `pod`, as an API server of Kubernetes 1.35 sends it.
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

/// A driver with these annotations of the contract, their prefix left out.
pub(crate) fn spark_pod(annotations: Value) -> Value {
    let mut pod: Value = yaml(&data("annotations/driver.pod.yaml"));
    let annotations = annotations.as_object().unwrap().iter();
    pod["metadata"]["annotations"] =
        annotations.map(|(key, value)| (format!("sparkoperator.k8s.io/{key}"), value.clone())).collect();
    pod
}
