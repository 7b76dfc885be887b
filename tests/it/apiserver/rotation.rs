//! Proves that certificates are replaced without an effect on pods, and that an admin can see and trigger the
//! replacement.

use super::{
    certificates::{PATH, bundle, ca, secret},
    installation::is_ready,
};
use crate::apiserver::prelude::*;

/// The waits between the steps of a CA's renewal: 2 s instead of an hour.
const WAITS: [&str; 2] = ["--webhook-ca-settle-time=2s", "--webhook-ca-overlap=2s"];

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn pods_are_admitted_while_leaf_and_ca_are_replaced() {
    let namespace = Namespace::new("rotation").await;
    let operator = hasty(&namespace).start().await;
    let arrivals = Arrivals::begin(namespace.name);
    let (first_secret, first_ca) = (secret(), bundle());

    let said = certs(&["rotate"]);
    assert!(said.contains("new leaf, valid until") && said.contains("show it to new connections"), "{said}");
    assert_ne!(secret(), first_secret);
    assert_eq!(bundle(), first_ca, "a new leaf needs no new CA");

    let said = certs(&["rotate", "--ca"]);
    assert!(said.contains("new CA, valid until") && said.contains("drop the old one"), "{said}");
    let said = certs(&["rotate"]);
    assert!(said.contains("a new CA is being rolled out already"), "{said}");
    eventually("the old CA is not trusted any more", async || {
        let now = bundle();
        seen(now == ca() && cas(&now) == 1 && now != first_ca, cas(&now))
    })
    .await;

    // Deleted certificates are replaced in the same way.
    let second_ca = bundle();
    calls::delete(PATH);
    eventually("the deleted CA is not trusted any more", async || {
        let now = bundle();
        seen(cas(&now) == 1 && now != second_ca, cas(&now))
    })
    .await;
    let count = arrivals.end();
    namespace.clear::<Pod>().await;
    assert_eq!(count.failures, Vec::<String>::new());
    assert!(count.pods > 100 && count.handshakes > 100, "{count:?}");
    is_ready(&operator).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn two_operators_share_the_secret_without_fighting() {
    let namespace = Namespace::new("two-operators").await;
    calls::delete(PATH);
    let second = hasty(&namespace).beside().spawn();
    let first = hasty(&namespace).start().await;
    is_ready(&second).await;
    let (made, trusted) = (version("secret"), version("mutatingwebhookconfiguration"));

    let arrivals = Arrivals::begin(namespace.name);
    let first_ca = bundle();
    certs(&["rotate", "--ca"]);
    eventually("the old CA is not trusted any more", async || {
        let now = bundle();
        seen(now == ca() && cas(&now) == 1 && now != first_ca, cas(&now))
    })
    .await;
    is_ready(&first).await;
    is_ready(&second).await;
    let count = arrivals.end();
    namespace.clear::<Pod>().await;
    assert_eq!(count.failures, Vec::<String>::new());
    // The Secret is written once for the new CA with its leaf, and once when the old CA is removed, by either operator;
    // the caBundle is written once with both CAs, and once with one again.
    let changes = |log: &str, what: &str| log.lines().filter(|line| line.contains(what)).count();
    let log = first.log() + &second.log();
    assert_eq!(changes(&log, "new leaf made") + changes(&log, "the old CA is not needed"), 2, "{log}");
    assert_ne!((made, trusted), (version("secret"), version("mutatingwebhookconfiguration")));
    let (made, trusted) = (version("secret"), version("mutatingwebhookconfiguration"));
    // If the operators did not agree, each of them would write again at every check, and every start includes a check.
    drop(second);
    let second = hasty(&namespace).beside().spawn();
    is_ready(&second).await;
    assert_eq!((made, trusted), (version("secret"), version("mutatingwebhookconfiguration")));
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn certs_show_reports_trusted_cas_mismatches_and_the_service_name() {
    let namespace = Namespace::new("certs-show").await;
    let operator = Operator::start(&namespace).await;
    let said = certs(&["show"]);
    let rows = |first: &str| said.lines().filter(|line| line.starts_with(first)).count();
    assert_eq!((rows("CA "), rows("leaf "), rows("mutate--v1-pod")), (1, 1, 1), "{said}");
    assert!(said.contains("spark-operator-webhook-svc.spark-operator.svc,localhost"), "{said}");
    assert!(said.ends_with("All agree.\n"), "{said}");
    operator.stop().await;

    // The next leaf has the new name of the Service.
    let before = bundle();
    let operator = Operator::with(&namespace).argument("--webhook-svc-name=renamed").start().await;
    assert!(certs(&["show"]).contains("renamed.spark-operator.svc,localhost"), "{}", certs(&["show"]));
    assert_eq!(bundle(), before, "the CA is the same");
    operator.stop().await;

    let remove = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    calls::patch(&webhooks("mutatingwebhookconfiguration", WEBHOOK), &remove);
    let output = run(&["show"]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint.contains("its caBundle does not trust the leaf"), "{complaint}");

    calls::delete(PATH);
    for command in ["show", "rotate"] {
        let output = run(&[command]);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(complaint.contains("Secret spark-operator/spark-operator-webhook-certs does not exist"));
        assert!(complaint.contains("certificates from files (--webhook-cert-dir) are in no Secret"));
    }
}

/// Returns the settings of an operator without long waits between the steps of a renewal.
pub(crate) fn hasty(namespace: &Namespace) -> Setup<'_> {
    WAITS.iter().fold(Operator::with(namespace), |setup, argument| setup.argument(argument))
}

/// Returns the number of CAs in a caBundle.
pub(super) fn cas(bundle: &str) -> usize {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(json!(bundle)).unwrap();
    String::from_utf8(bytes.0).unwrap().matches("BEGIN CERTIFICATE").count()
}

/// Returns the resourceVersion of the Secret, or of the webhook configuration.
fn version(kind: &str) -> String {
    let path = if kind == "secret" { PATH.to_owned() } else { webhooks(kind, WEBHOOK) };
    calls::get(&path).expect(kind)["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Returns what `spark-operator certs` prints; panics if it fails.
pub(crate) fn certs(arguments: &[&str]) -> String {
    let said = program::said(run(arguments));
    said.unwrap_or_else(|complaint| panic!("certs {}: {complaint}", arguments.join(" ")))
}

fn run(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_spark-operator");
    program::run(program, &[&["certs"], arguments].concat(), "")
}
