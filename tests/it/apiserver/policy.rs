//! Admission policies of the API server.

use crate::apiserver::prelude::*;
use kube::Error;

/// A policy and its binding, which are deleted when this value is dropped.
pub(crate) struct AdmissionPolicy([Value; 2]);

impl AdmissionPolicy {
    /// Applies a policy with this `spec`, and its binding.
    pub(crate) fn apply(name: &str, spec: Value) -> Self {
        let binding = json!({"policyName": name, "validationActions": ["Deny"]});
        let kinds = [("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)];
        let objects = kinds.map(|(kind, spec)| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
                "spec": spec,
            })
        });
        objects.iter().for_each(|object| calls::apply(object, None));
        Self(objects)
    }

    /// Refuses, with the words `why`, requests in `namespace` that `rule` matches, unless `expression` is true for them.
    /// Returns when the API server refuses to create `refused`.
    pub(super) async fn refusing(
        namespace: &Namespace,
        name: &str,
        rule: &Value,
        expression: &str,
        why: &str,
        refused: &Value,
    ) -> Self {
        let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace.name}});
        let spec = json!({
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
            "validations": [{"expression": expression, "message": why}],
        });
        let this = Self::apply(name, spec);
        let mut refused = refused.clone();
        refused["metadata"]["namespace"] = json!(namespace.name);
        eventually("the policy is in force", async || match calls::tried(&refused) {
            Err(Error::Api(status)) if status.message.contains(why) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        this
    }
}

impl Drop for AdmissionPolicy {
    fn drop(&mut self) {
        self.0.iter().rev().for_each(calls::delete_object);
    }
}

/// Returns the rule that matches the creation of pods.
pub(crate) fn created_pods() -> Value {
    json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]})
}
