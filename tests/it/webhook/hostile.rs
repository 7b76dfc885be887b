//! Proves that malicious or broken clients (invalid TLS, requests that never end, floods of frames) are refused without
//! a log entry for each, and that no other client notices.

#![expect(clippy::print_stdout, reason = "the memory itself is a result, not only that it is below a limit")]

use super::{
    BOTH, Client, DEADLINE, Now, Server, certificates, connector, crowds::ready, handshake, head,
    process::Operator, review, spark_pod,
};
use crate::prelude::*;
use axum::http::{Request, header};
use futures::{Stream, future::join_all};
use http_body_util::StreamBody;
use hyper::{body::Frame, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};
use std::convert::Infallible;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

/// The Content-Length that requests announce, in bytes: the largest that the webhook accepts. The tests send less.
const ANNOUNCED: usize = 4 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn clients_with_invalid_tls_are_refused_without_a_log_entry() {
    let operator = Operator::start("bad-tls").await;
    let hello = |version: [u8; 2], suites: &[u8]| client_hello(version, suites);
    let modern = [0x13, 0x01, 0xc0, 0x2b, 0xc0, 0x2f];
    let mut overlong = hello([3, 3], &modern);
    (overlong[3], overlong[4]) = (0xff, 0xff);
    let cases: [(&str, Vec<u8>); 10] = [
        ("SSL 3.0", hello([3, 0], &modern)),
        ("TLS 1.0", hello([3, 1], &modern)),
        ("TLS 1.1", hello([3, 2], &modern)),
        ("no suite in common", hello([3, 3], &[0x00, 0x05, 0x00, 0x0a])),
        ("no suite at all", hello([3, 3], &[])),
        ("a record longer than any", overlong),
        ("half a hello, then the end", hello([3, 3], &modern)[..20].to_vec()),
        ("HTTP/1.1", b"POST /mutate HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("garbage", (0..=255).cycle().take(100_000).collect()),
    ];
    for (what, bytes) in cases {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(operator.address).await.unwrap();
            // The server may close the connection before everything is written.
            stream.write_all(&bytes).await.ok();
            stream.shutdown().await.ok();
            let said = last_words(&mut stream).await;
            // The answer is empty or a TLS alert.
            assert!(said.is_empty() || said[0] == 21, "{what}: {said:?}");
        }
    }
    operator.answers().await;
    assert_eq!(operator.logged_of_clients(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_never_end_delay_no_client_and_time_out() {
    let server = Server::start().await;
    let body = review(&spark_pod(json!({}))).to_string();
    let head = head(body.len());
    // Each request is sent in small pieces; in half of them not even the head ends.
    let endless = (0..100).map(|i| {
        let sent = if i % 2 == 0 { &head[..head.len() - 2] } else { &head };
        trickle(&server, sent, &body)
    });
    let others = async {
        for _ in 0..20 {
            server.answers().await;
        }
    };
    let given_up = async {
        let mut stream = server.handshake(&["http/1.1"]).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body.as_bytes()[..10]).await.unwrap();
        last_words(&mut stream).await
    };
    let (_, (), said) = futures::join!(join_all(endless), others, given_up);
    assert!(said.starts_with(b"HTTP/1.1 408 Request Timeout\r\n"), "{}", String::from_utf8_lossy(&said));

    let begun = stream::iter([Bytes::from("{")]).chain(stream::pending());
    assert_eq!(status_for(&server, begun).await, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn a_body_with_too_large_a_content_length_is_refused_before_it_arrives() {
    let server = Server::start().await;
    let mut stream = server.handshake(&["http/1.1"]).await.unwrap();
    stream.write_all(head(ANNOUNCED + 1).as_bytes()).await.unwrap();
    let mut said = [0; 12];
    timeout(DEADLINE, stream.read_exact(&mut said)).await.unwrap().unwrap();
    assert_eq!(&said, b"HTTP/1.1 413");

    let endless = stream::repeat(Bytes::from(vec![b' '; 16 << 10]));
    assert_eq!(status_for(&server, endless).await, StatusCode::PAYLOAD_TOO_LARGE);
}

/// Sends 200 bodies that never end, 1.5 MiB of each: 300 MiB in total.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_never_end_take_bounded_memory_together() {
    let operator = ready("bodies").await;
    let before = operator.memory_kib();
    let mut most = 0;
    let mut crowd = Vec::new();
    for i in 0..200 {
        let mut stream = operator.handshake("http/1.1").await.unwrap();
        stream.write_all(head(ANNOUNCED).as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; 3 << 19]).await.unwrap();
        stream.flush().await.unwrap();
        crowd.push(stream);
        if i % 20 == 0 {
            operator.answers().await;
        }
        most = most.max(operator.memory_kib());
    }
    println!("200 bodies of 1.5 MiB that never end: {before} KiB before, at most {most} KiB with them");
    assert!(most < before + (96 << 10), "{before} KiB, {most} KiB");
    let mut refused = Vec::new();
    timeout(DEADLINE, crowd[0].read_to_end(&mut refused)).await.unwrap().ok();
    assert!(refused.starts_with(b"HTTP/1.1 503 "), "{}", String::from_utf8_lossy(&refused));
    operator.answers().await;
    assert_eq!(operator.logged_of_clients(), [""; 0]);
}

/// The limits that hyper announces to clients and enforces: 100 concurrent requests and 16 KiB of headers.
#[tokio::test]
async fn an_http2_client_receives_its_limits() {
    let server = Server::start().await;
    let mut stream = server.handshake(&["h2"]).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    let mut head = [0; 9];
    timeout(DEADLINE, stream.read_exact(&mut head)).await.unwrap().unwrap();
    assert_eq!(head[3], SETTINGS);
    let mut settings = vec![0; usize::from(head[2])];
    stream.read_exact(&mut settings).await.unwrap();
    let setting = |id: u8| {
        let found = settings
            .chunks(6)
            .find(|setting| setting[..2] == [0, id])
            .expect("the server sends this setting");
        u32::from_be_bytes(found[2..].try_into().unwrap())
    };
    assert_eq!((setting(3), setting(6)), (100, 16 << 10));
}

/// Floods of requests that are reset at once (CVE-2023-44487), of errors that make the server reset the stream
/// (CVE-2025-8671), of headers that never end (CVE-2024-27316), and of pings and settings, each of which needs an
/// answer.
#[tokio::test(flavor = "multi_thread")]
async fn floods_of_http2_frames_take_bounded_memory_and_delay_no_client() {
    let operator = ready("frames").await;
    let before = operator.memory_kib();
    // The encoded headers: POST, https, `/mutate`.
    let head = [&[0x83, 0x87, 0x04, 7][..], b"/mutate"].concat();
    let stream_id = |i: u32| 2 * i + 1;
    let floods: [(&str, Flood); 5] = [
        ("reset at once", {
            let head = head.clone();
            Box::new(move |i| {
                let reset = frame(RST_STREAM, 0, stream_id(i), &8u32.to_be_bytes());
                [frame(HEADERS, END_HEADERS, stream_id(i), &head), reset].concat()
            })
        }),
        (
            "errors",
            Box::new(move |i| {
                // The update makes the window larger than HTTP/2 allows.
                let too_large = frame(WINDOW_UPDATE, 0, stream_id(i), &0x7fff_ffffu32.to_be_bytes());
                [frame(HEADERS, END_HEADERS, stream_id(i), &head), too_large].concat()
            }),
        ),
        (
            "headers without end",
            Box::new(|i| {
                let header = [&[0x00, 1, b'a', 127, 0xa1, 0x1f][..], &[b'x'; 4128]].concat();
                if i == 0 { frame(HEADERS, 0, 1, &header) } else { frame(CONTINUATION, 0, 1, &header) }
            }),
        ),
        ("pings", Box::new(|_| frame(PING, 0, 0, &[0; 8]))),
        ("settings", Box::new(|_| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]))),
    ];
    for (what, flood) in &floods {
        let mut stream = operator.handshake("h2").await.unwrap();
        let begin = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[])].concat();
        stream.write_all(&begin).await.unwrap();
        // Ends when the server closes the connection, or when it stops reading because its answers are not read.
        let sent = async {
            for i in 0..100_000 {
                stream.write_all(&flood(i)).await?;
            }
            stream.flush().await
        };
        let ended: Result<io::Result<()>, _> = timeout(Duration::from_secs(2), sent).await;
        operator.answers().await;
        let memory = operator.memory_kib();
        println!("{what}: {before} KiB before, {memory} KiB then; {ended:?}");
        assert!(memory < before + (32 << 10), "{what}: {before} KiB, {memory} KiB");
    }
    operator.answers().await;
    assert_eq!(operator.logged_of_clients(), [""; 0]);
}

/// The API server offers a client certificate if its AdmissionConfiguration contains one.
#[tokio::test]
async fn a_client_that_has_a_certificate_of_its_own_is_answered() {
    let server = Server::start().await;
    let own = certificates();
    let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap().into_owned()];
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
    let own = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider()).unwrap();
    let own: Arc<SingleCertAndKey> = Arc::new(own.into());
    for protocol in BOTH {
        let plain = connector(&server.ca, Arc::new(Now), rustls::DEFAULT_VERSIONS, &[protocol]);
        let mut config = (**plain.config()).clone();
        config.client_auth_cert_resolver = own.clone();
        let stream = handshake(server.address, &TlsConnector::from(Arc::new(config))).await.unwrap();
        let mut client =
            if protocol == "h2" { Client::http2(stream).await } else { Client::http1(stream).await };
        assert_eq!(client.review(&review(&spark_pod(json!({})))).await["response"]["allowed"], true);
    }
}

#[tokio::test]
async fn a_client_that_expects_another_name_rejects_the_certificate() {
    let server = Server::start().await;
    let connector = connector(&server.ca, Arc::new(Now), rustls::DEFAULT_VERSIONS, &["h2"]);
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let elsewhere = ServerName::try_from("elsewhere.example.com").unwrap();
    let error = timeout(DEADLINE, connector.connect(elsewhere, tcp)).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("not valid for name"), "{error}");
    server.answers().await;
}

/// Returns the frames to send in the round with this number.
type Flood = Box<dyn Fn(u32) -> Vec<u8>>;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Returns an HTTP/2 frame (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns a TLS record with the ClientHello of an old client (RFC 5246, section 7.4.1.2), without extensions.
fn client_hello(version: [u8; 2], suites: &[u8]) -> Vec<u8> {
    let suites_length = u16::try_from(suites.len()).unwrap().to_be_bytes();
    let hello = [&version[..], &[7; 32], &[0], &suites_length, suites, &[1, 0]].concat();
    let length = u16::try_from(hello.len()).unwrap();
    let message = [&[1, 0][..], &length.to_be_bytes(), &hello].concat();
    [&[22, 3, 1][..], &(length + 4).to_be_bytes(), &message].concat()
}

/// Returns all bytes up to the end of the connection, whether the connection ends cleanly or with an error.
async fn last_words(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut said = Vec::new();
    timeout(DEADLINE, stream.read_to_end(&mut said)).await.expect("the connection ends").ok();
    said
}

/// Sends `head` in eight pieces, and then the first bytes of `body`, with pauses.
async fn trickle(server: &Server, head: &str, body: &str) {
    let mut stream = server.handshake(&["http/1.1"]).await.unwrap();
    for byte in head.as_bytes().chunks(head.len() / 8).chain(body.as_bytes().chunks(1).take(4)) {
        stream.write_all(byte).await.unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    // The server has not closed the connection.
    stream.write_all(b"-").await.unwrap();
}

/// Sends a request over HTTP/2 whose body consists of `parts`; returns the status of the answer.
async fn status_for(server: &Server, parts: impl Stream<Item = Bytes> + Send + 'static) -> StatusCode {
    let body = StreamBody::new(parts.map(|part| Ok::<_, Infallible>(Frame::data(part))).boxed());
    let stream = TokioIo::new(server.handshake(&["h2"]).await.unwrap());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let post = Request::post("https://localhost/mutate").header(header::CONTENT_TYPE, "application/json");
    timeout(DEADLINE, sender.send_request(post.body(body).unwrap())).await.unwrap().unwrap().status()
}
