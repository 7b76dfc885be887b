//! Does an application run once, whenever the operator is killed and whatever answer is lost?
//!
//! Each story is told with Spark's own `spark-submit` and with the stand-in, which makes the same calls.

use super::{
    applications::{application, owned_by},
    eventually, kubelet,
    namespace::Namespace,
    operator::{Operator, Orphan},
    proxy::{Call, Moment, Proxy},
    seen,
};
use k8s_openapi::api::core::v1::ConfigMap;
use std::path::{Path, PathBuf};

/// `spark-submit` makes the driver's pod, first of all.
const POD_IS_MADE: Call = Call { method: "POST", path: "/pods" };
/// `spark-submit` makes Spark's configuration, last of all.
const CONFIGURATION_IS_MADE: Call = Call { method: "PATCH", path: "/configmaps/spark-drv-" };
/// The operator looks whether there is a driver.
const DRIVER_IS_LOOKED_FOR: Call = Call { method: "GET", path: "/pods/pi-driver" };
/// The operator writes the status of `pi`.
const STATUS_IS_WRITTEN: Call = Call { method: "PATCH", path: "/sparkapplications/pi/status" };

macro_rules! stories {
    ($($story:ident,)*) => {
        mod spark_submit {
            use super::super::operator::spark_home;
            $(
                #[tokio::test]
                #[ignore = "needs kube-apiserver: make test"]
                async fn $story() {
                    super::$story(spark_home()).await;
                }
            )*
        }

        mod stand_in {
            use super::super::operator::stand_in;
            $(
                #[tokio::test]
                #[ignore = "needs kube-apiserver: make test"]
                async fn $story() {
                    super::$story(&stand_in()).await;
                }
            )*
        }
    };
}

stories! {
    killed_before_there_is_a_pod_it_submits_again,
    what_a_spark_submit_makes_while_there_is_no_operator_is_refused,
    killed_before_there_is_a_pod_and_back_before_its_spark_submit_ends_it_has_one_driver,
    killed_between_pod_and_configuration_it_replaces_the_half_made_driver,
    killed_between_pod_and_configuration_it_adopts_the_driver_that_its_spark_submit_completes,
    killed_before_its_submission_is_recorded_it_adopts_the_driver,
    killed_while_its_submission_is_recorded_it_does_not_submit_again,
    a_lost_reply_to_the_status_write_does_not_submit_again,
    a_lost_reply_to_the_pods_creation_leaves_one_whole_driver,
    a_submission_whose_connection_is_closed_fails_and_leaves_no_half_made_driver,
}

async fn killed_before_there_is_a_pod_it_submits_again(spark_home: &Path) {
    let scene = Scene::new("killed-before-pod", spark_home).await;
    let operator = scene.operator().await;
    let pod_is_made = scene.proxy.hold(POD_IS_MADE, Moment::Before);
    scene.namespace.apply(&application("pi"));
    let held = pod_is_made.caught().await;
    end(operator.kill());
    held.close();
    assert_eq!(scene.namespace.pod("pi-driver").await, None);

    let _operator = scene.operator().await;
    let driver = scene.is_submitted_once(&TOLD).await;
    scene.completes(&[&driver]).await;
}

async fn what_a_spark_submit_makes_while_there_is_no_operator_is_refused(spark_home: &Path) {
    let scene = Scene::new("killed-alone", spark_home).await;
    let operator = scene.operator().await;
    let pod_is_made = scene.proxy.hold(POD_IS_MADE, Moment::Before);
    scene.namespace.apply(&application("pi"));
    let held = pod_is_made.caught().await;
    let orphans = operator.kill();
    held.release();
    // Nobody answers for the webhook.
    have_ended(&orphans).await;
    assert_eq!(scene.namespace.pod("pi-driver").await, None);

    let _operator = scene.operator().await;
    let driver = scene.is_submitted_once(&TOLD).await;
    scene.completes(&[&driver]).await;
}

async fn killed_before_there_is_a_pod_and_back_before_its_spark_submit_ends_it_has_one_driver(
    spark_home: &Path,
) {
    let scene = Scene::new("killed-and-back", spark_home).await;
    let operator = scene.operator().await;
    let pod_is_made = scene.proxy.hold(POD_IS_MADE, Moment::Before);
    scene.namespace.apply(&application("pi"));
    let held = pod_is_made.caught().await;
    let orphans = operator.kill();

    let operator = scene.operator().await;
    held.release();
    let driver = scene.is_submitted_once(&TOLD).await;
    // Both have had their chance.
    have_ended(&orphans).await;
    eventually("no spark-submit runs", async || seen(operator.spark_submits().is_empty(), "one runs")).await;
    assert_eq!(scene.namespace.driver_services().await.len(), 1, "the driver's");
    assert_eq!(
        scene.namespace.list::<ConfigMap>().await.len(),
        2,
        "Spark's configuration and the executors' template"
    );
    scene.completes(&[&driver]).await;
}

async fn killed_between_pod_and_configuration_it_replaces_the_half_made_driver(spark_home: &Path) {
    let scene = Scene::new("killed-half-made", spark_home).await;
    let operator = scene.operator().await;
    let configuration_is_made = scene.proxy.hold(CONFIGURATION_IS_MADE, Moment::Before);
    scene.namespace.apply(&application("pi"));
    let held = configuration_is_made.caught().await;
    let half_made = scene.driver().await;
    end(operator.kill());
    held.close();

    let _operator = scene.operator().await;
    let driver = scene.is_submitted_once(&TOLD).await;
    assert_ne!(driver, half_made);
    scene.completes(&[&half_made, &driver]).await;
}

async fn killed_between_pod_and_configuration_it_adopts_the_driver_that_its_spark_submit_completes(
    spark_home: &Path,
) {
    let scene = Scene::new("killed-in-the-making", spark_home).await;
    let operator = scene.operator().await;
    let configuration_is_made = scene.proxy.hold(CONFIGURATION_IS_MADE, Moment::Before);
    scene.namespace.apply(&application("pi"));
    let held = configuration_is_made.caught().await;
    let in_the_making = scene.driver().await;
    let orphans = operator.kill();

    let driver_is_looked_for = scene.proxy.hold(DRIVER_IS_LOOKED_FOR, Moment::After);
    let operator = scene.operator().await;
    driver_is_looked_for.caught().await.release();
    held.release();
    have_ended(&orphans).await;
    assert_eq!(scene.is_submitted_once(&TOLD).await, in_the_making);
    assert_eq!(submissions(&operator), 1, "the first operator's");
    scene.completes(&[&in_the_making]).await;
}

async fn killed_before_its_submission_is_recorded_it_adopts_the_driver(spark_home: &Path) {
    let scene = Scene::new("killed-unrecorded", spark_home).await;
    let operator = scene.operator().await;
    let failing = scene.proxy.hold(STATUS_IS_WRITTEN, Moment::Before);
    let again = scene.proxy.hold(STATUS_IS_WRITTEN, Moment::Before);
    scene.namespace.apply(&application("pi"));
    failing.caught().await.close();
    let held = again.caught().await;
    assert!(operator.log().contains("write of the status failed"), "it was told of the first one");
    let driver = scene.driver().await;
    assert!(operator.kill().is_empty());
    held.close();
    assert!(scene.namespace.application("pi").await["status"].is_null());

    let operator = scene.operator().await;
    assert_eq!(scene.is_submitted_once(&TOLD).await, driver);
    assert_eq!(submissions(&operator), 1, "the first operator's");
    scene.completes(&[&driver]).await;
}

async fn killed_while_its_submission_is_recorded_it_does_not_submit_again(spark_home: &Path) {
    let scene = Scene::new("killed-recording", spark_home).await;
    let operator = scene.operator().await;
    let status_is_written = scene.proxy.hold(STATUS_IS_WRITTEN, Moment::After);
    scene.namespace.apply(&application("pi"));
    let held = status_is_written.caught().await;
    assert!(operator.kill().is_empty());
    held.close();

    let operator = scene.operator().await;
    let driver = scene.is_submitted_once(&UNTOLD).await;
    scene.completes(&[&driver]).await;
    assert_eq!(submissions(&operator), 1, "the first operator's");
}

async fn a_lost_reply_to_the_status_write_does_not_submit_again(spark_home: &Path) {
    let scene = Scene::new("lost-status-reply", spark_home).await;
    let operator = scene.operator().await;
    let status_is_written = scene.proxy.hold(STATUS_IS_WRITTEN, Moment::After);
    scene.namespace.apply(&application("pi"));
    status_is_written.caught().await.close();
    eventually("the operator is told of the failure", async || {
        seen(operator.log().contains("write of the status failed"), operator.log())
    })
    .await;
    let driver = scene.is_submitted_once(&UNTOLD).await;
    scene.completes(&[&driver]).await;
    assert_eq!(submissions(&operator), 1);
}

async fn a_lost_reply_to_the_pods_creation_leaves_one_whole_driver(spark_home: &Path) {
    let scene = Scene::new("lost-pod-reply", spark_home).await;
    let operator = scene.operator().await;
    let pod_is_made = scene.proxy.hold(POD_IS_MADE, Moment::After);
    scene.namespace.apply(&application("pi"));
    let held = pod_is_made.caught().await;
    let half_made = scene.driver().await;
    // `spark-submit` tries again, finds its own pod, and gives up.
    held.reset();
    let driver = scene.is_submitted_once(&TOLD).await;
    assert_ne!(driver, half_made);
    assert_eq!(submissions(&operator), 2);
    scene.completes(&[&half_made, &driver]).await;
}

async fn a_submission_whose_connection_is_closed_fails_and_leaves_no_half_made_driver(spark_home: &Path) {
    let scene = Scene::new("closed-connection", spark_home).await;
    let operator = scene.operator().await;
    let pod_is_made = scene.proxy.hold(POD_IS_MADE, Moment::After);
    scene.namespace.apply(&application("pi"));
    // Unlike a connection that is reset, this is nothing that `spark-submit` tries again.
    pod_is_made.caught().await.close();
    let failed = scene.namespace.reaches("pi", "FAILED").await;
    assert_eq!(
        failed["status"]["applicationState"]["errorMessage"],
        "failed to run spark-submit: Connection was closed"
    );
    assert_eq!(failed["status"]["submissionAttempts"], 1);
    assert_eq!(scene.namespace.pod("pi-driver").await, None);
    assert_eq!(submissions(&operator), 1);
}

/// What is told of a submission.
const TOLD: [&str; 2] = ["SparkApplicationAdded", "SparkApplicationSubmitted"];
/// An event that is to follow a status write is lost with its reply.
const UNTOLD: [&str; 1] = ["SparkApplicationAdded"];

/// Application `pi` and whoever has to do with it.
struct Scene {
    namespace: Namespace,
    proxy: Proxy,
    spark_home: PathBuf,
}

impl Scene {
    async fn new(name: &'static str, spark_home: &Path) -> Self {
        let namespace = Namespace::new(name).await;
        Self { namespace, proxy: Proxy::start().await, spark_home: spark_home.to_owned() }
    }

    async fn operator(&self) -> Operator {
        let setup = Operator::with(&self.namespace).through(&self.proxy).spark_home(&self.spark_home);
        setup.start().await
    }

    /// The uid of the driver's pod.
    async fn driver(&self) -> String {
        let pod = self.namespace.pod("pi-driver").await.unwrap();
        pod["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Waits until `pi` is submitted, and sees that it was only once and that its driver is whole; gives the
    /// driver's uid.
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
        let files = Path::new("/tmp/spark").join(status["submissionID"].as_str().unwrap());
        assert!(!files.exists(), "{} may hold secrets", files.display());
        let events = namespace.events_up_to(told.last().unwrap()).await;
        assert_eq!(events.iter().map(|event| &event[1]).collect::<Vec<_>>(), told);
        uid.as_str().unwrap().to_owned()
    }

    /// Lets the driver run to its end, and sees that nothing else has ever happened: these were the drivers
    /// that were made.
    async fn completes(&self, drivers: &[&str]) {
        let namespace = &self.namespace;
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
        assert_eq!(namespace.drivers_ever().await, drivers);
    }
}

/// The one `spark-submit` ends with its operator, as when a container does.
fn end(orphans: Vec<Orphan>) {
    assert_eq!(orphans.len(), 1);
    drop(orphans);
}

/// Waits until the one `spark-submit` has ended by itself.
async fn have_ended(orphans: &[Orphan]) {
    assert_eq!(orphans.len(), 1);
    eventually("the orphaned spark-submit has ended", async || seen(!orphans[0].is_alive(), "it is alive"))
        .await;
}

/// How many `spark-submit`s this test's operators have started.
fn submissions(operator: &Operator) -> usize {
    operator.log().matches("spark-submit started").count()
}
