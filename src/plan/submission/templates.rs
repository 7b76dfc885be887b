//! Which pod templates does Spark start from? The user's, with the contract's annotations for the webhook
//! and, on the driver, its owner.

use crate::{
    api::{Role, SparkApplication, SparkApplicationSpec},
    plan::{customization, owner_reference},
};
use serde_json::{Value, json};
use std::fmt::Write;

/// The text of the file from which Spark reads the template of `role`: JSON, which is YAML too.
///
/// Spark puts the executors' into a ConfigMap for the driver by server-side apply, and what is applied the API
/// server reads as YAML: it refuses control characters, and takes a line end of Unicode for a blank without a
/// word. Escaped, they arrive.
pub(in crate::plan) fn text(
    application: &SparkApplication,
    spec: &SparkApplicationSpec,
    role: Role,
) -> String {
    let json = template(application, spec, role).to_string();
    json.chars().fold(String::with_capacity(json.len()), |mut text, c| {
        match c {
            // JSON has them in strings only, where `\u` and four digits mean the same.
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                write!(text, "\\u{:04x}", u32::from(c)).expect("writing to a String cannot fail");
            }
            c => text.push(c),
        }
        text
    })
}

/// The template of `role`.
///
/// A template of the user's is one, as validation has found out: it has objects where they are expected.
pub(super) fn template(application: &SparkApplication, spec: &SparkApplicationSpec, role: Role) -> Value {
    let mut template = match &role.pod(spec).template {
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
    for (key, value) in customization::annotations(application, role) {
        template["metadata"]["annotations"][key] = value.into();
    }
    if role == Role::Driver {
        // Also as an annotation, but other controllers look for the owner when the pod is created: Kueue, for
        // one.
        let owner = serde_json::to_value(owner_reference(application)).expect("an owner reference is JSON");
        let owners = &mut template["metadata"]["ownerReferences"];
        match owners.as_array_mut() {
            Some(owners) if owners.contains(&owner) => {}
            Some(owners) => owners.push(owner),
            None => *owners = json!([owner]),
        }
    }
    template
}
