//! Do Secret, caBundle and webhook stay in agreement?

use super::{
    kubectl::kubectl,
    namespace::Namespace,
    operator::{NAMESPACE, Operator, WEBHOOK},
};
use crate::program;

const SECRET: &str = "spark-operator-webhook-certs";

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn every_operator_uses_the_certificates_of_the_first() {
    let namespace = Namespace::new("same-certificates").await;
    Operator::start(&namespace).await.stop().await;
    let (secret, bundle) = (secret(), bundle());
    assert_eq!(ca(), bundle);
    Operator::start(&namespace).await.stop().await;
    assert_eq!((self::secret(), self::bundle()), (secret, bundle));
}

// That an operator is started means here that the API server trusts its webhook.

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_ca_bundle_that_was_removed_is_put_back() {
    let namespace = Namespace::new("removed-bundle").await;
    Operator::start(&namespace).await.stop().await;
    let (secret, bundle) = (secret(), bundle());
    let remove = r#"[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]"#;
    kubectl(&["patch", "mutatingwebhookconfiguration", WEBHOOK, "--type=json", "--patch", remove]);
    assert_eq!(self::bundle(), "");
    let _operator = Operator::start(&namespace).await;
    assert_eq!((self::secret(), self::bundle()), (secret, bundle));
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn certificates_that_were_deleted_are_made_anew() {
    let namespace = Namespace::new("deleted-certificates").await;
    Operator::start(&namespace).await.stop().await;
    let old = bundle();
    kubectl(&["delete", "secret", SECRET, "--namespace", NAMESPACE]);
    let _operator = Operator::start(&namespace).await;
    assert_ne!(bundle(), old);
    assert_eq!(ca(), bundle());
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn certificates_that_were_damaged_are_made_anew() {
    let namespace = Namespace::new("damaged-certificates").await;
    Operator::start(&namespace).await.stop().await;
    let old = bundle();
    let damage = r#"{"data": {"server-cert.pem": "bm9uc2Vuc2U="}}"#;
    kubectl(&["patch", "secret", SECRET, "--namespace", NAMESPACE, "--type=merge", "--patch", damage]);
    let _operator = Operator::start(&namespace).await;
    assert_ne!(bundle(), old);
    assert_eq!(ca(), bundle());
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn certificates_that_were_made_by_hand_are_used() {
    let namespace = Namespace::new("own-certificates").await;
    let pki = namespace.folder.to_str().unwrap();
    let service = "spark-operator-webhook-svc.spark-operator.svc";
    let arguments =
        ["certs", "generate", "--directory", pki, "--dns-name", service, "--dns-name", "localhost"];
    assert!(program::run(env!("CARGO_BIN_EXE_spark-operator"), &arguments, "").status.success());
    kubectl(&["delete", "secret", SECRET, "--namespace", NAMESPACE, "--ignore-not-found"]);
    let files = format!("--from-file={pki}");
    kubectl(&["create", "secret", "generic", SECRET, &files, "--namespace", NAMESPACE]);
    let made = secret();
    let _operator = Operator::start(&namespace).await;
    assert_eq!((secret(), ca()), (made, bundle()));
}

fn secret() -> String {
    kubectl(&["get", "secret", SECRET, "--namespace", NAMESPACE, "--output=jsonpath={.data}"])
}

/// The CA in the Secret, as caBundle has it.
fn ca() -> String {
    kubectl(&["get", "secret", SECRET, "--namespace", NAMESPACE, r"--output=jsonpath={.data.ca-cert\.pem}"])
}

fn bundle() -> String {
    let path = "--output=jsonpath={.webhooks[0].clientConfig.caBundle}";
    kubectl(&["get", "mutatingwebhookconfiguration", WEBHOOK, path])
}
