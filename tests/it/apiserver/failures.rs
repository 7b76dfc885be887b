//! Tests how failures are reported to users.

use crate::apiserver::prelude::*;

/// Needs an operator that submits by `spark-submit`.
pub(super) async fn what_spark_submit_complains_of_is_told_in_its_own_words(namespace: &Namespace) {
    let _node = SubmissionNode::of(namespace, spark_home()).start().await;
    let mut pi = application("pi");
    pi["spec"]["sparkConf"] = json!({"spark.kubernetes.submission.connectionTimeout": "soon"});
    namespace.apply(&pi);
    let failed = namespace.reaches("pi", "FAILED").await;
    let why = "failed to run spark-submit: java.lang.IllegalArgumentException: spark.kubernetes.submission.connectionTimeout should be \
               int, but was soon";
    let status = &failed["status"];
    assert_eq!(
        *status,
        json!({
            "applicationState": {"state": "FAILED", "errorMessage": why},
            "driverInfo": {"podName": "pi-driver"}, "submissionAttempts": 1,
            "submissionID": status["submissionID"], "runOrdinal": 1,
            "runs": [{
                "ordinal": 1, "cause": "Created", "operator": "spark-operator/spark-operator",
                "submissionID": status["submissionID"], "submittedTime": status["lastSubmissionAttemptTime"],
                "finishedTime": status["lastSubmissionAttemptTime"], "state": "SUBMISSION_FAILED",
                "reason": "SubmissionFailed", "message": why,
            }],
            "conditions": status["conditions"], "observedGeneration": 1, "specHash": status["specHash"],
            "lastSubmissionAttemptTime": status["lastSubmissionAttemptTime"],
            "terminationTime": status["terminationTime"],
        })
    );
    assert!(status["terminationTime"].is_string());
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMISSION_FAILED", "FAILED"]);
    let events = namespace.events_up_to("SparkApplicationFailed").await;
    let told = json!([
        [
            "Warning",
            "SparkApplicationSubmissionFailed",
            "Submit",
            format!("failed to submit SparkApplication pi: {why}")
        ],
        ["Warning", "SparkApplicationFailed", "Fail", format!("SparkApplication pi failed: {why}")],
    ]);
    assert_eq!(json!(events[1..]), told);
}

pub(super) async fn a_foreign_pod_under_the_drivers_name_is_named_and_left_alone(namespace: &Namespace) {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true});
    namespace.apply(&plain_pod(&json!({"name": "pi-driver", "ownerReferences": [owner]})));
    let foreign = namespace.pod("pi-driver").await;
    namespace.apply(&application("pi"));
    let why = "pod pi-driver already exists and belongs to ReplicaSet web: delete it or set spec.driver.podName to another name";
    assert_eq!(namespace.failure("pi").await, why);
    assert_eq!(namespace.application("pi").await["status"]["submissionAttempts"], 1);
    assert_eq!(namespace.pod("pi-driver").await, foreign);
    assert_eq!(
        namespace.submission_pods_ever().await,
        Vec::<String>::new(),
        "no JVM was needed to find that out"
    );
}
