//! Checks that the pod templates are valid, that this version of Spark supports pod templates, and that the executors'
//! template fits into the ConfigMap by which Spark passes it on.

use super::{Findings, Subject};
use api::Role;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value};

/// Kubernetes' limit for all values of a ConfigMap together, in bytes.
const LARGEST_CONFIG_MAP: usize = 1 << 20;

/// The fields of a template, and those of a whole pod.
const FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

pub(super) fn version(subject: &Subject, findings: &mut Findings) {
    let version = &subject.spec.spark_version;
    if submission::has_templates(version) {
        return;
    }
    for role in Role::ALL.into_iter().filter(|role| role.pod(&subject.spec).template.is_some()) {
        findings.refuse(
            subject.of_role(role, "template"),
            format_args!("pod templates need Spark 3.0.0 or later, and sparkVersion is `{version}`"),
        );
    }
}

/// Checks that the templates are PodTemplateSpecs: the CRD accepts any object in these fields.
pub(super) fn form(subject: &Subject, findings: &mut Findings) {
    for role in Role::ALL {
        let stated = role.pod(&subject.spec).template.as_ref();
        let fields = stated.and_then(|template| template.json().as_object()).into_iter().flat_map(Map::keys);
        for field in fields.filter(|field| !FIELDS.contains(&field.as_str())) {
            findings.warn(
                subject.of_role(role, format_args!("template.{field}")),
                "has no effect: write it below template.spec",
            );
        }
        match template(subject, role) {
            Ok(read) => unknown(subject, role, read.as_ref(), findings),
            Err(error) => findings
                .refuse(subject.of_role(role, "template"), format_args!("is not a pod template: {error}")),
        }
    }
}

/// Warns of the fields of a template that no pod has, of which `read` has nothing: Kubernetes drops them without a word.
fn unknown(subject: &Subject, role: Role, read: Option<&PodTemplateSpec>, findings: &mut Findings) {
    let Some((stated, read)) = role.pod(&subject.spec).template.as_ref().zip(read) else { return };
    let read = serde_json::to_value(read).expect("a template is JSON");
    let path = subject.of_role(role, "template");
    for part in ["metadata", "spec"] {
        let (stated, read) = (&stated.json()[part], &read[part]);
        unread(stated, read, &format!("{path}.{part}"), &mut |path| {
            findings.warn(path, "no field of pods that the operator knows: probably without effect");
        });
    }
}

/// Calls `found` with the path of each field of `stated` that `read` does not have.
fn unread(stated: &Value, read: &Value, path: &str, found: &mut impl FnMut(String)) {
    match (stated, read) {
        (Value::Object(stated), Value::Object(read)) => {
            for (name, value) in stated.iter().filter(|(_, value)| !value.is_null()) {
                let path = format!("{path}.{name}");
                match read.get(name) {
                    Some(read) => unread(value, read, &path, found),
                    None => found(path),
                }
            }
        }
        (Value::Array(stated), Value::Array(read)) => {
            for (i, (stated, read)) in stated.iter().zip(read).enumerate() {
                unread(stated, read, &format!("{path}[{i}]"), found);
            }
        }
        _ => {}
    }
}

/// Checks the size of the executors' template, which Spark passes to the driver in a ConfigMap.
pub(super) fn size(subject: &Subject, findings: &mut Findings) {
    let role = Role::Executor;
    if !submission::has_templates(&subject.spec.spark_version) || template(subject, role).is_err() {
        return;
    }
    let made = submission::pod_templates::template(subject.application, &subject.spec, role);
    let size = submission::pod_templates::text(&made).len();
    if size > LARGEST_CONFIG_MAP {
        findings.refuse(
            subject.field(role.as_str()),
            format_args!(
                "makes a pod template of {size} bytes, and the ConfigMap in which Spark hands it to the driver can \
                 have {LARGEST_CONFIG_MAP}: move large values into ConfigMaps of your own"
            ),
        );
    }
}

/// Returns the user's template; none if there is none. The error contains the reason why the object is not a
/// PodTemplateSpec.
fn template(
    subject: &Subject,
    role: Role,
) -> Result<Option<PodTemplateSpec>, serde_path_to_error::Error<serde_json::Error>> {
    let template = role.pod(&subject.spec).template.as_ref();
    template.map(|template| serde_path_to_error::deserialize(template.json())).transpose()
}
