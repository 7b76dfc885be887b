//! Proves that failures are retried as often and as late as the restart policy says.

use super::{Namespace, application, condition, ended, running, runs, wait_for};
use crate::apiserver::{kubelet, operator::Operator};
use serde_json::{Value, json};
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

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn retries_wait_for_their_interval_and_come_to_an_end() {
    let namespace = Namespace::new("patient").await;
    let _operator = Operator::start(&namespace).await;
    let policy = |interval| json!({"restartPolicy": {"type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": interval}});
    namespace.apply(&application("patient", &policy(3600)));
    namespace.apply(&application("hasty", &policy(1)));
    ended(&namespace, "patient", 1, 1).await;
    ended(&namespace, "hasty", 1, 1).await;
    namespace.reaches("patient", "FAILING").await;
    ended(&namespace, "hasty", 2, 1).await;
    wait_for(&namespace, "hasty", "Failed");
    let failed = namespace.application("hasty").await;
    assert_eq!(failed["status"]["executionAttempts"], 2);
    let why = "driver container failed with ExitCode: 1, Reason: Error";
    assert_eq!(condition(&failed, "Failed"), ["True", "Error", why]);
    assert_eq!(
        runs(&failed),
        [json!([1, "Created", "FAILED", "Error", 1]), json!([2, "FailureRetry", "FAILED", "Error", 1])]
    );
    let waiting = namespace.application("patient").await;
    assert_eq!(waiting["status"]["applicationState"], json!({"state": "FAILING", "errorMessage": why}));
    assert_eq!(waiting["status"]["runOrdinal"], 1);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn what_restarts_always_does_so_whatever_its_end() {
    let namespace = Namespace::new("always").await;
    let _operator = Operator::start(&namespace).await;
    let policy = json!({"type": "Always", "onFailureRetryInterval": 1});
    namespace.apply(&application("pi", &json!({"restartPolicy": policy})));
    ended(&namespace, "pi", 1, 0).await;
    ended(&namespace, "pi", 2, 1).await;
    let third = running(&namespace, "pi", 3).await;
    assert_eq!(
        runs(&third),
        [
            json!([1, "Created", "COMPLETED", "Completed", 0]),
            json!([2, "RestartAlways", "FAILED", "Error", 1]),
            json!([3, "FailureRetry", null, null, null]),
        ]
    );
    assert_eq!(third["status"]["terminationTime"], Value::Null);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_that_fails_is_tried_again_until_it_succeeds() {
    let namespace = Namespace::new("resubmitted").await;
    let _operator = Operator::start(&namespace).await;
    let foreign = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pi-driver"},
        "spec": {"containers": [{"name": "web", "image": "none"}]},
    });
    namespace.apply(&foreign);
    let policy =
        json!({"type": "OnFailure", "onSubmissionFailureRetries": 9, "onSubmissionFailureRetryInterval": 1});
    namespace.apply(&application("pi", &json!({"restartPolicy": policy})));
    let why = "pod pi-driver already exists and has no controller: delete it or set spec.driver.podName to another name";
    namespace
        .becomes("pi", "it has been tried again", |application| {
            let status = &application["status"];
            assert_ne!(status["applicationState"]["state"], "FAILED", "{status}");
            status["runOrdinal"].as_i64() >= Some(2)
        })
        .await;
    namespace.kubectl(&["delete", "pod", "pi-driver"]);
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    let status = &submitted["status"];
    assert_eq!(status["executionAttempts"], 1);
    assert_eq!(status["submissionAttempts"], status["runOrdinal"]);
    assert_eq!(status["applicationState"]["errorMessage"], Value::Null);
    let first = &status["runs"][0];
    assert_eq!([&first["cause"], &first["state"], &first["message"]], ["Created", "SUBMISSION_FAILED", why]);
    let last = status["runs"].as_array().unwrap().last().unwrap();
    assert_eq!([&last["cause"], &last["submissionID"]], [&json!("SubmissionRetry"), &status["submissionID"]]);
    assert_eq!(condition(&submitted, "Submitted")[..2], ["True", "DriverCreated"]);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_is_not_tried_again_more_often_than_the_policy_says() {
    let namespace = Namespace::new("given-up").await;
    let _operator = Operator::start(&namespace).await;
    namespace.apply(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pi-driver"},
        "spec": {"containers": [{"name": "web", "image": "none"}]},
    }));
    let policy =
        json!({"type": "OnFailure", "onSubmissionFailureRetries": 1, "onSubmissionFailureRetryInterval": 1});
    namespace.apply(&application("pi", &json!({"restartPolicy": policy})));
    let failed = namespace.reaches("pi", "FAILED").await;
    assert_eq!(failed["status"]["submissionAttempts"], 2);
    assert_eq!(failed["status"]["executionAttempts"], Value::Null);
    assert_eq!(
        runs(&failed),
        [
            json!([1, "Created", "SUBMISSION_FAILED", "SubmissionFailed", null]),
            json!([2, "SubmissionRetry", "SUBMISSION_FAILED", "SubmissionFailed", null]),
        ]
    );
    assert_eq!(condition(&failed, "Submitted")[..2], ["False", "SubmissionFailed"]);
    assert_eq!(condition(&failed, "Failed")[..2], ["True", "SubmissionFailed"]);
}
