//! Proves that a stopping webhook answers the reviews that have begun, and waits for no other connection.

use super::{BOTH, DEADLINE, Server, head, review, spark_pod};
use crate::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_review_that_has_begun_is_answered_before_the_server_stops() {
    let server = Server::start().await;
    let body = review(&spark_pod(json!({"host-network": "true"}))).to_string();
    let mut stream = server.handshake(&["http/1.1"]).await.unwrap();
    let head = head(body.len()).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server sends this line when it has begun to wait for the body.
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
