//! Tests which TLS versions and clients the webhook accepts, and which certificate it presents.

use super::{BOTH, Server, certificates, review, spark_pod};
use rustls::version::{TLS12, TLS13};
use serde_json::json;
use webhook::{Closing, Tls, TlsVersion, cipher_suite};

#[tokio::test]
async fn only_the_configured_tls_versions_and_cipher_suites_are_used() {
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
        let server = Server::closing(tls, Closing::default()).await;
        let stream = server.handshake_in(&[version], &["h2"]).await.ok();
        let suite = stream.map(|stream| stream.get_ref().1.negotiated_cipher_suite().unwrap().suite());
        assert_eq!(suite.map(|suite| format!("{suite:?}")).as_deref(), spoken);
    }
}

#[tokio::test]
async fn a_client_that_trusts_another_ca_is_not_served() {
    let (server, other) = (Server::start().await, Server::start().await);
    let stranger = Server { ca: other.ca.clone(), ..server };
    let error = stranger.handshake(&["h2"]).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn clients_are_served_only_once_there_is_a_certificate() {
    let mut server = Server::bare(Tls::default(), Closing::default()).await;
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
    // The client now trusts only the new CA.
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
