//! Tests edits of applications that run: those that are for the next executor, and manifests that are applied again and again.

use crate::apiserver::prelude::*;

pub(super) async fn executors_that_are_made_after_an_edit_follow_it_and_the_driver_goes_on(
    namespace: &Namespace,
) {
    let mut pi = application("pi");
    pi["metadata"]["annotations"] = json!({annotation::PARTIAL_RESTART: "true"});
    pi["spec"]["executor"] = json!({"nodeSelector": {"pool": "old"}});
    namespace.apply(&pi);
    namespace.reaches("pi", "SUBMITTED").await;
    namespace.runs("pi").await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    let mut executors = vec![spark::make_executor(namespace, &driver, 1).await];

    let toleration = json!({"key": "pool", "operator": "Equal", "value": "new", "effect": "NoSchedule"});
    pi["spec"]["executor"] = json!({"nodeSelector": {"pool": "new"}, "tolerations": [toleration]});
    namespace.apply(&pi);
    let mark = |driver: &Value| driver["metadata"]["annotations"][annotation::TEMPLATE].clone();
    let is_marked = |there: &Value| there.is_object() && mark(there) != mark(&driver);
    namespace.until::<Pod>("pi-driver", "is marked with another template", is_marked).await;
    executors.push(spark::make_executor(namespace, &driver, 2).await);
    namespace.has_event("SparkApplicationWebhookFieldsUpdated", |_| true).await;
    let mut made = Vec::new();
    for executor in &executors {
        let pod = namespace.pod(executor).await.unwrap();
        let tolerates = pod["spec"]["tolerations"].as_array().is_some_and(|all| all.contains(&toleration));
        made.push((pod["spec"]["nodeSelector"]["pool"].clone(), tolerates));
    }
    assert_eq!(made, [(json!("old"), false), (json!("new"), true)]);
    assert_eq!(namespace.drivers_ever().await, [driver["metadata"]["uid"].as_str().unwrap()]);
    assert_eq!(namespace.application("pi").await["status"]["runOrdinal"], 1);

    // Any other edit ends the run.
    pi["spec"]["executor"]["cores"] = json!(2);
    namespace.apply(&pi);
    namespace.becomes("pi", "another run is on", |pi| pi["status"]["runOrdinal"] == 2).await;
}

/// The ways by which the same manifest comes again and again: the name of the application, and the arguments of `kubectl`.
/// Argo CD's and Flux's are among them: both have `kubectl`'s own code.
const WAYS: [(&str, &[&str]); 3] = [
    ("applied", &["apply", "-f", "-"]),
    ("applied-by-the-server", &["apply", "--server-side", "-f", "-"]),
    ("replaced", &["replace", "-f", "-"]),
];

/// Needs an operator that reviews applications.
pub(super) async fn a_manifest_that_comes_again_starts_no_run_and_nothing_drifts_from_it(
    namespace: &Namespace,
) {
    for (name, again) in WAYS {
        let mut manifest = application(name);
        manifest["metadata"]["namespace"] = json!(namespace.name);
        manifest["spec"]["arguments"] = json!([]);
        let first = if again[0] == "replace" { &["create", "-f", "-"][..] } else { again };
        kubectl_with(&manifest, first);
        namespace.reaches(name, "SUBMITTED").await;
        namespace.runs(name).await;
        // A manifest that replaces an application takes the defaults away that the webhook has added.
        kubectl_with(&manifest, again);
        let known = namespace.application(name).await["metadata"]["generation"].take();
        for _ in 0..2 {
            kubectl_with(&manifest, again);
        }
        let ended = namespace.completes(name).await;
        assert_eq!(ended["metadata"]["generation"], known, "{ended}");
        assert_eq!(ended["status"]["observedGeneration"], known, "{ended}");
        // Argo CD and `kubectl apply` merge what the manifest says into an object of a kind without a Go type.
        let mut applied = ended.clone();
        json_patch::merge(&mut applied, &manifest);
        assert_eq!(applied, ended, "Argo CD sees no drift");
        assert_eq!(ended["status"]["runs"].as_array().unwrap().len(), 1, "{ended}");
        let writers = ended["metadata"]["managedFields"].as_array().unwrap();
        let mut ours = writers.iter().filter(|entry| entry["manager"] == "spark-operator");
        assert!(ours.all(|entry| entry["subresource"] == "status"), "{writers:?}");
    }
    assert_eq!(namespace.drivers_ever().await.len(), WAYS.len());
}
