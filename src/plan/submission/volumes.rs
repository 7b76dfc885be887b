//! Which volumes become Spark's scratch space? Those named `spark-local-dir-…`; all others are mounted by the
//! webhook (`plan/customization/volumes.rs`).

use super::{Context, Error, Properties};
use crate::api::{
    Role,
    names::{conf, volume},
};
use serde_json::Value;

/// The volume types that Spark can mount itself, each with its options, which Spark calls as Kubernetes does.
const TYPES: [(&str, &[&str]); 4] = [
    ("emptyDir", &["sizeLimit", "medium"]),
    ("hostPath", &["path", "type"]),
    ("nfs", &["path", "server", "readOnly"]),
    ("persistentVolumeClaim", &["claimName", "readOnly"]),
];

pub(super) fn scratch_space(context: &Context, properties: &mut Properties) -> Result<(), Error> {
    for role in Role::ALL {
        for mount in role.pod(context.spec).volume_mounts.iter().map(|mount| mount.json()) {
            match mount["name"].as_str() {
                Some(name) if name.starts_with(volume::LOCAL_DIR_PREFIX) => {
                    mounted(context, role, name, mount, properties)?
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn mounted(
    context: &Context,
    role: Role,
    name: &str,
    mount: &Value,
    properties: &mut Properties,
) -> Result<(), Error> {
    let volumes = context.spec.volumes.iter().map(|volume| volume.json());
    let Some(volume) = volumes.into_iter().find(|volume| volume["name"] == name) else {
        return Err(Error::NoSuchVolume {
            field: format!("spec.{}.volumeMounts", role.as_str()),
            name: name.to_owned(),
        });
    };
    let Some((kind, options)) = TYPES.iter().find(|(kind, _)| !volume[kind].is_null()) else {
        return Err(Error::UnsupportedScratchVolume { name: name.to_owned() });
    };
    let base = conf::kubernetes(role, &format!("{}{kind}.{name}", conf::VOLUMES_PREFIX));
    for (option, field) in [("path", "mountPath"), ("subPath", "subPath"), ("readOnly", "readOnly")] {
        properties.set_some(format!("{base}.mount.{option}"), text(&mount[field]));
    }
    for option in *options {
        properties.set_some(format!("{base}.options.{option}"), text(&volume[kind][option]));
    }
    Ok(())
}

/// A stated value as Spark takes it; none for what is unset, empty or false.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Bool(true) => Some("true".to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
