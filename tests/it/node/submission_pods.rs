//! Proves that applications which only Spark's own client can submit run to their end: `spark-submit` runs in a pod of
//! the application's namespace.

use super::{
    application, apply, delete, followed,
    injector::injector,
    install, left_of, message,
    native::{image, python_job, spark_version},
    node_address, pod, pods, printed, state_is, until, until_event,
    web_hdfs::WebHdfs,
};
use crate::apiserver::{prelude::*, submission_node::account_objects};

pub(super) const JOB: &str = "tests/data/node/submission_pods/job.py";

#[test]
#[ignore = "needs a node: make test"]
fn files_of_the_image_and_of_a_volume_are_uploaded_and_found() {
    let _shared = install();
    let store = WebHdfs::start(&node_address());
    let name = "uploads";
    let mut job = python_job(name, "submission-job", JOB);
    job["spec"]["mainApplicationFile"] = json!("file:///opt/job/job.py");
    job["spec"]["arguments"] = json!(["RELEASE"]);
    job["spec"]["deps"] = json!({"files": ["file:///opt/spark/RELEASE"]});
    job["spec"]["sparkConf"] = json!({"spark.kubernetes.file.upload.path": format!("{}/uploads", store.url)});
    apply(&job);

    let pod = submission_pod(name);
    let submits = pod["metadata"]["name"].as_str().unwrap();
    assert_eq!(pod["spec"]["serviceAccountName"], "spark");
    assert_eq!(pod["spec"]["containers"][0]["image"], job["spec"]["image"]);
    until("the status says what it waits for", || {
        message(name) == format!("submission pod {submits}: spark-submit is running")
    });
    assert_eq!(application(name)["status"]["applicationState"]["state"], Value::Null);

    let states = followed(name);
    assert_eq!(states, ["SUBMITTED", "RUNNING", "SUCCEEDING", "COMPLETED"], "{}", message(name));
    let release = "assembled from its PyPI package";
    for role in ["driver", "executor"] {
        let found = printed(&format!("{name}-driver"), &format!("{role} finds RELEASE: "));
        assert!(found.ends_with(release), "{role}: {found}");
    }
    let files = store.files();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["RELEASE", "job.py"]);
    assert_eq!(files["job.py"], fs::read_to_string(JOB).unwrap());
    assert!(files["RELEASE"].contains(release), "{files:?}");

    let note = "submitted by spark-submit in a pod, since only that can do this";
    until_event(&format!("sparkapplication/{name}"), &[note, "is to be uploaded"]);
    nothing_is_left_of_the_submission(name);
    delete(name);
}

/// The strictest Pod Security level refuses every pod with incomplete security contexts; those of the example and of the
/// sidecar are complete.
#[test]
#[ignore = "needs a node: make test"]
fn a_submission_pod_in_a_restricted_namespace_ends_despite_a_sidecar() {
    let _shared = install();
    let _namespace = restricted("meshed");
    let (injector, registered) = injector(&node_address(), "meshed");
    let mut pi: Value = yaml(Path::new("manifests/examples/spark-pi.yaml"));
    let annotations = json!({"sparkoperator.k8s.io/submitter": "spark-submit"});
    pi["metadata"] = json!({"name": "meshed-pi", "namespace": "meshed", "annotations": annotations});
    pi["spec"]["arguments"] = json!(["2"]);
    pi["spec"]["image"] = json!(image());
    pi["spec"]["sparkVersion"] = json!(spark_version());
    apply(&pi);
    state_is("meshed/meshed-pi", "COMPLETED");
    let in_it = |arguments: &[&str]| kubectl(&[&["--namespace=meshed"], arguments].concat());
    assert!(in_it(&["logs", "meshed-pi-driver"]).contains("Pi is roughly 3."));
    assert_eq!(injector.asked(), 1);

    // A submission that fails ends as well.
    let mut failing = pi.clone();
    failing["metadata"]["name"] = json!("meshed-failure");
    failing["spec"]["sparkConf"] = json!({"spark.kubernetes.driver.pod.featureSteps": "org.example.Missing"});
    apply(&failing);
    state_is("meshed/meshed-failure", "FAILED");
    assert_eq!(injector.asked(), 2);
    let why = message("meshed/meshed-failure");
    assert!(why.starts_with("failed to run spark-submit: "), "{why}");
    assert!(why.contains("java.lang.ClassNotFoundException: org.example.Missing"), "{why}");
    until("a warning has the exception", || {
        let events = ["events", "--for=sparkapplication/meshed-failure", "--types=Warning"];
        in_it(&events).contains("java.lang.ClassNotFoundException: org.example.Missing")
    });
    until("no submission pod is left", || {
        in_it(&["get", "pods", "--selector=spark-role=submission", "--output=name"]).is_empty()
    });
    drop(registered);

    // Without the driver's security context the API server reports the missing fields.
    pi["metadata"]["name"] = json!("unrestricted-pi");
    pi["spec"]["driver"].as_object_mut().unwrap().remove("securityContext");
    apply(&pi);
    state_is("meshed/unrestricted-pi", "FAILED");
    let why = message("meshed/unrestricted-pi");
    assert!(why.contains("violates PodSecurity") && why.contains("capabilities.drop"), "{why}");
}

/// Creates a namespace at the strictest Pod Security level, with the service account for drivers that the manifests create in
/// `default`. It is deleted with its contents when the returned value is dropped.
fn restricted(name: &'static str) -> Finally {
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}));
    account_objects(name).iter().for_each(apply);
    Finally::new(move || drop(kubectl(&["delete", "namespace", name, "--wait=false"])))
}

/// Returns the submission pod of an application, as soon as the pod exists.
fn submission_pod(name: &str) -> Value {
    until("there is a submission pod", || !pods(name, "submission").is_empty());
    pod(name, "submission")
}

fn nothing_is_left_of_the_submission(name: &str) {
    let is_of_submission = |name: &String| name.contains("-submission");
    until("nothing is left of the submission", || !left_of(name).iter().any(is_of_submission));
}
