//! Creates a namespace for one test, with the service account for drivers that the manifests create in `default`.

use super::{
    apply,
    native::{image, spark_version},
};
use crate::apiserver::{prelude::*, submission_node::account_objects};

/// The namespace, which is deleted with its contents when this value is dropped.
pub(super) struct Tenant(&'static str);

impl Tenant {
    /// Creates a namespace with these labels.
    pub(super) fn new(name: &'static str, labels: &Value) -> Self {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        apply(&namespace);
        for object in account_objects(name) {
            apply(&object);
        }
        Self(name)
    }

    /// Returns the example, to be run in this namespace with the Spark version on the node.
    pub(super) fn pi(&self, name: &str) -> Value {
        let mut pi: Value = yaml(&data("../../manifests/examples/spark-pi.yaml"));
        pi["metadata"] = json!({"name": name, "namespace": self.0});
        pi["spec"]["arguments"] = json!(["2"]);
        pi["spec"]["image"] = json!(image());
        pi["spec"]["sparkVersion"] = json!(spark_version());
        pi
    }

    /// Returns what `kubectl` prints for this namespace; panics if `kubectl` fails.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl(&[&["--namespace", self.0], arguments].concat())
    }

    /// Waits until the application `name` is in `state`.
    pub(super) fn state_is(&self, name: &str, state: &str) {
        let state = format!("--for=jsonpath={{.status.applicationState.state}}={state}");
        let wait = ["--namespace", self.0, "wait", "sparkapp", name, &state, "--timeout=180s"];
        if let Err(why) = try_kubectl_with(&Value::Null, &wait) {
            let selector = format!("--selector=sparkoperator.k8s.io/app-name={name}");
            let pods = self.kubectl(&["describe", "pods", &selector]);
            panic!("{why}\n{}\n{pods}", self.kubectl(&["describe", "sparkapp", name]));
        }
    }

    /// Returns the message of the state of the application `name`.
    pub(super) fn message(&self, name: &str) -> String {
        let path = "--output=jsonpath={.status.applicationState.errorMessage}";
        self.kubectl(&["get", "sparkapp", name, path])
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        kubectl(&["delete", "namespace", self.0, "--wait=false"]);
    }
}
