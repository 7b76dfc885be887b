//! Proves that metrics are served over HTTPS with `--secure-metrics`. (`start.rs` sends a plain request.)

use super::{Client, process::Operator};
use crate::prelude::*;
use axum::http::Request;
use http_body_util::Full;

#[tokio::test]
async fn metrics_are_served_over_https_with_the_webhooks_certificate() {
    let address = (Ipv4Addr::LOCALHOST, free_port()).into();
    let flag = format!("--metrics-bind-address={address}");
    let operator = Operator::with(
        "secure-metrics",
        &["--secure-metrics", "--metric-tls-min-version=VersionTLS13", "--metrics-prefix=team-a-", &flag],
    )
    .await;
    let stream = operator.handshake_at(address, "http/1.1").await.unwrap();
    let version = stream.get_ref().1.protocol_version();
    assert_eq!(version, Some(rustls::ProtocolVersion::TLSv1_3));
    let request = Request::get("https://localhost/metrics").body(Full::default()).unwrap();
    let (code, body) = Client::http1(stream).await.send(request).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert_eq!(code, StatusCode::OK);
    for line in ["team_a_spark_application_count 0", "team_a_spark_executor_running_count 0"] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
}
