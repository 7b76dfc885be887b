//! Proves that failures are retried as often and as late as the restart policy says.

use super::{Namespace, application, condition, ended, running, runs, wait_for};
use crate::apiserver::{kubelet, operator::Operator};
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_run_that_fails_is_tried_again_until_it_succeeds() {
    let namespace = Namespace::new("retried").await;
    let _operator = Operator::start(&namespace).await;
    let policy = json!({"type": "OnFailure", "onFailureRetries": 2, "onFailureRetryInterval": 1});
    namespace.apply(&application("pi", &json!({"restartPolicy": policy})));
    ended(&namespace, "pi", 1, 3).await;
    ended(&namespace, "pi", 2, 1).await;
    running(&namespace, "pi", 3).await;
    let retried = namespace.application("pi").await;
    assert_eq!(condition(&retried, "Running")[0], "True");
    assert_eq!(condition(&retried, "Failed")[0], "False");
    kubelet::ends(&namespace, "pi-driver", 0).await;
    wait_for(&namespace, "pi", "Succeeded");

    let completed = namespace.application("pi").await;
    let status = &completed["status"];
    assert_eq!(status["applicationState"], json!({"state": "COMPLETED"}));
    assert_eq!([&status["executionAttempts"], &status["submissionAttempts"]], [3, 3]);
    assert_eq!(
        runs(&completed),
        [
            json!([1, "Created", "FAILED", "Error", 3]),
            json!([2, "FailureRetry", "FAILED", "Error", 1]),
            json!([3, "FailureRetry", "COMPLETED", "Completed", 0]),
        ]
    );
    let ids: BTreeSet<_> =
        status["runs"].as_array().unwrap().iter().map(|run| run["submissionID"].as_str()).collect();
    assert_eq!(ids.len(), 3, "each run has its own id");
    assert_eq!(status["runs"][2]["submissionID"], status["submissionID"]);
    assert_eq!(namespace.drivers_ever().await.len(), 3);
    assert_eq!(
        namespace.states_ever("pi").await,
        [
            "",
            "SUBMITTED",
            "RUNNING",
            "FAILING",
            "PENDING_RERUN",
            "SUBMITTED",
            "RUNNING",
            "FAILING",
            "PENDING_RERUN",
            "SUBMITTED",
            "RUNNING",
            "SUCCEEDING",
            "COMPLETED",
        ]
    );
}
