//! Proves that a driver has a PodDisruptionBudget until its run ends, if that is enabled, and runs without one if the
//! budget cannot be created.

use super::{application, edit_spec, reported, running};
use crate::apiserver::prelude::*;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

/// Needs an operator with --enable-driver-pdb.
pub(super) async fn a_driver_has_a_pod_disruption_budget_until_its_run_ends(namespace: &Namespace) {
    namespace.apply(&application("pi", &json!({"driverPodDisruptionBudget": true})));
    namespace.apply(&application("without", &json!({})));
    running(namespace, "without", 1).await;
    let running = running(namespace, "pi", 1).await;
    let budget = namespace.there::<PodDisruptionBudget>("pi-driver").await;
    assert_eq!(budget["metadata"]["ownerReferences"], owned_by(&running));
    assert_eq!(budget["spec"]["minAvailable"], 1);
    let selected = json!({"sparkoperator.k8s.io/app-name": "pi", "spark-role": "driver"});
    assert_eq!(budget["spec"]["selector"]["matchLabels"], selected);
    assert_eq!(budget["metadata"]["labels"]["sparkoperator.k8s.io/launched-by-spark-operator"], "true");
    assert_eq!(namespace.list::<PodDisruptionBudget>().await.len(), 1);

    edit_spec(namespace, "pi", &json!({"suspend": true}));
    namespace.reaches("pi", "SUSPENDED").await;
    assert_eq!(namespace.list::<PodDisruptionBudget>().await, Vec::<Value>::new());
    edit_spec(namespace, "pi", &json!({"suspend": false}));
    super::running(namespace, "pi", 2).await;
    let second = namespace.there::<PodDisruptionBudget>("pi-driver").await;
    assert_ne!(second["metadata"]["uid"], budget["metadata"]["uid"]);
    kubelet::ends(namespace, "pi-driver", 0).await;
    namespace.reaches("pi", "COMPLETED").await;
    namespace.is_gone::<PodDisruptionBudget>("pi-driver").await;
}

/// Needs an operator with --enable-driver-pdb.
pub(super) async fn a_budget_that_cannot_be_created_blocks_no_application(namespace: &Namespace) {
    let others = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "pi-driver"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    namespace.apply(&others);
    let budget = namespace.get::<PodDisruptionBudget>("pi-driver").await;
    namespace.apply(&application("pi", &json!({"driverPodDisruptionBudget": true})));
    running(namespace, "pi", 1).await;
    let note = "PodDisruptionBudget pi-driver already exists and is not this application's: delete it; the operator retries it, \
                and the application runs on";
    reported(namespace, note).await;
    kubelet::ends(namespace, "pi-driver", 0).await;
    namespace.reaches("pi", "COMPLETED").await;
    let after = namespace.get::<PodDisruptionBudget>("pi-driver").await;
    assert_eq!(after.unwrap()["metadata"]["uid"], budget.unwrap()["metadata"]["uid"]);
}
