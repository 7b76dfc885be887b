//! Checks that the pod templates are valid, that this version of Spark supports pod templates, and that the executors'
//! template fits into the ConfigMap by which Spark passes it on.

use super::Subject;
use api::{Role, SparkPodSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Map, Value};
use serde_path_to_error::deserialize;
use spark_client::{Line, TEMPLATE_KEY};

/// Kubernetes' limit for all values of a ConfigMap together, in bytes.
const LARGEST_CONFIG_MAP: usize = 1 << 20;

/// The fields of a template, and those of a whole pod.
const FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// Checks that the version of Spark has templates, and that they are PodTemplateSpecs: the CRD accepts any object in these fields.
/// Warns of the fields that no pod has: Kubernetes drops them silently.
pub(super) fn form(subject: &Subject, role: Role, pod: &SparkPodSpec) {
    let Some(stated) = pod.template.as_ref().map(|template| template.json()) else { return };
    let path = format!("{role}.template");
    let version = &subject.spec.spark_version;
    if !Line::has_templates(version) {
        let why = format_args!("pod templates need Spark 3.0.0 or later, and sparkVersion is `{version}`");
        subject.refuse(&path, why);
    }
    let fields = stated.as_object().into_iter().flat_map(Map::keys);
    for field in fields.filter(|field| !FIELDS.contains(&field.as_str())) {
        subject.warn(format_args!("{path}.{field}"), "has no effect: write it below template.spec");
    }
    match deserialize::<_, PodTemplateSpec>(stated) {
        Err(error) => subject.refuse(path, format_args!("is not a pod template: {error}")),
        Ok(read) => {
            let read = serde_json::to_value(read).expect("a template is JSON");
            for part in ["metadata", "spec"] {
                unread(&stated[part], &read[part], &format!("{path}.{part}"), &|path| {
                    subject.warn(path, "no field of pods that the operator knows: probably without effect");
                });
            }
        }
    }
}

/// Calls `found` with the path of each field of `stated` that `read` does not have.
fn unread(stated: &Value, read: &Value, path: &str, found: &impl Fn(String)) {
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

/// Checks the size of the executors' template, if this object is the ConfigMap in which Spark passes it to the driver.
pub(super) fn size(subject: &Subject, object: &Value) {
    let size = object["data"][TEMPLATE_KEY].as_str().map_or(0, str::len);
    if size > LARGEST_CONFIG_MAP {
        let why = format_args!(
            "makes a pod template of {size} bytes, and the ConfigMap in which Spark hands it to the driver can have \
             {LARGEST_CONFIG_MAP}: move large values into ConfigMaps of your own"
        );
        subject.refuse(Role::Executor, why);
    }
}
