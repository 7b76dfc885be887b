//! Sets the properties for volumes whose names begin with `spark-local-dir-`, which Spark uses as scratch space. All
//! other volumes are mounted by the webhook (`crates/pod-customization/src/volumes.rs`).

use super::Context;
use api::{SparkApplicationSpec, conf, quantity, volume::is_scratch};
use serde_json::Value;
use spark_client::Conf;
use std::collections::BTreeMap;

/// The option for the size of an `emptyDir`. Its value is converted to Kubernetes' canonical form (`1Gi` for `1024Mi`),
/// because Kubeflow's operator parses it as a Quantity, which is printed in that form.
const SIZE_LIMIT: &str = "sizeLimit";
/// The option for the medium of an `emptyDir`. An empty value means the node's disk, the same as an unset medium.
const MEDIUM: &str = "medium";

/// The volume types that Spark can mount itself, each with its options. Spark and Kubernetes use the same names for the
/// options.
const TYPES: [(&str, &[&str]); 4] = [
    ("emptyDir", &[SIZE_LIMIT, MEDIUM]),
    ("hostPath", &["path", "type"]),
    ("nfs", &["path", "server", "readOnly"]),
    ("persistentVolumeClaim", &["claimName", "readOnly"]),
];

/// Returns the volumes of a spec by their names. If several volumes have the same name, the last one is returned, as Kubeflow's
/// operator uses it.
pub fn by_name(spec: &SparkApplicationSpec) -> BTreeMap<&str, &Value> {
    let volumes = spec.volumes.iter().map(|volume| volume.json());
    volumes.filter_map(|volume| Some((volume["name"].as_str()?, volume))).collect()
}

/// Returns the type of `volume` and its options, if Spark can mount it.
pub fn type_of(volume: &Value) -> Option<(&'static str, &'static [&'static str])> {
    TYPES.into_iter().find(|(kind, _)| !volume[kind].is_null())
}

/// Sets the properties of the scratch volumes. Validation has checked that each of them has one of [`TYPES`].
pub(super) fn scratch_space(context: &Context, properties: &mut Conf) {
    let volumes = by_name(context.spec);
    for (role, pod) in context.pods() {
        for mount in pod.volume_mounts.iter().map(|mount| mount.json()).filter(|mount| is_scratch(mount)) {
            let name = mount["name"].as_str().unwrap_or_default();
            let Some(volume) = volumes.get(name) else { continue };
            let Some((kind, options)) = type_of(volume) else { continue };
            let base = conf::kubernetes(role, &format!("{}{kind}.{name}", conf::VOLUMES_PREFIX));
            for (option, field) in [("path", "mountPath"), ("subPath", "subPath"), ("readOnly", "readOnly")] {
                let value = text(&mount[field]).filter(|text| !text.is_empty());
                properties.set_some(format!("{base}.mount.{option}"), value);
            }
            for option in options {
                let value = option_value(option, &volume[kind][option]);
                properties.set_some(format!("{base}.options.{option}"), value);
            }
        }
    }
}

fn option_value(option: &str, stated: &Value) -> Option<String> {
    let value = text(stated)?;
    match option {
        SIZE_LIMIT => Some(quantity::canonical(&value).unwrap_or(value)),
        MEDIUM => Some(value).filter(|value| !value.is_empty()),
        _ => Some(value),
    }
}

/// Returns a value in the form that Spark expects; `None` if it is unset or false.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(true) => Some("true".to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
