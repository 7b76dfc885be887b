//! Proves that the webhook speaks HTTP/1.1 and HTTP/2, as the client asks, and answers only on its own paths.

use super::{BOTH, Client, Server, review, spark_pod};
use axum::http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::json;

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

/// The API server accepts objects of up to 3 MiB.
#[tokio::test]
async fn the_largest_pod_fits() {
    let server = Server::start().await;
    let mut pod = spark_pod(json!({"host-network": "true"}));
    pod["metadata"]["annotations"]["example.com/large"] = "x".repeat(3 << 20).into();
    for protocol in BOTH {
        let answer = server.connect(protocol).await.review(&review(&pod)).await;
        assert!(answer["response"]["patch"].is_string(), "{protocol}");
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
