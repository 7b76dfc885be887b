//! Tests what happens to submission pods at an API server, and what is reported to the user. `tests/data/lifecycle` has
//! everything else that can happen to them.
//!
//! Where the work of `spark-submit` matters, a [`SubmissionNode`] runs it. In the other tests the test itself reports
//! what a kubelet would report.

use super::submission_node::{CONTAINER, KILLED};
use crate::apiserver::prelude::*;
use submission::submission_pod;

/// No node runs the submission pods of the first namespaces: the test reports what a kubelet would.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn waiting_failed_and_refused_submission_pods_are_reported_and_deleted() {
    let waits = Namespace::new("submission-waits").await;
    let refused = waits.beside("submission-refused").await;
    let foreign = waits.beside("submission-foreign").await;
    let patient = waits.beside("submission-patient").await;
    let _operator = Operator::with(&waits).by_spark_submit().start().await;
    the_status_says_what_a_submission_waits_for_and_why_it_has_failed(&waits).await;
    a_refused_submission_pod_fails_with_the_api_servers_message(&refused).await;
    a_foreign_pod_or_config_map_of_the_same_name_is_left_alone(&foreign).await;
    a_failed_submission_is_cleaned_up_during_the_retry_backoff(&patient).await;
    let hangs = waits.beside("submission-hangs").await;
    a_running_driver_is_followed_and_its_spark_submit_is_killed(&hangs).await;
}

async fn the_status_says_what_a_submission_waits_for_and_why_it_has_failed(namespace: &Namespace) {
    namespace.apply(&application("pi"));
    let pod = namespace.submission_pod().await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("pi-") && name.ends_with("-submission"), "{name}");
    // Only events report a volume that cannot be mounted. All other reasons for waiting are in the pod's status.
    kubelet::cannot_mount(namespace, name).await;
    let long_ago =
        json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    kubelet::says(namespace, name, &json!({"conditions": long_ago})).await;
    let waits = format!("FailedMount: {}", kubelet::CANNOT_MOUNT);
    // The state must be absent: Airflow takes an empty one for that of a started application.
    let said = json!({"errorMessage": format!("submission pod {name}: {waits}"), "state": null});
    namespace.status_has("pi", &json!({"applicationState": said})).await;

    kubelet::says(namespace, name, &failed()).await;
    let why = "failed to run spark-submit: No such luck; caused by java.io.IOException: there is none";
    fails(namespace, why).await;
    let told = [
        format!("Normal SparkSubmissionPending: Submission pod {name} is pending: {waits}"),
        format!("Warning SparkApplicationSubmissionFailed: failed to submit SparkApplication pi: {why}"),
        format!("Warning SparkApplicationFailed: SparkApplication pi failed: {why}"),
    ];
    let events = namespace.events_up_to("SparkApplicationFailed").await;
    let events: Vec<_> =
        events.iter().map(|[kind, reason, _, note]| format!("{kind} {reason}: {note}")).collect();
    assert_eq!(events[1..], told);
}

async fn submission_pods_that_wait_for_ever_delay_no_other_application(namespace: &Namespace) {
    for name in ["first", "second", "third"] {
        namespace.apply(&by_spark_submit(name));
    }
    eventually("each has its submission pod", async || {
        let pods = namespace.submission_pods().await;
        seen(pods.len() == 3, pods.len())
    })
    .await;
    namespace.apply(&application("pi"));
    namespace.reaches("pi", "SUBMITTED").await;
}

fn by_spark_submit(name: &str) -> Value {
    let mut application = application(name);
    application["metadata"]["annotations"]["sparkoperator.k8s.io/submitter"] = json!("spark-submit");
    application
}

/// Until its driver runs, `spark-submit` may still delete the driver. Once the driver runs, the operator follows it and
/// deletes the submission pod, whose `spark-submit` here waits for the response to its last request.
async fn a_running_driver_is_followed_and_its_spark_submit_is_killed(namespace: &Namespace) {
    let proxy = Proxy::start().await;
    let _node = SubmissionNode::of(namespace, &stand_in()).through(&proxy).start().await;
    let last = Call { method: "PATCH", path: "/configmaps/spark-drv-" };
    let configuration_is_made = proxy.hold(last, Moment::After);
    namespace.apply(&application("pi"));
    let held = configuration_is_made.caught().await;
    let pod = namespace.submission_pod().await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    // The deleted pod stays, so that the test can read how its container has ended.
    kubelet::takes_its_time(namespace, name);
    namespace.runs("pi").await;
    let is_ended =
        |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == KILLED;
    namespace.until::<Pod>(name, "was killed", is_ended).await;
    held.close();
    kubelet::is_done(namespace, name);
    namespace.has_no_submission().await;
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMITTED", "RUNNING"]);
    assert_eq!(namespace.submission_pods_ever().await.len(), 1);
    assert_eq!(namespace.drivers_ever().await.len(), 1);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn submissions_that_time_out_are_cleaned_up_and_waiting_ones_delay_none() {
    let late = Namespace::new("submission-late").await;
    let setup = Operator::with(&late).argument("--max-submissions=1");
    let _operator = setup.argument("--spark-submit-timeout=5s").start().await;
    submission_pods_that_wait_for_ever_delay_no_other_application(&late.beside("submission-stuck").await)
        .await;
    a_submission_that_times_out_leaves_no_incomplete_driver(&late).await;
}

async fn a_submission_that_times_out_leaves_no_incomplete_driver(namespace: &Namespace) {
    let node = SubmissionNode::of(namespace, &stand_in()).env("STAND_IN_PAUSE", "600").start().await;
    namespace.apply(&by_spark_submit("pi"));
    // The driver exists, and its ConfigMaps do not yet.
    namespace.there::<Pod>("pi-driver").await;
    let why = namespace.failure("pi").await;
    assert!(
        why.starts_with("failed to run spark-submit: it took longer than ")
            && why.contains("--spark-submit-timeout")
            && why.contains("DeadlineExceeded"),
        "{why}"
    );
    node.is_idle().await;
    assert_eq!(namespace.pod("pi-driver").await, None);
    namespace.has_no_submission().await;
}

/// A quota refuses with 403, as the plugin for missing service accounts does, which this API server does not run.
async fn a_refused_submission_pod_fails_with_the_api_servers_message(namespace: &Namespace) {
    namespace.apply(&json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "little"},
        "spec": {"hard": {"requests.memory": "512Mi"}},
    }));
    let little = json!({"hard": {"requests.memory": "512Mi"}, "used": {"requests.memory": "0"}});
    namespace.patch_status::<ResourceQuota>("little", &little).await;
    namespace.apply(&application("pi"));
    let why = namespace.failure("pi").await;
    let quota = "-submission\" is forbidden: exceeded quota: little, requested: requests.memory=1Gi";
    assert!(why.starts_with("failed to create Pod pi-") && why.contains(quota), "{why}");
    assert_eq!(namespace.list::<ConfigMap>().await, Vec::<Value>::new());
    namespace.delete::<ResourceQuota>("little").await;
    assert_eq!(namespace.submission_pods_ever().await, Vec::<String>::new());
}

async fn a_foreign_pod_or_config_map_of_the_same_name_is_left_alone(namespace: &Namespace) {
    for (kind, own) in [("Pod", "pod"), ("ConfigMap", "map")] {
        let mut pi = application(own);
        pi["spec"]["suspend"] = json!(true);
        namespace.apply(&pi);
        let suspended = namespace.reaches(own, "SUSPENDED").await;
        let typed: SparkApplication = serde_json::from_value(suspended).unwrap();
        let name = submission_pod::name(&typed, &Run::next(&typed));
        let mut foreign = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        if kind == "Pod" {
            foreign["spec"] = json!({"containers": [{"name": "web", "image": "none"}]});
        }
        namespace.apply(&foreign);
        pi["spec"]["suspend"] = json!(false);
        namespace.apply(&pi);
        let expected = format!("{kind} {name} already exists and is not this application's: delete it");
        assert_eq!(namespace.failure(own).await, expected);
    }
    let left = [namespace.list::<Pod>().await.len(), namespace.list::<ConfigMap>().await.len()];
    assert_eq!(left, [1, 1], "only the foreign objects are left");
}

async fn a_failed_submission_is_cleaned_up_during_the_retry_backoff(namespace: &Namespace) {
    let mut pi = application("pi");
    pi["spec"]["restartPolicy"] = json!({"type": "OnFailure", "onSubmissionFailureRetries": 1, "onSubmissionFailureRetryInterval": 3600});
    namespace.apply(&pi);
    let pod = namespace.submission_pod().await;
    kubelet::says(namespace, pod["metadata"]["name"].as_str().unwrap(), &failed()).await;
    namespace.reaches("pi", "SUBMISSION_FAILED").await;
    namespace.has_no_submission().await;
    assert_eq!(namespace.submission_pods_ever().await.len(), 1);
}

/// The termination message of a `spark-submit` whose exception has a cause.
const THROWN: &str = "Exception in thread \"main\" org.apache.spark.SparkException: No such luck\n\
                      Caused by: java.io.IOException: there is none\n";

/// Waits until `pi` has failed for this reason; asserts that no object of `pi` is left.
async fn fails(namespace: &Namespace, why: &str) {
    let failed = namespace.reaches("pi", "FAILED").await;
    assert_eq!(failed["status"]["applicationState"]["errorMessage"], why);
    assert_eq!(failed["status"]["submissionAttempts"], 1);
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMISSION_FAILED", "FAILED"]);
    namespace.has_no_submission().await;
    assert_eq!(namespace.list::<Pod>().await, Vec::<Value>::new());
    assert_eq!(namespace.list::<ConfigMap>().await, Vec::<Value>::new());
    assert_eq!(namespace.drivers_ever().await, Vec::<String>::new());
}

/// Returns the status of a pod whose `spark-submit` has ended with [`THROWN`].
fn failed() -> Value {
    let state = json!({"terminated": {"exitCode": 1, "reason": "Error", "message": THROWN}});
    let container = json!({"name": CONTAINER, "image": "", "imageID": "", "state": state});
    json!({"phase": "Failed", "containerStatuses": [container]})
}
