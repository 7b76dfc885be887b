//! Proves that the ConfigMap of an application's monitoring exists before the pods that mount it and is deleted after
//! them, also where `spark-submit` creates the driver.

use super::{application, edit, edit_spec, ended, running, submitted};
use crate::apiserver::prelude::*;

const NAME: &str = "pi-prom-conf";
const SUBMISSION_ID: &str = "sparkoperator.k8s.io/submission-id";

pub(in crate::apiserver) async fn each_run_has_its_own_config_map(namespace: &Namespace) {
    let _node = SubmissionNode::of(namespace, &stand_in()).start().await;
    namespace.apply(&monitored());
    let first = of_run(namespace, 1).await;
    let files: Vec<_> = first["data"].as_object().unwrap().keys().collect();
    assert_eq!(files, ["metrics.properties", "prometheus.yaml"]);
    ended(namespace, "pi", 1, 0).await;
    namespace.reaches("pi", "COMPLETED").await;
    namespace.is_gone::<ConfigMap>(NAME).await;

    let again = json!({"metadata": {"annotations": {"sparkoperator.k8s.io/rerun": "again"}}});
    edit(namespace, "pi", &again);
    let second = of_run(namespace, 2).await;
    assert_ne!(first["metadata"]["labels"][SUBMISSION_ID], second["metadata"]["labels"][SUBMISSION_ID]);

    // The spec does not mention monitoring any more.
    running(namespace, "pi", 2).await;
    edit_spec(namespace, "pi", &json!({"monitoring": null}));
    submitted(namespace, "pi", 3).await;
    namespace.is_gone::<ConfigMap>(NAME).await;
}

/// Waits until the run with this number has a driver; returns the ConfigMap of the run.
async fn of_run(namespace: &Namespace, run: i64) -> Value {
    let application = submitted(namespace, "pi", run).await;
    let config_map =
        namespace.get::<ConfigMap>(NAME).await.expect("the driver exists, so its ConfigMap does");
    assert_eq!(config_map["metadata"]["labels"][SUBMISSION_ID], application["status"]["submissionID"]);
    config_map
}

/// Returns an application that `spark-submit` submits, so that its ConfigMap has to exist before its submission pod. In
/// native submission, the ConfigMap is just one more object that is created before the driver.
fn monitored() -> Value {
    let exporter = json!({"jmxExporterJar": "/prometheus/exporter.jar"});
    let monitoring =
        json!({"exposeDriverMetrics": true, "exposeExecutorMetrics": true, "prometheus": exporter});
    let mut pi = application("pi", &json!({"monitoring": monitoring}));
    pi["metadata"]["annotations"] = json!({"sparkoperator.k8s.io/submitter": "spark-submit"});
    pi
}
