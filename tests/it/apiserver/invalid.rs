//! Proves that an object that cannot be read is reported once, and does not affect others.

use super::{
    applications::hopeless, calls, eventually, kubectl::try_kubectl_with, namespace::Namespace,
    operator::Operator, seen,
};
use api::SparkApplication;
use serde_json::{Value, json};

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_object_that_cannot_be_read_is_named_and_stops_no_other() {
    let namespace = Namespace::new("invalid").await;
    let mut odd = hopeless("odd");
    odd["spec"]["type"] = json!("Ruby");
    {
        let _relaxed = AnyType::begin();
        eventually("the API server has heard of it", async || {
            try_kubectl_with(&odd, &["create", "--namespace", namespace.name, "-f", "-"])
        })
        .await;
    }
    let stored = namespace.application("odd").await;

    let operator = Operator::start(&namespace).await;
    namespace.apply(&hopeless("even"));
    namespace.reaches("even", "FAILED").await;
    let complaint = "the operator cannot read this object and leaves it alone: spec.type: unknown variant `Ruby`, expected one of `Java`, \
                     `Python`, `Scala`, `R`";
    told_once(&namespace, complaint).await;
    // A second operator does not repeat the event.
    operator.stop().await;
    let _operator = Operator::start(&namespace).await;
    namespace.apply(&hopeless("later"));
    namespace.reaches("later", "FAILED").await;
    told_once(&namespace, complaint).await;
    assert_eq!(namespace.application("odd").await, stored);

    namespace.merge::<SparkApplication>("odd", &json!({"spec": {"type": "Scala"}}));
    namespace.reaches("odd", "FAILED").await;
}

async fn told_once(namespace: &Namespace, complaint: &str) {
    let told = eventually("an event tells what is wrong", async || {
        let events = namespace.told().await;
        let told: Vec<_> =
            events.iter().filter(|event| event["regarding"]["name"] == "odd").cloned().collect();
        seen(!told.is_empty(), &events).map(|()| told)
    })
    .await;
    let [event] = &told[..] else { panic!("{told:#?}") };
    assert_eq!(
        ["type", "reason", "action", "note"].map(|field| event[field].as_str().unwrap()),
        ["Warning", "InvalidObject", "Read", complaint]
    );
}

/// While this value exists, the CRD allows any text in `spec.type`, as the CRD of another version might.
pub(super) struct AnyType;

impl AnyType {
    pub(super) fn begin() -> Self {
        let remove = json!([{
            "op": "remove",
            "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/type/enum",
        }]);
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        calls::patch(&format!("{definitions}/sparkapplications.sparkoperator.k8s.io"), &remove);
        Self
    }
}

impl Drop for AnyType {
    fn drop(&mut self) {
        if let Err(error) = try_kubectl_with(&Value::Null, &["apply", "-f", "manifests/crds"]) {
            eprintln!("the definitions are not restored: {error}");
        }
    }
}
