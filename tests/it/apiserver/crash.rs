//! Proves that an application that `spark-submit` submits runs exactly once, whenever the operator is killed, its
//! submission pod is lost, or an answer of the API server is lost.
//!
//! Where connections break, Spark's own `spark-submit` runs, since only its client shows what it does then. The tests
//! in `faults` let requests fail one by one (`make soak`: each request with each kind of fault). In place of
//! `spark-submit` they run the stand-in, a program that sends the same requests.

use crate::apiserver::prelude::*;
use futures::join;

/// `spark-submit` creates the driver's pod.
const POD_IS_MADE: Call = Call { method: "POST", path: "/pods" };
/// `spark-submit` creates the ConfigMap with Spark's configuration, as its last request.
const CONFIGURATION_IS_MADE: Call = Call { method: "PATCH", path: "/configmaps/spark-drv-" };

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_driver_created_while_no_operator_runs_is_refused_and_retried() {
    let scene = Scene::new("killed-alone", &stand_in()).await;
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

/// Three applications at once, because each waits for the ten seconds after which an incomplete driver counts as left
/// behind.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_incomplete_driver_is_deleted_after_a_lost_pod_or_connection() {
    let scene = Scene::new("half-made", spark_home()).await;
    let _operator = scene.operator().await;
    let configuration_is_made = scene.pods.hold_saying("lost-driver", CONFIGURATION_IS_MADE, Moment::Before);
    let [closed_is_made, reset_is_made] = ["closed-driver", "reset-driver"]
        .map(|driver| scene.pods.hold_saying(driver, POD_IS_MADE, Moment::After));
    for name in ["lost", "closed", "reset"] {
        scene.namespace.apply(&application(name));
    }
    // At the same time, because `spark-submit` waits only ten seconds for a response.
    let (lost, (), reset) = join!(
        async {
            let held = configuration_is_made.caught().await;
            let half_made = scene.driver("lost").await;
            let [pod] = &scene.submission_pods("lost").await[..] else { panic!("one submission pod") };
            scene.namespace.delete::<Pod>(pod["metadata"]["name"].as_str().unwrap()).await;
            held.close();
            half_made
        },
        // Unlike after a connection that is reset, `spark-submit` does not retry.
        async { closed_is_made.caught().await.close() },
        async {
            let held = reset_is_made.caught().await;
            let half_made = scene.driver("reset").await;
            // `spark-submit` retries, finds its own pod, and gives up.
            held.reset();
            half_made
        },
    );

    let why = scene.namespace.failure("closed").await;
    assert_eq!(why, "failed to run spark-submit: Connection was closed");
    assert_eq!(scene.namespace.application("closed").await["status"]["submissionAttempts"], 1);
    assert_eq!(scene.namespace.pod("closed-driver").await, None);
    for (name, half_made) in [("lost", lost), ("reset", reset)] {
        let driver = scene.is_submitted_once(name).await;
        assert_ne!(driver, half_made);
        scene.completes(name, &[&half_made, &driver]).await;
    }
    scene.namespace.has_no_submission().await;
    assert_eq!(scene.namespace.pods_ever_of("closed", "driver").await.len(), 1);
    assert_eq!(scene.namespace.pods_ever_of("closed", "submission").await.len(), 1);
}

/// The events of a submission.
const TOLD: [&str; 2] = ["SparkApplicationAdded", "SparkApplicationSubmitted"];

/// The proxy and the node that the tests need.
struct Scene {
    namespace: Namespace,
    /// The proxy between the submission pods and the API server.
    pods: Proxy,
    node: SubmissionNode,
}

impl Scene {
    async fn new(name: &'static str, home: &Path) -> Self {
        let namespace = Namespace::new(name).await;
        let pods = Proxy::start().await;
        let node = SubmissionNode::of(&namespace, home).through(&pods).start().await;
        Self { namespace, pods, node }
    }

    async fn operator(&self) -> Operator {
        Operator::with(&self.namespace).by_spark_submit().start().await
    }

    /// Returns the uid of the application's driver.
    async fn driver(&self, name: &str) -> String {
        let pod = self.namespace.pod(&format!("{name}-driver")).await.unwrap();
        pod["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Returns the submission pods of the application.
    async fn submission_pods(&self, name: &str) -> Vec<Value> {
        let mut pods = self.namespace.submission_pods().await;
        pods.retain(|pod| pod["metadata"]["labels"]["sparkoperator.k8s.io/app-name"] == name);
        pods
    }

    /// Waits until the application is submitted; asserts that it was submitted only once and that its driver is complete.
    /// Returns the driver's uid.
    async fn is_submitted_once(&self, name: &str) -> String {
        let namespace = &self.namespace;
        let submitted = namespace.reaches_at_once(name, "SUBMITTED").await;
        let driver = namespace.pod(&format!("{name}-driver")).await.unwrap();
        assert_eq!(
            driver["metadata"]["labels"]["sparkoperator.k8s.io/submission-id"],
            submitted["status"]["submissionID"]
        );
        assert_eq!(driver["metadata"]["ownerReferences"], owned_by(&submitted));
        let uid = &driver["metadata"]["uid"];
        let made: Vec<_> = namespace.list::<ConfigMap>().await;
        let made = made.iter().filter(|made| made["metadata"]["ownerReferences"][0]["uid"] == *uid);
        assert_eq!(made.count(), 2, "{name}: Spark's configuration and the executors' template");
        eventually(&format!("the events about {name} are {TOLD:?}"), async || {
            let mut events = namespace.operator_events().await;
            events.retain(|event| event["regarding"]["name"] == name);
            let reasons: Vec<_> = events.iter().map(|event| event["reason"].as_str().unwrap()).collect();
            seen(reasons == TOLD, &reasons)
        })
        .await;
        uid.as_str().unwrap().to_owned()
    }

    /// Runs the driver to its end. Asserts that exactly `drivers` were ever created for the application, each by a
    /// submission pod of its own, and that no submission pod is left.
    async fn completes(&self, name: &str, drivers: &[&str]) {
        let namespace = &self.namespace;
        eventually(&format!("the submission pods of {name} are gone"), async || {
            let pods = self.submission_pods(name).await;
            seen(pods.is_empty(), pods)
        })
        .await;
        namespace.runs(name).await;
        namespace.completes(name).await;
        namespace.reaches_at_once(name, "COMPLETED").await;
        sleep(A_WHILE).await;
        assert_eq!(
            namespace.states_ever(name).await,
            ["", "SUBMITTED", "RUNNING", "SUCCEEDING", "COMPLETED"]
        );
        assert_eq!(namespace.pods_ever_of(name, "driver").await, drivers);
        assert_eq!(namespace.pods_ever_of(name, "submission").await.len(), drivers.len());
    }
}
