//! Proves that pods are deleted with their application, but not those of the next application of the same name.
//!
//! This cluster has no garbage collector: `node::lifecycle` tests foreground and background deletion.

use super::{application, budgets, complaints, executors, running};
use crate::apiserver::{namespace::DRIVER_PDB_RBAC, prelude::*};

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn pods_and_budgets_are_deleted_only_with_their_own_application() {
    let namespace = Namespace::new("deleted").await;
    let _granted = granted(DRIVER_PDB_RBAC);
    let operator = Operator::with(&namespace).argument("--enable-driver-pdb").start().await;
    budgets::a_driver_has_a_pod_disruption_budget_until_its_run_ends(&namespace.beside("budget").await).await;
    assert_eq!(complaints(&operator.log()), Vec::<&str>::new());
    the_next_application_of_the_same_name_has_its_own_pods(&namespace).await;
    let without = namespace.beside("no-budget").await;
    budgets::a_budget_that_cannot_be_created_blocks_no_application(&without).await;
    let early = namespace.beside("early").await;
    executors::an_operator_deletes_no_pod_before_it_has_listed_applications(&early, operator).await;
}

async fn the_next_application_of_the_same_name_has_its_own_pods(namespace: &Namespace) {
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
    let has_own = |pi: &Value| pi["status"]["executorState"] == json!({&own: "RUNNING"});
    namespace.until::<SparkApplication>("pi", "has its own executor", has_own).await;
    assert_eq!(namespace.states_ever("pi").await.iter().filter(|state| state.contains("FAIL")).count(), 0);
}

/// Deletes an application as `kubectl delete --cascade=orphan` does, and plays the garbage collector. Needs an operator
/// with --protect-driver-outcome.
pub(super) async fn orphan_deletion_keeps_the_pods(namespace: &Namespace, operator: &Operator) {
    namespace.apply(&application("pi", &json!({})));
    running(namespace, "pi", 1).await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    let executor = spark::make_executor(namespace, &driver, 1).await;
    kubelet::runs(namespace, &executor).await;
    namespace.events_up_to("SparkExecutorRunning").await;
    namespace.api::<SparkApplication>().delete("pi", &DeleteParams::orphan()).await.unwrap();
    let is_free = |driver: &Value| driver.is_object() && driver["metadata"]["finalizers"].is_null();
    namespace.until::<Pod>("pi-driver", "has no finalizer", is_free).await;
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
