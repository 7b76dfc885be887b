//! The applications from which tests start; each test changes only the fields that it is about.

use serde_json::{Value, json};

/// Returns the smallest application that Spark accepts.
pub(crate) fn application(name: &str) -> Value {
    json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "metadata": {"name": name},
        "spec": {
            "type": "Scala", "sparkVersion": "4.0.1", "image": "docker.io/apache/spark:4.0.1",
            "mainClass": "org.apache.spark.examples.SparkPi",
            "mainApplicationFile": "local:///opt/spark/examples/jars/spark-examples.jar",
            "driver": {"serviceAccount": "spark"}, "executor": {},
        },
    })
}

/// Returns an application that the operator refuses without running `spark-submit`. Once the application is FAILED, a
/// test knows that the operator has reconciled it.
pub(crate) fn hopeless(name: &str) -> Value {
    let mut application = application(name);
    application["spec"]["volumes"] = json!([{"name": "spark-local-dir-1", "configMap": {"name": "none"}}]);
    application["spec"]["driver"]["volumeMounts"] =
        json!([{"name": "spark-local-dir-1", "mountPath": "/scratch"}]);
    application
}

/// Returns a schedule of this application.
pub(crate) fn scheduled(name: &str, schedule: &str, application: &Value) -> Value {
    json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "ScheduledSparkApplication", "metadata": {"name": name},
        "spec": {"schedule": schedule, "template": application["spec"]},
    })
}

/// Returns the smallest server of Spark Connect.
pub(crate) fn connect(name: &str) -> Value {
    json!({
        "apiVersion": "sparkoperator.k8s.io/v1alpha1", "kind": "SparkConnect", "metadata": {"name": name},
        "spec": {"sparkVersion": "4.0.1", "image": "docker.io/apache/spark:4.0.1", "server": {}, "executor": {}},
    })
}

/// Returns a pod with this metadata, whose image nobody pulls.
pub(crate) fn plain_pod(metadata: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": [{"name": "none", "image": "none"}]},
    })
}

/// Returns the owner reference of a driver to `application`, which must be an object that the API server has returned.
pub(crate) fn owned_by(application: &Value) -> Value {
    json!([{
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
        "name": application["metadata"]["name"], "uid": application["metadata"]["uid"], "controller": true,
        "blockOwnerDeletion": true,
    }])
}
