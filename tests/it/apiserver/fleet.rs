//! Proves that an operator that starts in a cluster with many applications changes none of them, and reports the one that
//! cannot be read once.

use crate::apiserver::prelude::*;
use plan::{Driver, Observed, lifecycle};

/// The number of applications: more than the operator lists in one request.
const FLEET: usize = 300;
/// The number of requests that the test sends at once.
const AT_ONCE: usize = 32;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn three_hundred_applications_stay_unchanged_and_a_broken_one_delays_none() {
    let namespace = Namespace::new("fleet").await;
    {
        let mut odd = hopeless("odd");
        odd["spec"]["type"] = json!("Ruby");
        let _relaxed = any_type();
        eventually("the API server accepts any type", async || {
            try_kubectl_with(&odd, &["create", "--namespace", namespace.name, "-f", "-"])
        })
        .await;
    }
    make(&namespace, FLEET).await;
    let before = (versions::<SparkApplication>(&namespace).await, versions::<Pod>(&namespace).await);
    assert_eq!(before.0.len(), FLEET + 1);

    let setup = || Operator::with(&namespace).argument("--enable-ui-service=false");
    let operator = setup().start().await;
    operator.has_looked_at(FLEET + 1).await;
    namespace.apply(&hopeless("new"));
    namespace.reaches("new", "FAILED").await;
    namespace.delete::<SparkApplication>("new").await;

    let after = (versions::<SparkApplication>(&namespace).await, versions::<Pod>(&namespace).await);
    assert!(before == after, "something was written");
    assert!(!operator.log().contains("submission pod made"), "something was run again");
    operator.stop().await;

    // A second operator does not repeat the event.
    let operator = setup().start().await;
    operator.has_looked_at(FLEET + 1).await;
    let events = namespace.operator_events().await;
    let told: Vec<_> = events.iter().filter(|event| event["regarding"]["name"] != "new").collect();
    let [event] = &told[..] else { panic!("{told:#?}") };
    let complaint = "the operator cannot read this object and leaves it alone: spec.type: unknown variant `Ruby`, expected one of `Java`, \
                     `Python`, `Scala`, `R`";
    assert_eq!(event["regarding"]["name"], "odd");
    assert_eq!(
        ["type", "reason", "action", "note"].map(|field| event[field].as_str().unwrap()),
        ["Warning", "InvalidObject", "Read", complaint]
    );

    namespace.merge::<SparkApplication>("odd", &json!({"spec": {"type": "Scala"}}));
    namespace.reaches("odd", "FAILED").await;
}

/// Creates applications in every stable state, as an earlier operator would have left them.
pub(crate) async fn make(namespace: &Namespace, count: usize) {
    let states = ["COMPLETED", "FAILED", "RUNNING", "SUBMITTED", "suspended"];
    // Most applications of a real cluster have ended. Only every tenth gets a state from the whole list, the others are
    // COMPLETED or FAILED.
    let made = stream::iter(0..count).map(|i| async move {
        let state = if i % 10 == 0 { states[i / 10 % states.len()] } else { states[i % 2] };
        make_one(namespace, &format!("app-{i}"), state).await;
    });
    made.buffer_unordered(AT_ONCE).collect::<()>().await;
}

async fn make_one(namespace: &Namespace, name: &str, state: &str) {
    let mut made = application(name);
    made["spec"]["suspend"] = json!(state == "suspended");
    let made = namespace.create::<SparkApplication>(&made).await;
    if state == "suspended" {
        let suspended = json!({"applicationState": {"state": "SUSPENDED"}});
        let status = settled(&made, suspended, Driver::Unseen);
        namespace.patch_status::<SparkApplication>(name, &status).await;
        return;
    }
    let driver = format!("{name}-driver");
    let mut status = json!({
        "applicationState": {"state": state},
        "submissionID": format!("11111111-1111-5111-8111-{:0>12}", name.len()), "submissionAttempts": 1,
        "executionAttempts": 1, "runOrdinal": 1, "observedGeneration": 1, "driverInfo": {"podName": driver},
        "lastSubmissionAttemptTime": "2026-01-01T00:00:00Z",
    });
    let seen = if matches!(state, "COMPLETED" | "FAILED") {
        status["terminationTime"] = json!("2026-01-01T00:01:00Z");
        Driver::Unseen
    } else {
        let labels = json!({
            "spark-role": "driver", "sparkoperator.k8s.io/app-name": name,
            "sparkoperator.k8s.io/launched-by-spark-operator": "true",
            "sparkoperator.k8s.io/submission-id": status["submissionID"],
        });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": driver, "labels": labels, "ownerReferences": owned_by(&made)},
            "spec": {"containers": [{"name": "spark-kubernetes-driver", "image": "none"}]},
        });
        namespace.create::<Pod>(&pod).await;
        if state == "RUNNING" {
            kubelet::runs(namespace, &driver).await;
        }
        let pod = serde_json::from_value(namespace.pod(&driver).await.unwrap()).unwrap();
        Driver::Pod { pod: Box::new(PodSummary::of(&pod)), complete: true }
    };
    let status = settled(&made, status, seen);
    namespace.patch_status::<SparkApplication>(name, &status).await;
}

/// Adds to `status` what the operator itself would add, so that the operator has nothing left to write.
fn settled(made: &Value, status: Value, driver: Driver) -> Value {
    let mut application = made.clone();
    application["status"] = status;
    let application: SparkApplication = serde_json::from_value(application).unwrap();
    let seen = Observed { driver, ..Observed::default() };
    let now = "2026-01-01T00:01:00Z".parse().unwrap();
    json!(lifecycle::next(&application, &seen, now, &Policy::new("k8s://https://127.0.0.1:6443")).status)
}

/// Returns the resource version of each object, by name.
async fn versions<K: Ours>(namespace: &Namespace) -> BTreeMap<String, Value> {
    let objects = namespace.list::<K>().await.into_iter();
    objects
        .map(|object| {
            let meta = &object["metadata"];
            (meta["name"].as_str().unwrap().to_owned(), meta["resourceVersion"].clone())
        })
        .collect()
}

/// Lets the CRD allow any text in `spec.type`, as the CRD of another version might, while the returned value exists.
fn any_type() -> Finally {
    let remove = json!([{
        "op": "remove",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/type/enum",
    }]);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    calls::patch(&format!("{definitions}/sparkapplications.sparkoperator.k8s.io"), &remove);
    Finally::new(|| {
        if let Err(error) = try_kubectl_with(&Value::Null, &["apply", "-f", "manifests/crds"]) {
            eprintln!("the CRDs are not restored: {error}");
        }
    })
}
