//! Proves that native submission creates each object of a driver exactly once, whenever the operator is killed.

use super::{
    applications::{application, owned_by},
    kubectl::{kubectl, kubectl_with},
    kubelet,
    namespace::Namespace,
    operator::{Operator, stand_in},
    proxy::{Call, Moment, Proxy},
    submission_node::SubmissionNode,
};
use api::SparkApplication;
use k8s_openapi::api::{
    core::v1::{ConfigMap, PersistentVolumeClaim, ResourceQuota, Service},
    networking::v1::NetworkPolicy,
};
use serde_json::{Value, json};

const CONFIG_MAP_IS_MADE: Call = Call { method: "POST", path: "/configmaps" };
const SERVICE_IS_MADE: Call = Call { method: "POST", path: "/services" };
const POD_IS_MADE: Call = Call { method: "POST", path: "/pods" };

/// The driver has a PersistentVolumeClaim that Spark generates, and the NetworkPolicy of all drivers since Spark 4.2.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_claim_and_a_network_policy_come_with_the_driver_and_go_with_the_run() {
    let namespace = Namespace::new("native-claim").await;
    namespace.clear::<PersistentVolumeClaim>().await;
    namespace.clear::<NetworkPolicy>().await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let mut pi = application("pi");
    pi["spec"]["sparkVersion"] = json!("4.2.1");
    let volume = "spark.kubernetes.driver.volumes.persistentVolumeClaim.data";
    pi["spec"]["sparkConf"] = json!({
        format!("{volume}.mount.path"): "/data",
        format!("{volume}.options.claimName"): "OnDemand",
        format!("{volume}.options.storageClass"): "standard",
        format!("{volume}.options.sizeLimit"): "1Gi",
    });
    // The operator is killed before it creates the driver, so the next operator has to find claim and NetworkPolicy.
    let trap = proxy.hold(POD_IS_MADE, Moment::Before);
    namespace.apply(&pi);
    let held = trap.caught().await;
    operator.kill();
    held.close();
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    namespace.reaches("pi", "SUBMITTED").await;
    assert_eq!(operator.metric(&submissions("succeeded")).await, Ok(1.0));
    let submitted = namespace.application("pi").await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    let (claims, policies) =
        (namespace.list::<PersistentVolumeClaim>().await, namespace.list::<NetworkPolicy>().await);
    assert_eq!((claims.len(), policies.len()), (1, 1), "{claims:?} {policies:?}");
    for made in claims.iter().chain(&policies) {
        assert_eq!(made["metadata"]["ownerReferences"], owned_by(&submitted));
    }
    let is_mounted =
        |volume: &Value| volume["persistentVolumeClaim"]["claimName"] == claims[0]["metadata"]["name"];
    assert!(driver["spec"]["volumes"].as_array().unwrap().iter().any(is_mounted), "{driver}");

    completes(&namespace).await;
    assert_eq!(namespace.list::<NetworkPolicy>().await, Vec::<Value>::new());
    // A finalizer keeps the claim until no pod uses it. No controller removes the finalizer in this cluster, so the
    // test does.
    let goes = |claim: &Value| !claim["metadata"]["deletionTimestamp"].is_null();
    assert!(namespace.list::<PersistentVolumeClaim>().await.iter().all(goes));
    let free = json!({"metadata": {"finalizers": null}});
    for claim in namespace.list::<PersistentVolumeClaim>().await {
        let name = claim["metadata"]["name"].as_str().unwrap();
        namespace.merge::<PersistentVolumeClaim>(name, &free);
    }
}

/// The driver, and one object of each kind that comes with it. A lost reply does not make the application fail.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_lost_reply_is_tried_again_and_finds_what_it_has_made() {
    let namespace = Namespace::new("native-lost").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let lost = [SERVICE_IS_MADE, CONFIG_MAP_IS_MADE, POD_IS_MADE].map(|call| proxy.hold(call, Moment::After));
    namespace.apply(&application("pi"));
    for trap in lost {
        trap.caught().await.close();
    }
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    is_whole(&namespace, &submitted, &driver).await;
    completes(&namespace).await;
    assert_eq!(namespace.drivers_ever().await, [driver["metadata"]["uid"].as_str().unwrap()]);
    assert_eq!(operator.metric(&submissions("driver_exists")).await, Ok(1.0));
}

/// Returns the metric that counts native submissions with this outcome.
fn submissions(outcome: &str) -> String {
    format!("spark_operator_submission_duration_seconds_count{{submitter=\"native\",outcome=\"{outcome}\"}}")
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn what_the_api_server_refuses_is_said_in_its_words_and_nothing_is_left() {
    let namespace = Namespace::new("native-refused").await;
    let _operator = Operator::start(&namespace).await;
    let quota = json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": namespace.name},
        "spec": {"hard": {"pods": "0"}},
    });
    namespace.apply(&quota);
    let full = json!({"hard": {"pods": "0"}, "used": {"pods": "0"}});
    namespace.patch_status::<ResourceQuota>("few", &full).await;
    let message = refused(&namespace).await;
    assert!(
        message.starts_with(
            "failed to create Pod pi-driver: pods \"pi-driver\" is forbidden: exceeded quota: few"
        ),
        "{message}"
    );
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_configuration_that_no_config_map_can_hold_is_refused_with_its_name() {
    let namespace = Namespace::new("native-large").await;
    let _operator = Operator::start(&namespace).await;
    let mut large = application("pi");
    // A spec may have 768 KiB. In a properties file, Java escapes each colon with a backslash, so the file becomes too
    // large.
    let colons = ":".repeat(200_000);
    large["spec"]["sparkConf"] = json!({"spark.a": colons, "spark.b": colons, "spark.c": colons});
    // `kubectl apply` would store a copy in an annotation, for which there is no room.
    namespace.create::<SparkApplication>(&large).await;
    let failed = namespace.reaches("pi", "FAILED").await;
    let message = failed["status"]["applicationState"]["errorMessage"].as_str().unwrap();
    assert!(
        message.starts_with("failed to create ConfigMap spark-drv-") && message.contains("1048576"),
        "{message}"
    );
    assert_eq!(namespace.list::<Service>().await, Vec::<Value>::new());
    namespace.clear::<SparkApplication>().await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn in_a_namespace_that_is_being_deleted_nothing_is_begun() {
    let namespace = Namespace::new("native-doomed").await;
    namespace.apply(&application("pi"));
    kubectl(&["delete", "namespace", namespace.name, "--wait=false"]);
    {
        let _operator = Operator::start(&namespace).await;
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

/// Applies `pi`, whose driver is not admitted; asserts that `pi` fails at once and leaves nothing behind. Returns the
/// message.
async fn refused(namespace: &Namespace) -> String {
    namespace.apply(&application("pi"));
    let failed = namespace.reaches("pi", "FAILED").await;
    assert_eq!(failed["status"]["submissionAttempts"], 1);
    assert_eq!(namespace.list::<ConfigMap>().await, Vec::<Value>::new());
    assert_eq!(namespace.list::<Service>().await, Vec::<Value>::new());
    failed["status"]["applicationState"]["errorMessage"].as_str().unwrap().to_owned()
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn somebody_elses_object_of_a_childs_name_is_left_alone() {
    let namespace = Namespace::new("native-foreign").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let trap = proxy.hold(SERVICE_IS_MADE, Moment::After);
    namespace.apply(&application("pi"));
    let held = trap.caught().await;
    operator.kill();
    held.close();
    let [service] = &namespace.list::<Service>().await[..] else { panic!("one Service") };
    let name = service["metadata"]["name"].as_str().unwrap();
    namespace.merge::<Service>(name, &json!({"metadata": {"ownerReferences": null}}));

    let _operator = Operator::with(&namespace).through(&proxy).start().await;
    let failed = namespace.reaches("pi", "FAILED").await;
    let message = &failed["status"]["applicationState"]["errorMessage"];
    let expected = format!("Service {name} already exists and is not this application's: delete it");
    assert_eq!(message, &expected);
    assert_eq!(namespace.pod("pi-driver").await, None);
    let services = namespace.list::<Service>().await;
    assert_eq!(services.iter().map(|service| &service["metadata"]["name"]).collect::<Vec<_>>(), [name]);
}

/// The first run is never recorded, and a run of the edited application takes its place.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn killed_halfway_and_edited_meanwhile_it_leaves_nothing_of_the_first_try() {
    let namespace = Namespace::new("native-edited").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let trap = proxy.hold(POD_IS_MADE, Moment::After);
    namespace.apply(&application("pi"));
    let held = trap.caught().await;
    operator.kill();
    held.close();
    let mut edited = application("pi");
    edited["spec"]["arguments"] = json!(["5"]);
    namespace.apply(&edited);

    let _operator = Operator::with(&namespace).through(&proxy).start().await;
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    let arguments = driver["spec"]["containers"][0]["args"].as_array().unwrap();
    assert_eq!(arguments.last().unwrap(), "5");
    is_whole(&namespace, &submitted, &driver).await;
    completes(&namespace).await;
}

/// The operator leaves an application with a feature step of the user's to `spark-submit`, and counts such applications.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn what_only_spark_submit_can_do_is_left_to_it_and_said() {
    let namespace = Namespace::new("native-fallback").await;
    let _node = SubmissionNode::of(&namespace, &stand_in()).start().await;
    let operator = Operator::start(&namespace).await;
    let mut odd = application("pi");
    odd["spec"]["sparkConf"] = json!({"spark.kubernetes.driver.pod.featureSteps": "com.example.Step"});
    namespace.apply(&odd);
    namespace.reaches("pi", "SUBMITTED").await;
    assert_eq!(namespace.submission_pods_ever().await.len(), 1);
    let fallbacks = "spark_operator_submission_fallbacks_total{reason=\"feature-steps\"}";
    assert_eq!(operator.metric(fallbacks).await, Ok(1.0));
    let note = "submitted by spark-submit in a pod, since only that can do this: \
                spec.sparkConf[spark.kubernetes.driver.pod.featureSteps]: `com.example.Step` is code that is to change the driver's pod";
    let events = namespace.events().await;
    assert!(
        events.iter().any(|[_, reason, _, said]| reason == "SparkApplicationSubmissionNote" && said == note),
        "{events:?}"
    );
}

/// Asserts that each object of the run exists once, and is owned by the application.
async fn is_whole(namespace: &Namespace, submitted: &Value, driver: &Value) {
    let status = &submitted["status"];
    for field in ["executionAttempts", "submissionAttempts"] {
        assert_eq!(status[field], 1, "{field}: {status}");
    }
    // If the application was edited before its first run was recorded, that run counts only if it already had a driver.
    assert_eq!(status["runOrdinal"], namespace.drivers_ever().await.len(), "{status}");
    let (config_maps, services) = (namespace.list::<ConfigMap>().await, namespace.driver_services().await);
    assert_eq!((config_maps.len(), services.len()), (2, 1));
    for made in config_maps.iter().chain(&services).chain([driver]) {
        let metadata = &made["metadata"];
        assert_eq!(metadata["ownerReferences"], owned_by(submitted));
        assert_eq!(metadata["labels"]["sparkoperator.k8s.io/app-name"], "pi");
        assert_eq!(metadata["labels"]["sparkoperator.k8s.io/submission-id"], status["submissionID"]);
    }
    let names: Vec<_> = config_maps.iter().map(|made| &made["metadata"]["name"]).collect();
    let volumes = driver["spec"]["volumes"].as_array().unwrap().iter();
    for needed in volumes.filter_map(|volume| volume.get("configMap")) {
        assert!(names.contains(&&needed["name"]), "{needed}");
    }
}

/// Plays a driver that runs and ends with exit code 0. Asserts that the application is COMPLETED, and that the
/// ConfigMaps and the Service of the run are deleted.
async fn completes(namespace: &Namespace) {
    kubelet::runs(namespace, "pi-driver").await;
    namespace.reaches("pi", "RUNNING").await;
    kubelet::ends(namespace, "pi-driver", 0).await;
    namespace.reaches("pi", "COMPLETED").await;
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMITTED", "RUNNING", "SUCCEEDING", "COMPLETED"]);
    assert_eq!(namespace.list::<ConfigMap>().await, Vec::<Value>::new());
    assert_eq!(namespace.driver_services().await, Vec::<Value>::new());
}
