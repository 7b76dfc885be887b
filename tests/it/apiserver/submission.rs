//! Tests everything that can happen to a submission pod, and what is reported to the user.
//!
//! Where the work of `spark-submit` matters, a [`SubmissionNode`] runs it. In the other tests the test itself reports
//! what a kubelet would report.

use super::{
    applications::application,
    eventually,
    kubectl::{kubectl, kubectl_with},
    kubelet,
    namespace::Namespace,
    neighbour::Neighbour,
    operator::{Operator, stand_in},
    policy::no_pods,
    proxy::{Call, Moment, Proxy},
    seen,
    submission_node::{CONTAINER, KILLED, SubmissionNode},
};
use api::SparkApplication;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use plan::{run::Run, submission_pod};
use serde_json::{Value, json};

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn the_status_says_what_a_submission_waits_for_and_why_it_has_failed() {
    let namespace = Namespace::new("submission-waits").await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    namespace.apply(&application("pi"));
    let pod = namespace.submission_pod(&[]).await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("pi-") && name.ends_with("-submission"), "{name}");
    let says = async |status: &Value, expected: &str| {
        kubelet::says(&namespace, name, status).await;
        let expected = format!("submission pod {name}: {expected}");
        let waiting = namespace
            .becomes("pi", &format!("the status says `{expected}`"), |application| {
                application["status"]["applicationState"]["errorMessage"] == expected
            })
            .await;
        assert_eq!(
            waiting["status"]["applicationState"]["state"],
            Value::Null,
            "Airflow takes an empty one for begun"
        );
    };
    let nowhere = "0/3 nodes are available: 3 Insufficient cpu.";
    let unscheduled =
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": nowhere}]);
    says(&json!({"conditions": unscheduled}), &format!("Unschedulable: {nowhere}")).await;
    kubelet::cannot_mount(&namespace, name).await;
    let long_ago =
        json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    says(&json!({"conditions": long_ago}), &format!("FailedMount: {}", kubelet::CANNOT_MOUNT)).await;
    let no_image = "Back-off pulling image \"docker.io/apache/spark:4.0.1\"";
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": no_image}});
    let scheduled = json!([{"type": "PodScheduled", "status": "True"}]);
    let status = json!({"conditions": scheduled, "containerStatuses": [of_container(&waiting)]});
    says(&status, &format!("ImagePullBackOff: {no_image}")).await;
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let status = json!({"phase": "Running", "containerStatuses": [of_container(&running)]});
    says(&status, "spark-submit is running").await;

    kubelet::says(&namespace, name, &ended(1, "Failed", THROWN)).await;
    let why = "failed to run spark-submit: No such luck; caused by java.io.IOException: there is none";
    fails(&namespace, why).await;
    let pending =
        |what: &str| format!("Normal SparkSubmissionPending: Submission pod {name} is pending: {what}");
    let told = [
        pending(&format!("Unschedulable: {nowhere}")),
        pending(&format!("FailedMount: {}", kubelet::CANNOT_MOUNT)),
        pending(&format!("ImagePullBackOff: {no_image}")),
        format!("Warning SparkApplicationSubmissionFailed: failed to submit SparkApplication pi: {why}"),
        format!("Warning SparkApplicationFailed: SparkApplication pi failed: {why}"),
    ];
    let events = namespace.events_up_to("SparkApplicationFailed").await;
    let events: Vec<_> =
        events.iter().map(|[kind, reason, _, note]| format!("{kind} {reason}: {note}")).collect();
    assert_eq!(events[1..], told);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn submission_pods_that_wait_for_ever_delay_no_other_application() {
    let namespace = Namespace::new("submission-stuck").await;
    let _operator = Operator::with(&namespace).argument("--max-submissions=1").start().await;
    for name in ["first", "second", "third"] {
        let mut stuck = application(name);
        stuck["metadata"]["annotations"]["sparkoperator.k8s.io/submitter"] = json!("spark-submit");
        namespace.apply(&stuck);
    }
    eventually("each has its submission pod", async || {
        let pods = namespace.submission_pods().await;
        seen(pods.len() == 3, pods.len())
    })
    .await;
    namespace.apply(&application("pi"));
    namespace.reaches("pi", "SUBMITTED").await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn spark_submits_exit_counts_whatever_an_injected_sidecar_does() {
    let namespace = Namespace::new("submission-sidecar").await;
    let _neighbour = Neighbour::changing(&namespace, inject).await;
    let _node = SubmissionNode::of(&namespace, &stand_in()).start().await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    namespace.apply(&application("pi"));
    let pod = namespace.submission_pod(&[]).await;
    // The pod asks service meshes not to inject a sidecar.
    assert_eq!(pod["metadata"]["labels"]["sidecar.istio.io/inject"], "false");
    assert_eq!(pod["metadata"]["annotations"]["sidecar.istio.io/inject"], "false");
    assert_eq!(pod["metadata"]["annotations"]["linkerd.io/inject"], "disabled");
    assert_eq!(pod["spec"]["containers"].as_array().unwrap().len(), 2, "{pod}");
    namespace.reaches("pi", "SUBMITTED").await;
    namespace.has_no_submission().await;

    // An injected sidecar does not hide the failure of a submission either.
    let mut taken = application("taken");
    taken["spec"]["volumes"] = json!([{"name": "spark-conf-volume-driver", "emptyDir": {}}]);
    taken["spec"]["driver"]["volumeMounts"] =
        json!([{"name": "spark-conf-volume-driver", "mountPath": "/x"}]);
    namespace.apply(&taken);
    let failed = namespace.reaches("taken", "FAILED").await;
    let why = failed["status"]["applicationState"]["errorMessage"].as_str().unwrap();
    assert!(why.starts_with("failed to run spark-submit: ") && why.contains("denied the request"), "{why}");
    namespace.has_no_submission().await;
}

/// Adds a sidecar to submission pods, like a mesh that ignores the request to leave them alone.
fn inject(pod: &mut Value) {
    if pod["metadata"]["labels"]["spark-role"] == "submission" {
        let containers = pod["spec"]["containers"].as_array_mut().unwrap();
        containers.insert(0, json!({"name": "mesh", "image": "example.com/mesh:1"}));
    }
}

/// Until its driver runs, `spark-submit` may still delete the driver. Once the driver runs, the operator follows it and ends
/// the `spark-submit`, which here waits for the answer to its last request.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_driver_that_runs_is_followed_though_its_spark_submit_goes_on() {
    let namespace = Namespace::new("submission-hangs").await;
    let proxy = Proxy::start().await;
    let _node = SubmissionNode::of(&namespace, &stand_in()).through(&proxy).start().await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    let last = Call { method: "PATCH", path: "/configmaps/spark-drv-" };
    let configuration_is_made = proxy.hold(last, Moment::After);
    namespace.apply(&application("pi"));
    let held = configuration_is_made.caught().await;
    let pod = namespace.submission_pod(&[]).await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    // The deleted pod stays, so that the test can read how its container has ended.
    kubelet::takes_its_time(&namespace, name);
    kubelet::runs(&namespace, "pi-driver").await;
    namespace.reaches("pi", "RUNNING").await;
    eventually("its spark-submit was ended from outside", async || {
        let pod = namespace.pod(name).await.unwrap();
        let state = &pod["status"]["containerStatuses"][0]["state"];
        seen(state["terminated"]["exitCode"] == KILLED, state)
    })
    .await;
    held.close();
    kubelet::is_done(&namespace, name);
    namespace.has_no_submission().await;
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMITTED", "RUNNING"]);
    assert_eq!(namespace.submission_pods_ever().await.len(), 1);
    assert_eq!(namespace.drivers_ever().await.len(), 1);
}

/// A kubelet reports an eviction with or without the state of the containers.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_pod_that_is_evicted_fails_the_submission_with_the_reason() {
    let namespace = Namespace::new("submission-evicted").await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    let evicted = json!({
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
    });
    let mut killed = evicted.clone();
    let state = json!({"terminated": {"exitCode": 137, "reason": "Error"}});
    killed["containerStatuses"] = json!([of_container(&state)]);
    for (name, status) in [("stateless", evicted), ("killed", killed)] {
        namespace.apply(&application(name));
        let pod = namespace.submission_pod(&[]).await;
        kubelet::says(&namespace, pod["metadata"]["name"].as_str().unwrap(), &status).await;
        let failed = namespace.reaches(name, "FAILED").await;
        assert_eq!(
            failed["status"]["applicationState"]["errorMessage"],
            "failed to run spark-submit: its pod failed: Evicted: The node was low on resource: memory."
        );
        namespace.has_no_submission().await;
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_that_takes_too_long_is_ended_and_leaves_no_half_made_driver() {
    let namespace = Namespace::new("submission-late").await;
    let node = SubmissionNode::of(&namespace, &stand_in()).env("STAND_IN_PAUSE", "600").start().await;
    let _operator =
        Operator::with(&namespace).by_spark_submit().argument("--spark-submit-timeout=5s").start().await;
    namespace.apply(&application("pi"));
    eventually("the driver is half made", async || seen(namespace.pod("pi-driver").await.is_some(), "none"))
        .await;
    let failed = namespace.reaches("pi", "FAILED").await;
    let why = failed["status"]["applicationState"]["errorMessage"].as_str().unwrap();
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

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn without_rights_for_its_service_account_a_submission_fails_with_the_right_that_it_needs() {
    let namespace = Namespace::new("submission-rights").await;
    let _node = SubmissionNode::of(&namespace, &stand_in()).without_rights().start().await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    namespace.apply(&application("pi"));
    let why = "failed to run spark-submit: pods is forbidden: User \
               \"system:serviceaccount:submission-rights:spark\" cannot create resource \"pods\" in API group \"\" in the \
               namespace \"submission-rights\"";
    fails(&namespace, why).await;
}

/// A missing service account is refused in the same way, by an admission plugin that this API server does not run.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_pod_that_nobody_lets_in_fails_the_submission_in_the_api_servers_words() {
    let namespace = Namespace::new("submission-refused").await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    namespace.apply(&json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "little"},
        "spec": {"hard": {"requests.memory": "512Mi"}},
    }));
    let little = json!({"hard": {"requests.memory": "512Mi"}, "used": {"requests.memory": "0"}});
    namespace.patch_status::<ResourceQuota>("little", &little).await;
    let quota = "-submission\" is forbidden: exceeded quota: little, requested: requests.memory=1Gi";
    is_not_let_in(&namespace, quota).await;
    namespace.delete::<ResourceQuota>("little").await;

    let missing = "error looking up service account: serviceaccount spark not found";
    let _policy = no_pods(&namespace, "submission", missing).await;
    is_not_let_in(&namespace, missing).await;
    assert_eq!(namespace.submission_pods_ever().await, Vec::<String>::new());
}

/// Applies `pi`, asserts that `pi` fails because its submission pod is refused for `reason`, and deletes `pi`.
async fn is_not_let_in(namespace: &Namespace, reason: &str) {
    namespace.apply(&application("pi"));
    let failed = namespace.reaches("pi", "FAILED").await;
    let why = failed["status"]["applicationState"]["errorMessage"].as_str().unwrap();
    assert!(why.starts_with("failed to create Pod pi-") && why.contains(reason), "{why}");
    assert_eq!(namespace.list::<ConfigMap>().await, Vec::<Value>::new());
    namespace.delete::<SparkApplication>("pi").await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn in_a_namespace_that_is_being_deleted_no_submission_pod_is_made() {
    let namespace = Namespace::new("submission-doomed").await;
    namespace.apply(&application("pi"));
    kubectl(&["delete", "namespace", namespace.name, "--wait=false"]);
    {
        let _operator = Operator::with(&namespace).by_spark_submit().start().await;
        let failed = namespace.reaches("pi", "FAILED").await;
        let message = failed["status"]["applicationState"]["errorMessage"].as_str().unwrap();
        assert!(message.contains("because it is being terminated"), "{message}");
    }
    // No controller finalizes namespaces in this cluster, so the test does.
    namespace.clear::<SparkApplication>().await;
    let finalized = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name}, "spec": {"finalizers": []}});
    let path = format!("/api/v1/namespaces/{}/finalize", namespace.name);
    kubectl_with(&finalized, &["replace", "--raw", &path, "-f", "-"]);
}

/// The first pod is deleted by a user while it waits, the second by the loss of its node while it works.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_pod_that_somebody_deletes_is_made_anew() {
    let namespace = Namespace::new("submission-deleted").await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    namespace.apply(&application("pi"));
    let first = namespace.submission_pod(&[]).await;
    let name = first["metadata"]["name"].as_str().unwrap();
    namespace.delete::<Pod>(name).await;
    let first = first["metadata"]["uid"].as_str().unwrap();
    let second = namespace.submission_pod(&[first]).await;
    assert_eq!(second["metadata"]["name"], name, "it is the same run");
    let second = second["metadata"]["uid"].as_str().unwrap();

    // A kubelet reports how the container has ended before the pod is gone.
    kubelet::says(&namespace, name, &json!({"phase": "Running", "containerStatuses": [running()]})).await;
    kubelet::takes_its_time(&namespace, name);
    namespace.kubectl(&["delete", "pod", name, "--wait=false"]);
    namespace
        .becomes("pi", "it is known to go", |application| {
            let said = application["status"]["applicationState"]["errorMessage"].as_str();
            said.is_some_and(|said| said.contains("is being deleted"))
        })
        .await;
    kubelet::says(&namespace, name, &ended(143, "Failed", "")).await;
    kubelet::is_done(&namespace, name);
    let third = namespace.submission_pod(&[first, second]).await;
    assert_eq!(third["metadata"]["name"], name);
    assert_eq!(namespace.states_ever("pi").await, [""]);

    let _node = SubmissionNode::of(&namespace, &stand_in()).start().await;
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    assert_eq!(submitted["status"]["submissionAttempts"], 1);
    namespace.has_no_submission().await;
    assert_eq!(namespace.submission_pods_ever().await.len(), 3);
    assert_eq!(namespace.drivers_ever().await.len(), 1);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn somebody_elses_pod_or_config_map_of_the_name_is_left_alone() {
    for kind in ["Pod", "ConfigMap"] {
        let namespace = Namespace::new("submission-foreign").await;
        let operator = Operator::with(&namespace).by_spark_submit().start().await;
        let mut pi = application("pi");
        pi["spec"]["suspend"] = json!(true);
        namespace.apply(&pi);
        let suspended = namespace.reaches("pi", "SUSPENDED").await;
        let typed: SparkApplication = serde_json::from_value(suspended).unwrap();
        let name = submission_pod::name(&typed, &Run::next(&typed));
        let mut foreign = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        if kind == "Pod" {
            foreign["spec"] = json!({"containers": [{"name": "web", "image": "none"}]});
        }
        namespace.apply(&foreign);
        pi["spec"]["suspend"] = json!(false);
        namespace.apply(&pi);
        let failed = namespace.reaches("pi", "FAILED").await;
        assert_eq!(
            failed["status"]["applicationState"]["errorMessage"],
            format!("{kind} {name} already exists and is not this application's: delete it")
        );
        drop(operator);
        let left = [namespace.list::<Pod>().await.len(), namespace.list::<ConfigMap>().await.len()];
        assert_eq!(left, if kind == "Pod" { [1, 0] } else { [0, 1] }, "the one that was there");
    }
}

/// The driver has already been deleted when the operator looks for it.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_driver_that_is_gone_when_its_submission_ends_is_missed() {
    let namespace = Namespace::new("submission-gone").await;
    let setup = Operator::with(&namespace).by_spark_submit();
    let _operator = setup.argument("--driver-pod-creation-grace-period=1s").start().await;
    namespace.apply(&application("pi"));
    let pod = namespace.submission_pod(&[]).await;
    kubelet::says(&namespace, pod["metadata"]["name"].as_str().unwrap(), &ended(0, "Succeeded", "")).await;
    let failed = namespace.reaches("pi", "FAILED").await;
    assert_eq!(failed["status"]["applicationState"]["errorMessage"], "driver pod not found");
    namespace.has_no_submission().await;
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMITTED", "FAILING", "FAILED"]);
    assert_eq!(namespace.submission_pods_ever().await.len(), 1);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_that_has_failed_leaves_nothing_while_the_next_is_waited_for() {
    let namespace = Namespace::new("submission-patient").await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    let mut pi = application("pi");
    pi["spec"]["restartPolicy"] = json!({"type": "OnFailure", "onSubmissionFailureRetries": 1, "onSubmissionFailureRetryInterval": 3600});
    namespace.apply(&pi);
    let pod = namespace.submission_pod(&[]).await;
    kubelet::says(&namespace, pod["metadata"]["name"].as_str().unwrap(), &ended(1, "Failed", THROWN)).await;
    namespace.reaches("pi", "SUBMISSION_FAILED").await;
    namespace.has_no_submission().await;
    assert_eq!(namespace.submission_pods_ever().await.len(), 1);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_that_fails_is_tried_again_by_another_pod() {
    let namespace = Namespace::new("submission-retried").await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    let mut pi = application("pi");
    pi["spec"]["restartPolicy"] =
        json!({"type": "OnFailure", "onSubmissionFailureRetries": 1, "onSubmissionFailureRetryInterval": 1});
    namespace.apply(&pi);
    let first = namespace.submission_pod(&[]).await;
    let name = first["metadata"]["name"].as_str().unwrap();
    // The pod's containers have ended, and a finalizer keeps the pod.
    kubelet::takes_its_time(&namespace, name);
    kubelet::says(&namespace, name, &ended(1, "Failed", THROWN)).await;
    namespace.reaches("pi", "SUBMISSION_FAILED").await;
    eventually("the first pod is being deleted", async || {
        let pod = namespace.pod(name).await.unwrap();
        seen(pod["metadata"]["deletionTimestamp"].is_string(), &pod["metadata"])
    })
    .await;
    kubelet::is_done(&namespace, name);
    let second = namespace.submission_pod(&[first["metadata"]["uid"].as_str().unwrap()]).await;
    assert_ne!(second["metadata"]["name"], name);
    let _node = SubmissionNode::of(&namespace, &stand_in()).start().await;
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    assert_eq!(submitted["status"]["submissionAttempts"], 2);
    assert_eq!(submitted["status"]["applicationState"]["errorMessage"], Value::Null);
    namespace.has_no_submission().await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn by_pod_security_restricted_a_submission_is_let_in_as_its_driver_is() {
    let namespace = Namespace::new("submission-restricted").await;
    let enforced = "pod-security.kubernetes.io/enforce";
    kubectl(&["label", "namespace", namespace.name, &format!("{enforced}=restricted"), "--overwrite"]);
    let _node = SubmissionNode::of(&namespace, &stand_in()).start().await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    namespace.apply(&application("pi"));
    let failed = namespace.reaches("pi", "FAILED").await;
    let why = failed["status"]["applicationState"]["errorMessage"].as_str().unwrap();
    assert!(
        why.starts_with("failed to create Pod pi-")
            && why.contains("violates PodSecurity \"restricted:latest\""),
        "{why}"
    );
    let mut restricted = application("restricted");
    restricted["spec"]["driver"]["podSecurityContext"] =
        json!({"runAsNonRoot": true, "runAsUser": 185, "seccompProfile": {"type": "RuntimeDefault"}});
    restricted["spec"]["driver"]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    namespace.apply(&restricted);
    namespace.reaches("restricted", "SUBMITTED").await;
    namespace.has_no_submission().await;
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

/// Returns the status of a pod in `phase` whose `spark-submit` has ended with this exit code and termination message.
fn ended(exit_code: i32, phase: &str, message: &str) -> Value {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    let state = json!({"terminated": {"exitCode": exit_code, "reason": reason, "message": message}});
    json!({"phase": phase, "containerStatuses": [of_container(&state)]})
}

fn running() -> Value {
    of_container(&json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}))
}

fn of_container(state: &Value) -> Value {
    json!({"name": CONTAINER, "image": "", "imageID": "", "state": state})
}
