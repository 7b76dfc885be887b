//! Builds the pod templates from which Spark creates its pods: the user's templates, with the contract's annotations
//! for the webhook and, on the driver, the owner reference. If there is no webhook, the template itself contains the
//! changes that the annotations describe.

use api::{Role, SparkApplication, annotation, conf, label, monitoring::Monitoring, spark_container};
use pod_customization::Denial;
use serde_json::{Value, json};
use std::{collections::BTreeSet, mem};

/// Returns the pod template of `role`.
///
/// The user's template has been validated: it contains objects where objects are expected.
pub fn template(application: &SparkApplication, role: Role) -> Value {
    let mut template = match &role.pod(&application.spec).template {
        Some(template) => template.json().clone(),
        None => json!({"spec": {"containers": [{"name": role.container()}]}}),
    };
    if template["spec"].is_null() {
        // The user's template contains only labels. Spark refuses a template without a spec ("Could not load pod from
        // template file.").
        template["spec"] = json!({"containers": []});
    }
    if Monitoring::of(application).is_some_and(|monitoring| monitoring.exporter(role).is_some()) {
        // A JVM that cannot load the exporter reports this only in its log. With this policy, which is set unless the
        // template sets one, the end of the log becomes the termination message.
        let sparks = sparks_container(&mut template["spec"]["containers"], role);
        let policy = &mut template["spec"]["containers"][sparks]["terminationMessagePolicy"];
        if policy.is_null() {
            *policy = "FallbackToLogsOnError".into();
        }
    }
    template["apiVersion"] = "v1".into();
    template["kind"] = "Pod".into();
    for (key, value) in pod_customization::annotations(application, role) {
        template["metadata"]["annotations"][key] = value.into();
    }
    if role == Role::Driver {
        // An annotation contains the owner too, but other controllers, such as Kueue, need the owner reference as soon
        // as the pod is created.
        let owner = json!(api::owner_reference(application));
        let owners = &mut template["metadata"]["ownerReferences"];
        match owners.as_array_mut() {
            Some(owners) if owners.contains(&owner) => {}
            Some(owners) => owners.push(owner),
            None => *owners = json!([owner]),
        }
    }
    template
}

/// Returns the index of the container in which Spark runs: the container with the name that the operator sets in
/// `podTemplateContainerName`, else a container whose first argument is `driver` or `executor`, else the first
/// container. Adds a container if there is none, as Spark does.
pub fn sparks_container(containers: &mut Value, role: Role) -> usize {
    if containers.as_array().is_none_or(Vec::is_empty) {
        *containers = json!([{"name": role.container()}]);
    }
    let all = containers.as_array().into_iter().flatten();
    let signs = all.map(|container| (container["name"].as_str(), container["args"][0].as_str()));
    spark_container(&[role.container()], signs, &BTreeSet::new()).unwrap_or(0)
}

/// Returns `pod` as the webhook would change it.
///
/// # Errors
///
/// When an annotation cannot be applied: the reason.
pub(super) fn customized_pod(pod: &Value) -> Result<Value, String> {
    let said = |denials: Vec<Denial>| denials.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    pod_customization::customized(pod).map_err(said)
}

/// Returns `template` with the changes that the webhook would make to the pod that Spark creates from it. `sparks` is the
/// index of Spark's container.
///
/// # Errors
///
/// When an annotation cannot be applied: the reason.
pub fn as_by_the_webhook(mut template: Value, role: Role, sparks: usize) -> Result<Value, String> {
    // The webhook finds the role by a label that Spark adds, and a container with another name than Spark's by the first
    // argument that Spark adds.
    template["metadata"]["labels"][label::SPARK_ROLE] = role.as_str().into();
    let arguments = mem::replace(&mut template["spec"]["containers"][sparks]["args"], json!([role.as_str()]));
    let mut customized = customized_pod(&template)?;
    if let Some(container) = customized["spec"]["containers"][sparks].as_object_mut() {
        container.remove("args");
        container.extend((!arguments.is_null()).then(|| ("args".to_owned(), arguments)));
    }
    Ok(customized)
}

/// Returns the pod template of `role` for the case that no webhook customizes the pods: all customizations are applied
/// to the template itself, and the contract's annotations are removed, except those of extensions.
///
/// # Errors
///
/// When an annotation cannot be applied: the reason.
pub(super) fn customized(application: &SparkApplication, role: Role) -> Result<Value, String> {
    let mut template = template(application, role);
    let sparks = sparks_container(&mut template["spec"]["containers"], role);
    let mut customized = as_by_the_webhook(template, role, sparks)?;
    if let Some(annotations) = customized["metadata"]["annotations"].as_object_mut() {
        // The annotations have been applied, so they are not needed any more, except two: by them an extension
        // recognises its drivers and executors (`pods::Particulars`).
        let is_kept = |key: &str| [annotation::POD_GROUP, annotation::SCHEDULING_GATE].contains(&key);
        annotations.retain(|key, _| is_kept(key) || !pod_customization::is_of_contract(key));
    }
    Ok(customized)
}

/// Returns the settings of `application` that are lost because Spark overwrites them in the pods that it creates from
/// the executors' template, by the names of their fields in the spec.
pub fn overwritten(application: &SparkApplication) -> Vec<&'static str> {
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
