//! A ValidatingAdmissionPolicy that refuses all pods of one role in a namespace.

use super::{
    eventually,
    kubectl::{kubectl, kubectl_with, try_kubectl_with},
    namespace::Namespace,
};
use serde_json::json;

const NAME: &str = "no-pods";

/// The policy, which is deleted when this value is dropped.
pub(super) struct NoPods;

impl NoPods {
    /// Refuses pods with the label `spark-role=<role>` in `namespace`, for the reason `why`.
    pub(super) async fn of_role(namespace: &Namespace, role: &str, why: &str) -> Self {
        let api = "admissionregistration.k8s.io/v1";
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
        let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace.name}});
        let labels = "object.metadata.labels";
        let is_none =
            format!("!has({labels}) || !('spark-role' in {labels}) || {labels}['spark-role'] != '{role}'");
        let policy = json!({
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": NAME},
            "spec": {
                "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
                "validations": [{"expression": is_none, "message": why}],
            },
        });
        let binding = json!({
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": NAME},
            "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        });
        for object in [policy, binding] {
            kubectl_with(&object, &["apply", "-f", "-"]);
        }
        let this = Self;
        let refused = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "refused", "labels": {"spark-role": role}},
            "spec": {"containers": [{"name": "spark", "image": "none"}]},
        });
        eventually("the policy is in force", async || {
            let arguments = ["create", "--dry-run=server", "--namespace", namespace.name, "-f", "-"];
            match try_kubectl_with(&refused, &arguments) {
                Err(said) if said.contains(why) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        this
    }
}

impl Drop for NoPods {
    fn drop(&mut self) {
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            kubectl(&["delete", kind, NAME, "--ignore-not-found"]);
        }
    }
}
