//! Proves that the status of an application reports whatever happens to its driver.

use super::{Namespace, application, condition, submitted};
use crate::apiserver::{eventually, kubelet, operator::Operator, seen};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn what_a_driver_waits_for_and_that_it_was_deleted_stands_in_the_status() {
    let namespace = Namespace::new("waiting").await;
    let _operator = Operator::start(&namespace).await;
    namespace.apply(&application("pi", &json!({})));
    submitted(&namespace, "pi", 1).await;
    for name in ["unassigned", "unmounted"] {
        namespace.apply(&application(name, &json!({})));
        submitted(&namespace, name, 1).await;
        kubelet::cannot_mount(&namespace, &format!("{name}-driver")).await;
    }
    let long_ago =
        json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    kubelet::says(&namespace, "unmounted-driver", &json!({"conditions": long_ago})).await;

    let unscheduled = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient memory.",
    }]});
    kubelet::says(&namespace, "pi-driver", &unscheduled).await;
    waits(&namespace, "pi", "Unschedulable: 0/3 nodes are available: 3 Insufficient memory.").await;
    let unpulled = json!({
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{
            "name": "spark-kubernetes-driver",
            "image": "",
            "imageID": "",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"none\""}},
        }],
    });
    kubelet::says(&namespace, "pi-driver", &unpulled).await;
    waits(&namespace, "pi", "ImagePullBackOff: Back-off pulling image \"none\"").await;
    let waiting = namespace.application("pi").await;
    assert_eq!(condition(&waiting, "Running")[..2], ["False", "ImagePullBackOff"]);
    kubelet::runs(&namespace, "pi-driver").await;
    let runs = namespace.reaches("pi", "RUNNING").await;
    assert_eq!(runs["status"]["applicationState"], json!({"state": "RUNNING"}));

    waits(&namespace, "unmounted", &format!("FailedMount: {}", kubelet::CANNOT_MOUNT)).await;
    let unassigned = namespace.application("unassigned").await;
    let state = &unassigned["status"]["applicationState"];
    assert_eq!(*state, json!({"state": "SUBMITTED"}), "nobody mounts anything for a pod without a node");
    let pending = |event: &[String; 4]| event[1] == "SparkDriverPending";
    // An event is written after the status that it describes.
    eventually("one is told for each reason", async || {
        let told = namespace.events().await.into_iter().filter(pending).count();
        seen(told == 3, told)
    })
    .await;

    // Somebody deletes the driver that runs.
    namespace.delete::<Pod>("pi-driver").await;
    let failed = namespace.reaches("pi", "FAILED").await;
    assert_eq!(failed["status"]["applicationState"]["errorMessage"], "driver pod not found");
    assert!(failed["status"]["terminationTime"].is_string());
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMITTED", "RUNNING", "FAILING", "FAILED"]);
    let events = namespace.events_up_to("SparkApplicationFailed").await;
    assert!(events.iter().any(|event| event[1] == "SparkDriverNotFound"), "{events:?}");
    assert_eq!(namespace.pods_ever_of("pi", "driver").await.len(), 1);
}

/// Waits until the application is SUBMITTED with this reason for not running.
async fn waits(namespace: &Namespace, name: &str, why: &str) -> Value {
    namespace
        .becomes(name, why, |application| {
            application["status"]["applicationState"] == json!({"state": "SUBMITTED", "errorMessage": why})
        })
        .await
}
