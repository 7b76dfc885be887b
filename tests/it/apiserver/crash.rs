//! Does an application run once, whenever the operator is killed?

use super::{
    applications::{application, owned_by},
    eventually,
    kubectl::{kubectl, try_kubectl_with},
    namespace::Namespace,
    operator::{Operator, USER},
    seen,
};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::{Value, json};
use std::path::Path;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_killed_during_a_submission_submits_again_when_nothing_came_of_it() {
    let namespace = Namespace::new("killed-alone").await;
    let operator = Operator::start(&namespace).await;
    namespace.apply(&application("pi"));
    operator.submits().await;
    let orphans = operator.kill();
    // Whatever pod it makes is refused: nobody answers for the webhook.
    eventually("the orphaned spark-submit has ended", async || {
        seen(!orphans.iter().any(|orphan| orphan.is_alive()), namespace.pod("pi-driver").await)
    })
    .await;
    assert_eq!(namespace.pod("pi-driver").await, None);

    let _operator = Operator::start(&namespace).await;
    submitted_once(&namespace).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_killed_during_a_submission_and_back_at_once_has_one_driver() {
    let namespace = Namespace::new("killed-and-back").await;
    let operator = Operator::start(&namespace).await;
    namespace.apply(&application("pi"));
    operator.submits().await;
    let orphans = operator.kill();
    assert_eq!(orphans.len(), 1);

    let operator = Operator::start(&namespace).await;
    submitted_once(&namespace).await;
    // Both have had their chance.
    eventually("no spark-submit runs", async || {
        seen(!orphans[0].is_alive() && operator.spark_submits().is_empty(), "one runs")
    })
    .await;
    submitted_once(&namespace).await;
    assert_eq!(namespace.list::<Service>().await.len(), 1, "the driver's");
    assert_eq!(
        namespace.list::<ConfigMap>().await.len(),
        2,
        "Spark's configuration and the executors' template"
    );
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_killed_before_it_recorded_its_submission_adopts_the_driver() {
    let namespace = Namespace::new("killed-unrecorded").await;
    let operator = Operator::start(&namespace).await;
    let forbidden = NoStatus::begin().await;
    namespace.apply(&application("pi"));
    eventually("the operator cannot write the status", async || {
        seen(operator.log().contains("write of the status failed"), "it has not tried")
    })
    .await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    assert!(operator.kill().is_empty());
    drop(forbidden);

    let operator = Operator::start(&namespace).await;
    submitted_once(&namespace).await;
    assert_eq!(namespace.drivers_ever().await, [driver["metadata"]["uid"].as_str().unwrap()]);
    assert_eq!(operator.log().matches("spark-submit succeeded").count(), 1, "the first operator's");
}

/// Waits until `pi` is submitted, and sees that it was only once.
async fn submitted_once(namespace: &Namespace) -> Value {
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    let status = &submitted["status"];
    for (field, value) in [("executionAttempts", 1), ("submissionAttempts", 1), ("runOrdinal", 1)] {
        assert_eq!(status[field], value, "{field}: {status}");
    }
    let driver = namespace.pod("pi-driver").await.unwrap();
    assert_eq!(namespace.drivers_ever().await, [driver["metadata"]["uid"].as_str().unwrap()]);
    assert_eq!(driver["metadata"]["labels"]["sparkoperator.k8s.io/submission-id"], status["submissionID"]);
    assert_eq!(driver["metadata"]["ownerReferences"], owned_by(&submitted));
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMITTED"]);
    let events = namespace.events_up_to("SparkApplicationSubmitted").await;
    assert_eq!(
        events.iter().map(|event| &event[1]).collect::<Vec<_>>(),
        ["SparkApplicationAdded", "SparkApplicationSubmitted"]
    );
    let files = Path::new("/tmp/spark").join(status["submissionID"].as_str().unwrap());
    assert!(!files.exists(), "{} may hold secrets", files.display());
    submitted
}

/// While this lives, the operator may not write any status.
struct NoStatus;

impl NoStatus {
    async fn begin() -> Self {
        let role: Value =
            serde_json::from_str(&kubectl(&["get", "clusterrole", "spark-operator", "--output=json"]))
                .unwrap();
        let rules = role["rules"].as_array().unwrap();
        let rest: Vec<_> =
            rules.iter().filter(|rule| rule["resources"] != json!(["sparkapplications/status"])).collect();
        assert_eq!(rest.len(), rules.len() - 1);
        kubectl(&[
            "patch",
            "clusterrole",
            "spark-operator",
            "--type=merge",
            "--patch",
            &json!({"rules": rest}).to_string(),
        ]);
        let forbidden = Self;
        let question = ["auth", "can-i", "patch", "sparkapplications/status", "--as", USER];
        eventually("the operator may not write a status", async || {
            match try_kubectl_with(&Value::Null, &question) {
                Ok(answer) => Err(answer),
                Err(_) => Ok(()),
            }
        })
        .await;
        forbidden
    }
}

impl Drop for NoStatus {
    fn drop(&mut self) {
        if let Err(error) = try_kubectl_with(&Value::Null, &["apply", "-f", "manifests/rbac"]) {
            eprintln!("the operator's permissions are not restored: {error}");
        }
    }
}
