//! Which pod templates does Spark start from? The user's, with the contract's annotations for the webhook
//! and, on the driver, its owner.

use super::Context;
use crate::{
    api::Role,
    plan::{customization, owner_reference},
};
use serde_json::{Value, json};

/// The template of `role` as JSON, which is YAML too.
///
/// A template of the user's is one, as validation has found out: it has objects where they are expected.
pub(super) fn template(context: &Context, role: Role) -> Value {
    let mut template = match &role.pod(context.spec).template {
        Some(template) => template.json().clone(),
        None => json!({"spec": {"containers": [{"name": role.container()}]}}),
    };
    if template["spec"].is_null() {
        // A template of labels only. Spark refuses one without a spec ("Could not load pod from template
        // file.").
        template["spec"] = json!({"containers": []});
    }
    template["apiVersion"] = "v1".into();
    template["kind"] = "Pod".into();
    for (key, value) in customization::annotations(context.application, role) {
        template["metadata"]["annotations"][key] = value.into();
    }
    if role == Role::Driver {
        // Also as an annotation, but other controllers look for the owner when the pod is created: Kueue, for
        // one.
        let owner =
            serde_json::to_value(owner_reference(context.application)).expect("an owner reference is JSON");
        let owners = &mut template["metadata"]["ownerReferences"];
        match owners.as_array_mut() {
            Some(owners) if owners.contains(&owner) => {}
            Some(owners) => owners.push(owner),
            None => *owners = json!([owner]),
        }
    }
    template
}
