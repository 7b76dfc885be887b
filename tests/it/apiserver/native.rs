//! Proves that native submission creates each object of a driver exactly once, whenever the operator is killed.

use super::{lifecycle, proxy::Held};
use crate::apiserver::prelude::*;
use k8s_openapi::api::{core::v1::PersistentVolumeClaim, networking::v1::NetworkPolicy};
use std::slice;

/// An operator is killed while it creates the objects of four drivers, and another one continues.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn each_object_is_created_once_despite_lost_replies_and_a_killed_operator() {
    let lost = Namespace::new("native-lost").await;
    let claim = lost.beside("native-claim").await;
    let foreign = lost.beside("native-foreign").await;
    let edited = lost.beside("native-edited").await;
    let forged = lost.beside("native-forged").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&lost).through(&proxy).start().await;
    a_request_with_a_lost_reply_is_retried_and_finds_its_object(&lost, &proxy).await;
    assert_eq!(operator.metric(&submissions("driver_exists")).await, Ok(1.0));

    let hold = |path: &'static str, moment| proxy.hold(Call { method: "POST", path }, moment);
    let traps = [
        hold("/native-claim/pods", Moment::Before),
        hold("/native-foreign/services", Moment::After),
        hold("/native-edited/pods", Moment::After),
        hold("/native-forged/pods", Moment::Before),
    ];
    claim.apply(&with_a_claim());
    foreign.apply(&application("pi"));
    edited.apply(&application("pi"));
    forged.apply(&application("pi"));
    let mut held = Vec::new();
    for trap in traps {
        held.push(trap.caught().await);
    }
    operator.kill();
    held.into_iter().for_each(Held::close);
    let service = no_longer_ours(&foreign).await;
    let [forgery, service_of_driver] = with_a_forged_config_map(&forged).await;
    let mut edit = application("pi");
    edit["spec"]["arguments"] = json!(["5"]);
    edited.apply(&edit);

    let operator = Operator::with(&lost).through(&proxy).start().await;
    a_claim_and_a_network_policy_exist_as_long_as_the_run(&claim).await;
    a_foreign_object_with_the_name_of_a_child_is_left_alone(&foreign, &service).await;
    an_edit_during_an_interrupted_submission_leaves_no_old_objects(&edited).await;
    a_forged_object_is_replaced_and_the_others_are_kept(&forged, &forgery, &service_of_driver).await;
    assert_eq!(operator.metric(&submissions("succeeded")).await, Ok(3.0));
}

/// Returns an application whose driver has a PersistentVolumeClaim that Spark generates, and the NetworkPolicy of all drivers
/// since Spark 4.2.
fn with_a_claim() -> Value {
    let mut pi = application("pi");
    pi["spec"]["sparkVersion"] = json!("4.2.1");
    let volume = "spark.kubernetes.driver.volumes.persistentVolumeClaim.data";
    pi["spec"]["sparkConf"] = json!({
        format!("{volume}.mount.path"): "/data",
        format!("{volume}.options.claimName"): "OnDemand",
        format!("{volume}.options.storageClass"): "standard",
        format!("{volume}.options.sizeLimit"): "1Gi",
    });
    pi
}

/// The operator was killed before it created the driver, so the next one has to find the claim and the NetworkPolicy.
async fn a_claim_and_a_network_policy_exist_as_long_as_the_run(namespace: &Namespace) {
    namespace.reaches("pi", "SUBMITTED").await;
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

    completes(namespace).await;
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

/// Loses the replies to the creation of the driver and of one object of each kind that it needs; the application must
/// not fail.
async fn a_request_with_a_lost_reply_is_retried_and_finds_its_object(namespace: &Namespace, proxy: &Proxy) {
    let lost = ["/native-lost/services", "/native-lost/configmaps", "/native-lost/pods"]
        .map(|path| proxy.hold(Call { method: "POST", path }, Moment::After));
    namespace.apply(&application("pi"));
    for trap in lost {
        trap.caught().await.close();
    }
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    is_whole(namespace, &submitted, &driver).await;
    completes(namespace).await;
    assert_eq!(namespace.drivers_ever().await, [driver["metadata"]["uid"].as_str().unwrap()]);
}

/// Returns the metric that counts native submissions with this outcome.
fn submissions(outcome: &str) -> String {
    format!("spark_operator_submission_duration_seconds_count{{submitter=\"native\",outcome=\"{outcome}\"}}")
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn failed_native_submissions_are_reported_or_left_to_spark_submit() {
    let refused = Namespace::new("native-refused").await;
    let large = refused.beside("native-large").await;
    let odd = refused.beside("native-fallback").await;
    let doomed = refused.beside("native-doomed").await;
    doomed.apply(&application("pi"));
    kubectl(&["delete", "namespace", doomed.name, "--wait=false"]);
    let _node = SubmissionNode::of(&odd, &stand_in()).start().await;
    let operator = Operator::start(&refused).await;
    a_refusal_of_the_api_server_is_reported_verbatim_and_leaves_nothing(&refused).await;
    a_configuration_too_large_for_a_config_map_is_refused_by_name(&large).await;
    a_feature_step_is_left_to_spark_submit_and_reported(&odd, &operator).await;
    an_application_in_a_terminating_namespace_fails(&doomed).await;
    let foreign = refused.beside("foreign-pod").await;
    a_foreign_pod_with_the_drivers_name_is_reported_and_left_alone(&foreign).await;
    let monitored = refused.beside("monitoring").await;
    lifecycle::monitoring::each_run_has_its_own_config_map(&monitored).await;
    drop(operator);
    // No controller finalizes namespaces in this cluster, so the test does.
    doomed.clear::<SparkApplication>().await;
    let finalized = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": doomed.name}, "spec": {"finalizers": []}});
    let path = format!("/api/v1/namespaces/{}/finalize", doomed.name);
    kubectl_with(&finalized, &["replace", "--raw", &path, "-f", "-"]);
}

async fn a_refusal_of_the_api_server_is_reported_verbatim_and_leaves_nothing(namespace: &Namespace) {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": namespace.name},
        "spec": {"hard": {"pods": "0"}},
    });
    namespace.apply(&quota);
    let full = json!({"hard": {"pods": "0"}, "used": {"pods": "0"}});
    namespace.patch_status::<ResourceQuota>("few", &full).await;
    let message = refused(namespace).await;
    assert!(
        message.starts_with(
            "failed to create Pod pi-driver: pods \"pi-driver\" is forbidden: exceeded quota: few"
        ),
        "{message}"
    );
}

async fn a_configuration_too_large_for_a_config_map_is_refused_by_name(namespace: &Namespace) {
    let mut large = application("pi");
    // A spec may have 768 KiB. In a properties file, Java escapes each colon with a backslash, so the file becomes too
    // large.
    let colons = ":".repeat(200_000);
    large["spec"]["sparkConf"] = json!({"spark.a": colons, "spark.b": colons, "spark.c": colons});
    // `kubectl apply` would store a copy in an annotation, for which there is no room.
    namespace.create::<SparkApplication>(&large).await;
    let message = namespace.failure("pi").await;
    assert!(
        message.starts_with("failed to create ConfigMap spark-drv-") && message.contains("1048576"),
        "{message}"
    );
    assert_eq!(namespace.list::<Service>().await, Vec::<Value>::new());
}

async fn a_foreign_pod_with_the_drivers_name_is_reported_and_left_alone(namespace: &Namespace) {
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
        "no submission pod was needed to detect it"
    );
}

async fn an_application_in_a_terminating_namespace_fails(namespace: &Namespace) {
    let message = namespace.failure("pi").await;
    assert!(message.contains("because it is being terminated"), "{message}");
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

/// Removes the owner of the Service that the killed operator has created. Returns the Service's name.
async fn no_longer_ours(namespace: &Namespace) -> String {
    let [service] = &namespace.list::<Service>().await[..] else { panic!("one Service") };
    let name = service["metadata"]["name"].as_str().unwrap();
    namespace.merge::<Service>(name, &json!({"metadata": {"ownerReferences": null}}));
    name.to_owned()
}

async fn a_foreign_object_with_the_name_of_a_child_is_left_alone(namespace: &Namespace, name: &str) {
    let expected = format!("Service {name} already exists and is not this application's: delete it");
    assert_eq!(namespace.failure("pi").await, expected);
    assert_eq!(namespace.pod("pi-driver").await, None);
    let services = namespace.list::<Service>().await;
    assert_eq!(services.iter().map(|service| &service["metadata"]["name"]).collect::<Vec<_>>(), [name]);
}

/// Replaces the driver's ConfigMap, which the killed operator has created, with one that has the same owner and labels, but
/// other properties. Returns that ConfigMap and the driver's Service.
async fn with_a_forged_config_map(namespace: &Namespace) -> [Value; 2] {
    let mut config_maps = namespace.list::<ConfigMap>().await;
    config_maps.retain(|config_map| config_map["data"]["spark.properties"].is_string());
    let [config_map] = &mut config_maps[..] else { panic!("one ConfigMap of the driver") };
    let metadata = ["name", "labels", "ownerReferences"];
    config_map["metadata"].as_object_mut().unwrap().retain(|field, _| metadata.contains(&field.as_str()));
    config_map["apiVersion"] = "v1".into();
    config_map["kind"] = "ConfigMap".into();
    let properties = config_map["data"]["spark.properties"].as_str().unwrap();
    config_map["data"]["spark.properties"] = format!("{properties}spark.jars=forged.jar\n").into();
    namespace.delete::<ConfigMap>(config_map["metadata"]["name"].as_str().unwrap()).await;
    let forgery = namespace.create::<ConfigMap>(config_map).await;
    let [service] = &namespace.driver_services().await[..] else { panic!("one Service") };
    [forgery, service.clone()]
}

/// In an earlier version, the driver got the forged properties.
async fn a_forged_object_is_replaced_and_the_others_are_kept(
    namespace: &Namespace,
    forgery: &Value,
    service: &Value,
) {
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    is_whole(namespace, &submitted, &driver).await;
    let config_map = namespace.get::<ConfigMap>(forgery["metadata"]["name"].as_str().unwrap()).await.unwrap();
    assert_ne!(config_map["metadata"]["uid"], forgery["metadata"]["uid"]);
    assert!(!config_map["data"]["spark.properties"].as_str().unwrap().contains("forged.jar"), "{config_map}");
    assert_eq!(namespace.driver_services().await, slice::from_ref(service));
    completes(namespace).await;
}

/// The first run is never recorded, and a run of the edited application takes its place.
async fn an_edit_during_an_interrupted_submission_leaves_no_old_objects(namespace: &Namespace) {
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    let arguments = driver["spec"]["containers"][0]["args"].as_array().unwrap();
    assert_eq!(arguments.last().unwrap(), "5");
    is_whole(namespace, &submitted, &driver).await;
    completes(namespace).await;
}

/// The operator leaves an application with a feature step of the user's to `spark-submit`, and counts such applications.
async fn a_feature_step_is_left_to_spark_submit_and_reported(namespace: &Namespace, operator: &Operator) {
    let mut odd = application("pi");
    odd["spec"]["sparkConf"] = json!({"spark.kubernetes.driver.pod.featureSteps": "com.example.Step"});
    namespace.apply(&odd);
    namespace.reaches("pi", "SUBMITTED").await;
    assert_eq!(namespace.submission_pods_ever().await.len(), 1);
    let fallbacks = "spark_operator_submission_fallbacks_total{reason=\"feature-steps\"}";
    assert_eq!(operator.metric(fallbacks).await, Ok(1.0));
    let note = "submitted by spark-submit in a pod, since only that can do this: \
                spec.sparkConf[spark.kubernetes.driver.pod.featureSteps]: `com.example.Step` is code that is to change the driver's pod";
    namespace.has_event("SparkApplicationSubmissionNote", |event| event["note"] == note).await;
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
    namespace.runs("pi").await;
    namespace.completes("pi").await;
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMITTED", "RUNNING", "SUCCEEDING", "COMPLETED"]);
    assert_eq!(namespace.list::<ConfigMap>().await, Vec::<Value>::new());
    assert_eq!(namespace.driver_services().await, Vec::<Value>::new());
}
