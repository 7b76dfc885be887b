//! Proves that an application that `spark-submit` submits runs exactly once, whenever the operator is killed, its
//! submission pod is lost, or an answer of the API server is lost.
//!
//! These tests use Spark's own `spark-submit`, for what only it can show. The tests in `faults` let other requests
//! fail, each in its way (`make soak`: every request in every way). They use the stand-in, a program that sends the same
//! requests as `spark-submit`.

use super::{
    A_WHILE,
    applications::{application, owned_by},
    eventually, kubelet,
    namespace::Namespace,
    operator::{Operator, spark_home},
    proxy::{Call, Moment, Proxy},
    seen,
    submission_node::SubmissionNode,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;
use tokio::time::sleep;

/// `spark-submit` creates the driver's pod.
const POD_IS_MADE: Call = Call { method: "POST", path: "/pods" };
/// `spark-submit` creates the ConfigMap with Spark's configuration, as its last request.
const CONFIGURATION_IS_MADE: Call = Call { method: "PATCH", path: "/configmaps/spark-drv-" };

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn what_a_spark_submit_makes_while_there_is_no_operator_is_refused_and_tried_again() {
    let scene = Scene::new("killed-alone").await;
    let operator = scene.operator().await;
    let driver_is_made = scene.pods.hold(POD_IS_MADE, Moment::Before);
    let mut pi = application("pi");
    pi["spec"]["restartPolicy"] = json!({
        "type": "OnFailure", "onSubmissionFailureRetries": 1, "onSubmissionFailureRetryInterval": 1,
    });
    scene.namespace.apply(&pi);
    let held = driver_is_made.caught().await;
    operator.kill();
    held.release();
    // Without an operator the webhook does not answer, so the API server refuses the driver's pod.
    scene.node.is_idle().await;
    assert_eq!(scene.namespace.pod("pi-driver").await, None);

    let _operator = scene.operator().await;
    let submitted = scene.namespace.reaches("pi", "SUBMITTED").await;
    assert_eq!(submitted["status"]["submissionAttempts"], 2);
    assert_eq!(submitted["status"]["executionAttempts"], 1);
    let why = submitted["status"]["runs"][0]["message"].as_str().unwrap();
    assert!(
        why.starts_with("failed to run spark-submit: ") && why.contains("failed calling webhook"),
        "{why}"
    );
    scene.namespace.has_no_submission().await;
    sleep(A_WHILE).await;
    assert_eq!(scene.namespace.drivers_ever().await.len(), 1);
    assert_eq!(scene.namespace.states_ever("pi").await, ["", "SUBMISSION_FAILED", "SUBMITTED"]);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_pod_that_is_lost_between_pod_and_configuration_is_made_anew_and_so_is_its_driver() {
    let scene = Scene::new("lost-half-made").await;
    let _operator = scene.operator().await;
    let configuration_is_made = scene.pods.hold(CONFIGURATION_IS_MADE, Moment::Before);
    scene.namespace.apply(&application("pi"));
    let held = configuration_is_made.caught().await;
    let half_made = scene.driver().await;
    let [lost] = &scene.namespace.submission_pods().await[..] else { panic!("one submission pod") };
    scene.namespace.delete::<Pod>(lost["metadata"]["name"].as_str().unwrap()).await;
    held.close();

    let driver = scene.is_submitted_once(&TOLD).await;
    assert_ne!(driver, half_made);
    scene.completes(&[&half_made, &driver], 2).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_whose_connection_is_closed_fails_and_leaves_no_half_made_driver() {
    let scene = Scene::new("closed-connection").await;
    let _operator = scene.operator().await;
    let driver_is_made = scene.pods.hold(POD_IS_MADE, Moment::After);
    scene.namespace.apply(&application("pi"));
    // Unlike after a connection that is reset, `spark-submit` does not retry.
    driver_is_made.caught().await.close();
    let failed = scene.namespace.reaches("pi", "FAILED").await;
    assert_eq!(
        failed["status"]["applicationState"]["errorMessage"],
        "failed to run spark-submit: Connection was closed"
    );
    assert_eq!(failed["status"]["submissionAttempts"], 1);
    assert_eq!(scene.namespace.pod("pi-driver").await, None);
    scene.namespace.has_no_submission().await;
    assert_eq!(scene.namespace.submission_pods_ever().await.len(), 1);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_lost_reply_to_the_drivers_creation_leaves_one_whole_driver() {
    let scene = Scene::new("lost-driver-reply").await;
    let _operator = scene.operator().await;
    let driver_is_made = scene.pods.hold(POD_IS_MADE, Moment::After);
    scene.namespace.apply(&application("pi"));
    let held = driver_is_made.caught().await;
    let half_made = scene.driver().await;
    // `spark-submit` retries, finds its own pod, and gives up.
    held.reset();
    let driver = scene.is_submitted_once(&TOLD).await;
    assert_ne!(driver, half_made);
    scene.completes(&[&half_made, &driver], 2).await;
}

/// The events of a submission.
const TOLD: [&str; 2] = ["SparkApplicationAdded", "SparkApplicationSubmitted"];

/// The application `pi`, with the proxy and the node that its tests need.
struct Scene {
    namespace: Namespace,
    /// The proxy between the submission pods and the API server.
    pods: Proxy,
    node: SubmissionNode,
}

impl Scene {
    async fn new(name: &'static str) -> Self {
        let namespace = Namespace::new(name).await;
        let pods = Proxy::start().await;
        let node = SubmissionNode::of(&namespace, spark_home()).through(&pods).start().await;
        Self { namespace, pods, node }
    }

    async fn operator(&self) -> Operator {
        Operator::with(&self.namespace).by_spark_submit().start().await
    }

    /// Returns the uid of the driver's pod.
    async fn driver(&self) -> String {
        let pod = self.namespace.pod("pi-driver").await.unwrap();
        pod["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Waits until `pi` is submitted; asserts that it was submitted only once and that its driver is complete. Returns
    /// the driver's uid.
    async fn is_submitted_once(&self, told: &[&str]) -> String {
        let namespace = &self.namespace;
        let submitted = namespace.reaches("pi", "SUBMITTED").await;
        let status = &submitted["status"];
        for field in ["executionAttempts", "submissionAttempts", "runOrdinal"] {
            assert_eq!(status[field], 1, "{field}: {status}");
        }
        let driver = namespace.pod("pi-driver").await.unwrap();
        assert_eq!(
            driver["metadata"]["labels"]["sparkoperator.k8s.io/submission-id"],
            status["submissionID"]
        );
        assert_eq!(driver["metadata"]["ownerReferences"], owned_by(&submitted));
        let uid = &driver["metadata"]["uid"];
        let made: Vec<_> = namespace.list::<ConfigMap>().await;
        let made = made.iter().filter(|made| made["metadata"]["ownerReferences"][0]["uid"] == *uid);
        assert_eq!(made.count(), 2, "Spark's configuration and the executors' template");
        let events = namespace.events_up_to(told.last().unwrap()).await;
        assert_eq!(events.iter().map(|event| &event[1]).collect::<Vec<_>>(), told);
        uid.as_str().unwrap().to_owned()
    }

    /// Runs the driver to its end. Asserts that exactly `drivers` and `submission_pods` submission pods were ever
    /// created, and that no submission pod is left.
    async fn completes(&self, drivers: &[&str], submission_pods: usize) {
        let namespace = &self.namespace;
        eventually("the submission pods are gone", async || {
            let pods = namespace.submission_pods().await;
            seen(pods.is_empty(), pods)
        })
        .await;
        kubelet::runs(namespace, "pi-driver").await;
        namespace.reaches("pi", "RUNNING").await;
        kubelet::ends(namespace, "pi-driver", 0).await;
        let completed = namespace.reaches("pi", "COMPLETED").await;
        let status = &completed["status"];
        for field in ["executionAttempts", "submissionAttempts", "runOrdinal"] {
            assert_eq!(status[field], 1, "{field}: {status}");
        }
        assert_eq!(
            namespace.states_ever("pi").await,
            ["", "SUBMITTED", "RUNNING", "SUCCEEDING", "COMPLETED"]
        );
        namespace.has_no_submission().await;
        sleep(A_WHILE).await;
        assert_eq!(namespace.drivers_ever().await, drivers);
        assert_eq!(namespace.submission_pods_ever().await.len(), submission_pods);
    }
}
