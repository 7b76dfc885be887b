//! Which applications do tests start from? Each changes what it is about.

use serde_json::{Value, json};

/// The least that Spark can be asked for.
pub(crate) fn application(name: &str) -> Value {
    json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": name},
        "spec": {
            "type": "Scala",
            "sparkVersion": "4.0.1",
            "image": "docker.io/apache/spark:4.0.1",
            "mainClass": "org.apache.spark.examples.SparkPi",
            "mainApplicationFile": "local:///opt/spark/examples/jars/spark-examples.jar",
            "driver": {"serviceAccount": "spark"},
            "executor": {},
        },
    })
}

/// One that cannot be submitted, which the operator finds out without `spark-submit`: it was reconciled when
/// it is FAILED.
pub(crate) fn hopeless(name: &str) -> Value {
    let mut application = application(name);
    application["spec"]["volumes"] = json!([{"name": "spark-local-dir-1", "configMap": {"name": "none"}}]);
    application["spec"]["driver"]["volumeMounts"] =
        json!([{"name": "spark-local-dir-1", "mountPath": "/scratch"}]);
    application
}

/// The reference by which an application, as the API server has it, owns its driver.
pub(crate) fn owned_by(application: &Value) -> Value {
    json!([{
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "name": application["metadata"]["name"],
        "uid": application["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}
