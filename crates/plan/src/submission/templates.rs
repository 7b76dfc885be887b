//! The pod templates that Spark starts from: the user's, with the annotations of the contract and, for the driver, its
//! owner. Without a webhook the template itself has what the annotations ask for.

use api::{
    Role, SparkApplication, SparkApplicationSpec,
    monitoring::Monitoring,
    names::{annotation, conf, label},
    owner_reference,
};
use pod_customization;
use serde_json::{Value, json};
use std::fmt::Write;

/// The text of the file from which Spark reads `template`: JSON, which is YAML too.
///
/// Spark puts the executors' into a ConfigMap for the driver by server-side apply, and what is applied the API
/// server reads as YAML: it refuses control characters, and takes a line end of Unicode for a blank without a
/// word. Escaped, they arrive.
pub(crate) fn text(template: &Value) -> String {
    let json = template.to_string();
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
pub(crate) fn template(application: &SparkApplication, spec: &SparkApplicationSpec, role: Role) -> Value {
    let mut template = match &role.pod(spec).template {
        Some(template) => template.json().clone(),
        None => json!({"spec": {"containers": [{"name": role.container()}]}}),
    };
    if template["spec"].is_null() {
        // A template of labels only. Spark refuses one without a spec ("Could not load pod from template
        // file.").
        template["spec"] = json!({"containers": []});
    }
    if Monitoring::of(application).is_some_and(|monitoring| monitoring.exporter(role).is_some()) {
        keeps_last_words(&mut template["spec"]["containers"], role);
    }
    template["apiVersion"] = "v1".into();
    template["kind"] = "Pod".into();
    for (key, value) in pod_customization::annotations(application, role) {
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

/// Lets the end of its log stand for the termination message of Spark's container, unless its template says what
/// does: a JVM that cannot load the exporter says so there and nowhere else.
fn keeps_last_words(containers: &mut Value, role: Role) {
    const POLICY: &str = "terminationMessagePolicy";
    if containers.as_array().is_none_or(Vec::is_empty) {
        *containers = json!([{"name": role.container()}]);
    }
    let Some(containers) = containers.as_array_mut() else { return };
    // As Spark finds it.
    let named = containers.iter().position(|container| container["name"] == role.container());
    let container = &mut containers[named.unwrap_or(0)];
    if container[POLICY].is_null() {
        container[POLICY] = "FallbackToLogsOnError".into();
    }
}

/// The template of `role` where no webhook customizes the pods that are made from it.
///
/// # Errors
///
/// What cannot be carried out.
pub(super) fn customized(
    application: &SparkApplication,
    spec: &SparkApplicationSpec,
    role: Role,
) -> Result<Value, String> {
    let mut template = template(application, spec, role);
    // Spark makes a container where there is none, and labels the pod. Both must be there to be customized.
    if template["spec"]["containers"].as_array().is_none_or(Vec::is_empty) {
        template["spec"]["containers"] = json!([{"name": role.container()}]);
    }
    template["metadata"]["labels"][label::SPARK_ROLE] = role.as_str().into();
    let mut customized = pod_customization::customized(&template)
        .map_err(|denials| denials.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    if let Some(annotations) = customized["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|key, _| !pod_customization::is_of_contract(key));
    }
    Ok(customized)
}

/// What Spark overwrites in the executors' template, of what `application` asks for: the fields, as the user
/// finds them.
pub(super) fn overwritten(application: &SparkApplication) -> Vec<&'static str> {
    let asked = pod_customization::annotations(application, Role::Executor);
    let decommissions = application.spec.spark_conf.get(conf::DECOMMISSION).is_some_and(|on| on == "true");
    let sets_itself = |env: &String| env.contains("\"SPARK_");
    [
        ("spec.executor.ports", asked.contains_key(annotation::PORTS)),
        ("spec.executor.memoryLimit", asked.contains_key(annotation::MEMORY_LIMIT)),
        ("spec.executor.lifecycle", decommissions && asked.contains_key(annotation::LIFECYCLE)),
        ("spec.executor.env (SPARK_…)", asked.get(annotation::ENV).is_some_and(sets_itself)),
    ]
    .into_iter()
    .filter_map(|(field, is_lost)| is_lost.then_some(field))
    .collect()
}
