//! Proves that the deletion of an application in any state leaves nothing behind.
//!
//! There is no garbage collector in this cluster: an object that the operator does not delete itself must have an
//! owner.

use super::{application, budgets, complaints, executors, running, submitted};
use crate::apiserver::{namespace::DRIVER_PDB_RBAC, prelude::*};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

/// The name of each application, its state, and how its dependents are deleted.
const STATES: [(&str, &str, &str); 8] = [
    ("submitted", "SUBMITTED", "background"),
    ("running", "RUNNING", "background"),
    ("waited-for", "RUNNING", "foreground"),
    ("failing", "FAILING", "foreground"),
    ("failed", "FAILED", "background"),
    ("completed", "COMPLETED", "background"),
    ("suspended", "SUSPENDED", "background"),
    ("refused", "FAILED", "background"),
];

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn pods_and_budgets_go_with_their_application_and_those_of_others_stay() {
    let namespace = Namespace::new("deleted").await;
    let _granted = granted(DRIVER_PDB_RBAC);
    let operator = Operator::with(&namespace).argument("--enable-driver-pdb").start().await;
    budgets::a_driver_has_a_budget_while_it_lives(&namespace.beside("budget").await).await;
    deletion_in_the_background_and_in_the_foreground_leaves_nothing(&namespace).await;
    assert_eq!(complaints(&operator.log()), Vec::<&str>::new());

    let without = namespace.beside("no-budget").await;
    budgets::a_budget_that_cannot_be_made_keeps_nobody_from_running(&without).await;
    an_application_of_the_same_name_is_another_one(&namespace.beside("successor").await).await;
    let early = namespace.beside("early").await;
    executors::an_operator_that_knows_no_application_yet_touches_no_pod(&early, operator).await;
}

async fn deletion_in_the_background_and_in_the_foreground_leaves_nothing(namespace: &Namespace) {
    for (name, ..) in STATES {
        let spec = match name {
            "failing" => {
                json!({"restartPolicy": {"type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 3600}})
            }
            "suspended" => json!({"suspend": true}),
            "refused" => json!({"mode": "client"}),
            _ => json!({"driverPodDisruptionBudget": true}),
        };
        namespace.apply(&application(name, &spec));
    }
    for (name, exit_code) in [
        ("submitted", None),
        ("running", None),
        ("waited-for", None),
        ("failing", Some(1)),
        ("failed", Some(1)),
        ("completed", Some(0)),
    ] {
        let driver = format!("{name}-driver");
        submitted(namespace, name, 1).await;
        let pod = namespace.pod(&driver).await.unwrap();
        // The executor stays Pending and may outlive its driver.
        spark::make_executor(namespace, &pod, 1).await;
        if name != "submitted" {
            running(namespace, name, 1).await;
        }
        if let Some(exit_code) = exit_code {
            kubelet::ends(namespace, &driver, exit_code).await;
        }
    }
    let mut uids = BTreeMap::new();
    for (name, state, _) in STATES {
        let application = namespace.reaches(name, state).await;
        uids.insert(application["metadata"]["uid"].as_str().unwrap().to_owned(), name);
    }
    for (name, _, cascade) in STATES {
        let how =
            if cascade == "foreground" { DeleteParams::foreground() } else { DeleteParams::background() };
        namespace.api::<SparkApplication>().delete(name, &how).await.unwrap();
    }
    eventually("their pods are gone", async || {
        let pods = namespace.list::<Pod>().await;
        seen(pods.is_empty(), pods)
    })
    .await;

    let beside = [
        namespace.list::<ConfigMap>().await,
        namespace.list::<Service>().await,
        namespace.list::<PodDisruptionBudget>().await,
    ];
    let all = beside.concat();
    for object in &all {
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let is_ours = |owner: &Value| uids.contains_key(owner["uid"].as_str().unwrap());
        assert!(
            !owners.is_empty() && owners.iter().all(is_ours),
            "nobody will delete {}",
            object["metadata"]
        );
    }
    assert!(!all.is_empty());
    // The garbage collector would do this when all dependents are gone.
    for (name, ..) in STATES.iter().filter(|(.., cascade)| *cascade == "foreground") {
        super::edit(namespace, name, &json!({"metadata": {"finalizers": null}}));
    }
}

async fn an_application_of_the_same_name_is_another_one(namespace: &Namespace) {
    namespace.apply(&application("pi", &json!({})));
    running(namespace, "pi", 1).await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    let executor = spark::make_executor(namespace, &driver, 1).await;
    namespace.delete::<SparkApplication>("pi").await;
    namespace.apply(&application("pi", &json!({})));
    // The test does not wait until the pods of the first application are gone; the second application does.
    running(namespace, "pi", 1).await;
    let second = namespace.pod("pi-driver").await.unwrap();
    assert_ne!(second["metadata"]["uid"], driver["metadata"]["uid"]);
    assert_eq!(namespace.pod(&executor).await, None);
    let own = spark::make_executor(namespace, &second, 1).await;
    kubelet::runs(namespace, &own).await;
    namespace
        .becomes("pi", "its executor is known", |application| {
            application["status"]["executorState"] == json!({&own: "RUNNING"})
        })
        .await;
    assert_eq!(namespace.states_ever("pi").await.iter().filter(|state| state.contains("FAIL")).count(), 0);
}

/// Does what `kubectl delete --cascade=orphan` does, and the work of the garbage collector. Needs an operator with
/// --protect-driver-outcome.
pub(super) async fn who_wants_to_keep_the_pods_does(namespace: &Namespace, operator: &Operator) {
    namespace.apply(&application("pi", &json!({})));
    running(namespace, "pi", 1).await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    let executor = spark::make_executor(namespace, &driver, 1).await;
    kubelet::runs(namespace, &executor).await;
    namespace.events_up_to("SparkExecutorRunning").await;
    namespace.api::<SparkApplication>().delete("pi", &DeleteParams::orphan()).await.unwrap();
    let is_free = |driver: &Value| driver.is_object() && driver["metadata"]["finalizers"].is_null();
    namespace.until::<Pod>("pi-driver", "is let go", is_free).await;
    namespace.merge::<Pod>("pi-driver", &json!({"metadata": {"ownerReferences": null}}));
    super::edit(namespace, "pi", &json!({"metadata": {"finalizers": null}}));
    // Once another application runs, the operator has also reconciled the deletion.
    namespace.apply(&application("other", &json!({})));
    running(namespace, "other", 1).await;
    for pod in ["pi-driver", &executor] {
        let pod = namespace.pod(pod).await.unwrap();
        assert_eq!(pod["metadata"]["deletionTimestamp"], Value::Null);
    }
    assert_eq!(complaints(&operator.log()), Vec::<&str>::new());
    super::edit_spec(namespace, "other", &json!({"suspend": true}));
    namespace.reaches("other", "SUSPENDED").await;
}
