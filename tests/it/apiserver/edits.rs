//! Tests manifests that are applied repeatedly while their application runs.

use crate::apiserver::prelude::*;

/// The ways in which the same manifest is applied repeatedly: the name of the application, and the arguments of
/// `kubectl`. They include those of Argo CD and Flux, which use `kubectl`'s own code.
const WAYS: [(&str, &[&str]); 3] = [
    ("applied", &["apply", "-f", "-"]),
    ("applied-by-the-server", &["apply", "--server-side", "-f", "-"]),
    ("replaced", &["replace", "-f", "-"]),
];

/// Needs an operator that reviews applications.
pub(super) async fn a_reapplied_manifest_starts_no_run_and_causes_no_drift(namespace: &Namespace) {
    for (name, again) in WAYS {
        let mut manifest = application(name);
        manifest["metadata"]["namespace"] = json!(namespace.name);
        manifest["spec"]["arguments"] = json!([]);
        let first = if again[0] == "replace" { &["create", "-f", "-"][..] } else { again };
        kubectl_with(&manifest, first);
        namespace.reaches(name, "SUBMITTED").await;
        namespace.runs(name).await;
        // `kubectl replace` removes the defaults that the webhook has added.
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
