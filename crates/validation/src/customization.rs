//! Checks that the webhook will be able to change the pods as their annotations say.

use super::{Subject, volumes};
use api::{Role, annotation, conf, label};
use pod_customization::{self, Denial, LARGEST, STEPS};
use serde_json::{Value, json};

/// Customizes, for each role, a pod with the fewest fields that a Spark pod can have: a substitute for the pods of a run that
/// is not planned.
pub(super) fn rehearsal(subject: &Subject) {
    for (role, section) in subject.pods() {
        let mut annotations = pod_customization::annotations(subject.application, role);
        // The operator sets this annotation, not the user, and its value is incomplete before the application is
        // stored: the uid is missing.
        annotations.remove(annotation::OWNER_REFERENCE);
        let pod = json!({
            "metadata": {"labels": {label::SPARK_ROLE: role.as_str()}, "annotations": annotations},
            "spec": {
                "containers": [{"name": role.container()}],
                "volumes": section.template()["spec"]["volumes"],
            },
        });
        let is_of_spark =
            |key: &String| key.contains(conf::VOLUMES_PREFIX) || key.contains(conf::SECRETS_PREFIX);
        let has_sparks = !section.secrets.is_empty() || subject.spec.spark_conf.keys().any(is_of_spark);
        if let Some(pod) = customized(subject, role, &pod).filter(|_| !has_sparks) {
            volumes::left_out(subject, role, &pod);
        }
    }
}

/// Returns the pod as the webhook will change it. Refuses the application if the webhook would deny the pod.
pub(super) fn customized(subject: &Subject, role: Role, pod: &Value) -> Option<Value> {
    let customized = pod_customization::customized(pod);
    size(subject, role, customized.as_ref().unwrap_or(pod));
    for denial in customized.as_ref().err().into_iter().flatten() {
        match denial {
            Denial::Annotation { key, problem } => {
                subject.refuse(field(role, key, &problem.path), &problem.text);
            }
            // The size of all annotations is checked above.
            Denial::TooLarge { .. } => {}
            other => subject.refuse(role, other),
        }
    }
    customized.ok()
}

/// Checks that all annotations of a pod fit into Kubernetes' limit. (In Kubeflow's operator, the webhook reads the
/// application instead of annotations, and the application may be larger.)
fn size(subject: &Subject, role: Role, pod: &Value) {
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let sizes = annotations.map(|(key, value)| (key.len() + value.as_str().map_or(0, str::len), key));
    let sizes: Vec<_> = sizes.collect();
    let total: usize = sizes.iter().map(|(size, _)| size).sum();
    if let Some((_, largest)) = sizes.iter().max()
        && total > LARGEST
    {
        let most = format_args!("Kubernetes allows {LARGEST}: move large values into ConfigMaps");
        let why = format_args!("makes {total} bytes of annotations, most of it `{largest}`, and {most}");
        subject.refuse(role, why);
    }
}

/// The annotations that are created from the metadata of the application, not from a field of the spec.
const OF_METADATA: [&str; 3] =
    [annotation::OWNER_REFERENCE, annotation::POD_GROUP, annotation::SCHEDULING_GATE];

/// Returns the paths of the spec fields from which annotations of the contract are created.
pub(super) fn fields(role: Role) -> impl Iterator<Item = String> {
    let of_spec = STEPS.iter().filter(|step| !OF_METADATA.contains(&step.key));
    of_spec.map(move |step| field(role, step.key, ""))
}

/// Returns the path of the spec field from which an annotation of the contract is created.
fn field(role: Role, key: &str, path: &str) -> String {
    let field = camel_case(key);
    match key {
        annotation::PROMETHEUS => "monitoring".to_owned(),
        // The positions in the annotations of volumes and mounts differ from those in the spec, so the path has no position;
        // the problem's text contains the names.
        annotation::HADOOP_CONFIG_MAP | annotation::SPARK_CONFIG_MAP | annotation::VOLUMES => field,
        annotation::VOLUME_MOUNTS => format!("{role}.{field}"),
        _ if path.is_empty() || path.starts_with('[') => format!("{role}.{field}{path}"),
        _ => format!("{role}.{field}.{path}"),
    }
}

/// Converts the name of an annotation to camel case: `init-containers`, after the prefix is removed, becomes
/// `initContainers`.
fn camel_case(key: &str) -> String {
    let mut words = key.strip_prefix(annotation::PREFIX).unwrap_or(key).split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        name + &initial.to_ascii_uppercase() + rest
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::SparkApplication;
    use kube_core::CustomResourceExt;

    #[test]
    fn every_annotation_has_the_name_of_the_field_that_it_is_created_from() {
        let schema = serde_json::to_value(SparkApplication::crd()).unwrap();
        let schema = &schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        for path in fields(Role::Executor) {
            let found = path.split('.').fold(schema, |schema, name| &schema["properties"][name]);
            assert!(found.is_object(), "{path}");
        }
    }
}
