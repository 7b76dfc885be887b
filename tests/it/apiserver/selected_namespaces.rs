//! Proves that applications run, and their pods are customized, in the selected namespaces and in no others.

use super::{
    kubectl::kubectl_reads,
    namespace::{beside, review_pods_only},
};
use crate::apiserver::prelude::*;

const RBAC: &str = "manifests/rbac/namespaces.yaml";
const DIFFERENCES: &str = "spark_operator_webhook_registration_differences";

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn applications_run_only_in_listed_and_in_labelled_namespaces() {
    let namespace = Namespace::new("chosen").await;
    let (labelled, elsewhere) =
        (namespace.beside("chosen-by-label").await, namespace.beside("not-chosen").await);
    let label = |team: Value| {
        calls::merge("/api/v1/namespaces/chosen-by-label", &json!({"metadata": {"labels": {"team": team}}}));
    };
    label(Value::Null);
    let flags = ["--namespaces=chosen", "--namespace-selector=team in (data, science)"];
    let _installed = installed(&flags);
    let setup = flags.iter().fold(Operator::with(&namespace), |setup, flag| setup.argument(flag));
    let operator = setup.start().await;
    assert_eq!(operator.metric(DIFFERENCES).await, Ok(0.0));

    // The API server must have received the CA of the webhook. `start` checks this only in `default`, where this
    // webhook is not called.
    let mut wrong = application("wrong");
    wrong["spec"]["driver"]["memory"] = json!("1gg");
    let refuses = async |namespace: &str| {
        eventually(&format!("the webhook is called in {namespace}"), async || {
            let said = calls::tried_in(namespace, &wrong).err().unwrap_or_default();
            seen(said.contains("spec.driver.memory: `1gg`"), said)
        })
        .await;
    };
    refuses(namespace.name).await;
    for place in [&labelled, &elsewhere] {
        calls::tried_in(place.name, &wrong).unwrap();
        place.apply(&application("early"));
    }
    namespace.apply(&application("listed"));
    namespace.reaches("listed", "SUBMITTED").await;
    for place in [&labelled, &elsewhere] {
        assert_eq!(place.application("early").await["status"], Value::Null);
    }

    label(json!("data"));
    labelled.reaches("early", "SUBMITTED").await;
    refuses(labelled.name).await;
    labelled.apply(&application("late"));
    labelled.reaches("late", "SUBMITTED").await;

    label(json!("web"));
    eventually("the log says that the label was removed", async || {
        let log = operator.log();
        let told = log.matches("namespace has changed its labels").count();
        seen(told == 2, log)
    })
    .await;
    labelled.apply(&application("after"));
    namespace.apply(&application("another"));
    namespace.reaches("another", "SUBMITTED").await;
    for (place, name) in [(&labelled, "after"), (&elsewhere, "early")] {
        assert_eq!(place.application(name).await["status"], Value::Null);
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_webhook_for_other_namespaces_is_reported_and_not_changed() {
    let namespace = Namespace::new("chosen-otherwise").await;
    let _installed = installed(&["--namespaces=chosen-otherwise"]);
    let operator = Operator::with(&namespace).argument("--namespaces=chosen-otherwise").start().await;
    let differ = async |number: f64| operator.measures(DIFFERENCES, |found| found == number).await;
    differ(0.0).await;
    let everywhere = json!([
        {"op": "remove", "path": "/webhooks/0/namespaceSelector"},
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"},
    ]);
    let mutating = webhooks("mutatingwebhookconfiguration", WEBHOOK);
    calls::patch(&mutating, &everywhere);
    differ(1.0).await;
    let told = "MutatingWebhookConfiguration/spark-operator-webhook: mutate--v1-pod.sparkoperator.k8s.io: namespaceSelector is null, not ";
    operator.has_logged(told).await;
    calls::delete(&webhooks("validatingwebhookconfiguration", WEBHOOK));
    calls::patch(&mutating, &json!([{"op": "remove", "path": "/webhooks/1"}]));
    differ(2.0).await;
    assert_eq!(operator.log().matches(told).count(), 1);
    let left = calls::get(&mutating).expect(WEBHOOK);
    assert_eq!(left["webhooks"][0]["namespaceSelector"], json!({}));
    install(&["--namespaces=chosen-otherwise"]);
    differ(0.0).await;
}

/// Installs the webhook configurations as the binary prints them with these flags, and the permission to read the labels
/// of namespaces. Dropping the returned value restores the usual configurations.
fn installed(flags: &[&str]) -> Finally {
    install(flags);
    calls::apply_manifests(RBAC);
    Finally::new(|| {
        install(&[]);
        review_pods_only();
        calls::delete_manifests(RBAC);
    })
}

fn install(flags: &[&str]) {
    let arguments = [&["manifests", "webhook"], flags].concat();
    let printed = program::printed(run(env!("CARGO_BIN_EXE_spark-operator"), &arguments, ""));
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        calls::delete(&webhooks(kind, WEBHOOK));
    }
    kubectl_reads(&printed, &["apply", "-f", "-"]);
    beside("mutatingwebhookconfiguration", "/mutate");
    beside("validatingwebhookconfiguration", "/validate");
}
