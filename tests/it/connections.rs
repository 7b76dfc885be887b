//! Proves that the webhook closes connections that have reached their maximum age, and all of them when it stops, and
//! that no admission review is lost by that.

use crate::{
    prelude::*,
    webhook::{Server, review, spark_pod},
};
use axum::http::{Request, header};
use futures::channel::mpsc;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    body::Frame,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use webhook::{Closing, Tls};

/// The types of HTTP/2 frames.
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// The maximum age of connections to the webhook in these tests.
const AGE: Duration = Duration::from_millis(300);
/// The time after which an operation counts as hanging. No machine needs that long.
const DEADLINE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_old_http2_connection_closes_after_its_requests_are_answered() {
    let server = Server::closing(Tls::default(), Closing { max_age: Some(AGE), ..Closing::default() }).await;
    let stream = TokioIo::new(server.handshake(&["h2"]).await.unwrap());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let opened = Instant::now();
    let connection = tokio::spawn(connection);

    // The last byte of this review arrives after the server has begun to close the connection.
    let (body, bytes) = mpsc::unbounded();
    let frames = bytes.map(|bytes: Bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    let late = sender.send_request(post().body(StreamBody::new(frames)).unwrap());
    sleep(2 * AGE).await;
    let review = review(&spark_pod(json!({"host-network": "true"}))).to_string();
    body.unbounded_send(review.into()).unwrap();
    drop(body);
    let answer = timeout(DEADLINE, late).await.unwrap().unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(answer.into_body().collect().await.unwrap().to_bytes().starts_with(b"{\"apiVersion\""));

    timeout(DEADLINE, connection)
        .await
        .expect("the connection ends when every request is answered")
        .unwrap()
        .unwrap();
    assert!(opened.elapsed() >= AGE);
    assert!(sender.is_closed());
}

/// A client that begins a request while the server closes the connection learns from the GOAWAY frame which request is
/// the last to be answered, and repeats its own request on another connection. If the server reset the connection, the
/// client could not know this.
#[tokio::test]
async fn frames_that_arrive_while_an_http2_connection_closes_cause_no_reset() {
    let server = Server::closing(Tls::default(), Closing { max_age: Some(AGE), ..Closing::default() }).await;
    let mut stream = server.handshake(&["h2"]).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).await.unwrap();
    loop {
        let mut head = [0; 9];
        timeout(DEADLINE, stream.read_exact(&mut head)).await.unwrap().unwrap();
        let mut rest = vec![0; usize::from(head[2])];
        stream.read_exact(&mut rest).await.unwrap();
        match (head[3], head[4]) {
            (PING, 0) => {
                head[4] = 1;
                stream.write_all(&[&head[..], &rest].concat()).await.unwrap();
            }
            // The first GOAWAY only announces that the connection will end. The second GOAWAY names stream 0, since no
            // request was answered.
            (GOAWAY, _) if rest[..4] == [0; 4] => break,
            _ => {}
        }
    }
    for _ in 0..3 {
        sleep(AGE / 3).await;
        stream.write_all(&[0, 0, 0, 1, 5, 0, 0, 0, 1]).await.unwrap();
    }
    let mut rest = Vec::new();
    timeout(DEADLINE, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
}

/// If the server closed an idle HTTP/1.1 connection, it would lose a request that is already on its way to it.
#[tokio::test]
async fn an_old_http1_connection_is_open_until_a_response_says_connection_close() {
    let server = Server::closing(Tls::default(), Closing { max_age: Some(AGE), ..Closing::default() }).await;
    let stream = TokioIo::new(server.handshake(&["http/1.1"]).await.unwrap());
    let (mut sender, connection) = http1::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let review = review(&spark_pod(json!({}))).to_string();
    let mut last = async || {
        timeout(DEADLINE, sender.ready()).await.unwrap().unwrap();
        let answer = sender.send_request(post().body(Full::<Bytes>::from(review.clone())).unwrap());
        let answer = timeout(DEADLINE, answer).await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let says_so = answer.headers().get(header::CONNECTION).is_some_and(|value| value == "close");
        answer.into_body().collect().await.unwrap();
        says_so
    };
    assert!(!last().await);
    sleep(2 * AGE).await;
    assert!(!connection.is_finished());
    assert!(last().await);
    timeout(DEADLINE, connection).await.expect("the connection ends after that response").unwrap().unwrap();
}

/// During the delay, nodes that do not yet know of another replica still send new connections to the stopping webhook.
#[tokio::test]
async fn a_stopping_webhook_accepts_new_connections_for_a_while() {
    let server = Server::closing(Tls::default(), Closing { delay: 3 * AGE, ..Closing::default() }).await;
    let asked = Instant::now();
    server.stop();
    for protocol in ["h2", "http/1.1"] {
        let answer =
            server.connect(protocol).await.review_at("/mutate", &review(&spark_pod(json!({})))).await;
        assert_eq!(answer["response"]["allowed"], true);
    }
    timeout(DEADLINE, server.ends()).await.unwrap();
    assert!(asked.elapsed() >= 3 * AGE);
}

#[tokio::test]
async fn without_a_maximum_age_no_connection_is_closed() {
    let server = Server::start().await;
    for protocol in ["h2", "http/1.1"] {
        let mut client = server.connect(protocol).await;
        for _ in 0..3 {
            sleep(AGE).await;
            let answer = client.review_at("/mutate", &review(&spark_pod(json!({})))).await;
            assert_eq!(answer["response"]["allowed"], true);
        }
    }
}

fn post() -> axum::http::request::Builder {
    Request::post("https://localhost/mutate").header(header::CONTENT_TYPE, "application/json")
}
