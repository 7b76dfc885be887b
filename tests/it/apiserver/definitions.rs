//! Proves that the API server accepts and uses our CRDs as intended.

use super::lifecycle::exposure;
use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn the_api_server_accepts_crds_and_examples_and_refuses_malformed_objects() {
    let namespace = Namespace::new("definitions").await;
    the_crds_are_established_and_can_be_applied_again();
    every_example_is_accepted_in_every_field();
    exposure::kubernetes_accepts_the_objects_of_every_golden_case(&namespace);
    malformed_applications_are_refused_with_the_field(&namespace);
}

fn the_crds_are_established_and_can_be_applied_again() {
    // Another test may have changed the CRDs of this cluster, and stored them by server-side apply.
    kubectl(&["apply", "-f", "manifests/crds"]);
    // Client-side apply stores the whole object in an annotation, for which the CRDs of Kubeflow's operator are too
    // large.
    for _ in 0..2 {
        assert_eq!(
            kubectl(&["apply", "-f", "manifests/crds"]),
            "customresourcedefinition.apiextensions.k8s.io/scheduledsparkapplications.sparkoperator.k8s.io unchanged\n\
             customresourcedefinition.apiextensions.k8s.io/sparkapplications.sparkoperator.k8s.io unchanged\n\
             customresourcedefinition.apiextensions.k8s.io/sparkconnects.sparkoperator.k8s.io unchanged\n"
        );
    }
    for kind in ["sparkapplications", "scheduledsparkapplications", "sparkconnects"] {
        let crd = &format!("{kind}.sparkoperator.k8s.io");
        let crd: Value = serde_json::from_str(&kubectl(&["get", "crd", crd, "--output=json"])).unwrap();
        let conditions = crd["status"]["conditions"].as_array().unwrap();
        let conditions: BTreeSet<_> = conditions
            .iter()
            .map(|condition| (condition["type"].as_str(), condition["status"].as_str()))
            .collect();
        // There is no condition NonStructuralSchema, by which the API server reports a schema that breaks its rules.
        let expected = ["Established", "KubernetesAPIApprovalPolicyConformant", "NamesAccepted"];
        assert_eq!(conditions, expected.map(|name| (Some(name), Some("True"))).into());
    }
}

fn every_example_is_accepted_in_every_field() {
    let accepted = kubectl(&[
        "apply", "--dry-run=server", "--validate=strict", "--output=name", "-f", "manifests/examples",
    ]);
    let ours = accepted.lines().filter(|line| line.contains(".sparkoperator.k8s.io/")).count();
    assert_eq!(
        ours,
        fs::read_dir("manifests/examples").unwrap().count(),
        "one object of ours a file:\n{accepted}"
    );
}

fn malformed_applications_are_refused_with_the_field(namespace: &Namespace) {
    for (changes, complaint) in yaml::<Vec<(Value, String)>>(&data("apiserver/malformed.yaml")) {
        let mut malformed = application("malformed");
        json_patch::merge(&mut malformed["spec"], &changes);
        let refused = calls::tried_in(namespace.name, &malformed).unwrap_err();
        assert!(refused.contains(&format!("\"malformed\" is invalid: {complaint}")), "{refused}");
    }
}

/// Stores an object as Kubeflow's operator does; returns it as it is stored.
pub(super) async fn an_object_as_kubeflow_stores_it(namespace: &Namespace) -> Value {
    let mut written: Value = yaml(&data("api/sparkapplication.yaml"));
    written["metadata"]["namespace"] = json!(namespace.name);
    written["status"].take();
    json_patch::merge(&mut written, &yaml(&data("apiserver/kubeflows-application.yaml")));
    // Go writes unset times as null.
    written["status"]["terminationTime"] = Value::Null;
    namespace.apply(&written);
    let mut running = namespace.application("everything").await;
    running["status"] = written["status"].clone();
    namespace.replace_status::<SparkApplication>(&running).await;
    let stored = namespace.application("everything").await;
    assert_eq!(stored["spec"], written["spec"]);
    assert_eq!(stored["status"], written["status"]);
    stored
}

/// Asserts that an operator has changed the status alone. The driver does not exist, so that there is a status to write.
pub(super) async fn is_kept_but_for_its_status(namespace: &Namespace, stored: &Value) {
    let failed = namespace.reaches("everything", "FAILED").await;
    assert_eq!(failed["spec"], stored["spec"]);
    let owned = |object: &Value| {
        let mut metadata = object["metadata"].clone();
        metadata["resourceVersion"].take();
        metadata["managedFields"].take();
        metadata
    };
    assert_eq!(owned(&failed), owned(stored));
    let mut expected = stored["status"].clone();
    expected["applicationState"] = json!({"state": "FAILED", "errorMessage": "driver pod not found"});
    expected["executorState"]["everything-exec-1"] = json!("FAILED");
    expected["terminationTime"] = failed["status"]["terminationTime"].clone();
    assert!(expected["terminationTime"].is_string());
    for ours in ["observedGeneration", "specHash", "runs", "conditions"] {
        expected[ours] = failed["status"][ours].clone();
        assert_ne!(expected[ours], Value::Null, "{ours}");
    }
    assert_eq!(failed["status"], expected);
    namespace.events_up_to("SparkApplicationFailed").await;
    assert_eq!(namespace.states_ever("everything").await, ["", "RUNNING", "FAILING", "FAILED"]);
    assert_eq!(namespace.application("everything").await, failed);
}
