//! Mounts ConfigMaps into Spark's container: Hadoop's, Spark's and any others.

use super::{Problem, SparkPod, Step, entries, env, value, volumes};
use crate::volume_name;
use api::{
    NamePath,
    names::{annotation, env as variable, path, volume},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) const HADOOP_CONFIG_MAP: Step = Step {
    key: annotation::HADOOP_CONFIG_MAP,
    asked: |_, application, _| application.spec.hadoop_config_map.clone(),
    apply: |pod, text| {
        mount(pod, volume::HADOOP_CONFIG_MAP, value::name(text)?, path::HADOOP_CONF)?;
        env::set(pod, variable::HADOOP_CONF_DIR, path::HADOOP_CONF)
    },
};

pub(super) const SPARK_CONFIG_MAP: Step = Step {
    key: annotation::SPARK_CONFIG_MAP,
    asked: |_, application, _| application.spec.spark_config_map.clone(),
    apply: |pod, text| {
        mount(pod, volume::SPARK_CONFIG_MAP, value::name(text)?, path::SPARK_CONF)?;
        // Spark has already set this variable to its own directory; the later entry takes effect.
        env::set(pod, variable::SPARK_CONF_DIR, path::SPARK_CONF)
    },
};

pub(super) const CONFIG_MAPS: Step = Step {
    key: annotation::CONFIG_MAPS,
    asked: |pod, _, _| value::written_list(&pod.config_maps),
    apply: |pod, text| {
        let config_maps: Vec<NamePath> = value::typed(text)?;
        let (mut added, mut mounts, mut at) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (i, NamePath { name, path }) in config_maps.iter().enumerate() {
            for (field, value) in [("name", name), ("path", path)] {
                if value.is_empty() {
                    return Err(Problem::new(format!("[{i}].{field}"), "is required"));
                }
            }
            let (volume, mount) = mounted(&volume_name::of_config_map(name), name, path);
            if let Some(there) = at.insert(path, mount.clone()).filter(|there| *there != mount) {
                let text = entries::taken(volumes::MOUNT, &mount, &there);
                return Err(Problem::new(format!("[{i}]"), text));
            }
            added.push(volume);
            mounts.push(mount);
        }
        volumes::add_volumes(pod, added)?;
        volumes::add_mounts(pod, mounts)
    },
};

/// Mounts a ConfigMap, read-only, at `path` of Spark's container. The path of a problem is empty: the problem concerns
/// the whole annotation.
pub(super) fn mount(pod: &mut SparkPod, volume: &str, config_map: &str, path: &str) -> Result<(), Problem> {
    let (volume, mount) = mounted(volume, config_map, path);
    volumes::add_volumes(pod, vec![volume])
        .and_then(|()| volumes::add_mounts(pod, vec![mount]))
        .map_err(|problem| Problem::new("", problem.text))
}

/// Returns the volume of a ConfigMap and its mount.
fn mounted(volume: &str, config_map: &str, path: &str) -> (Value, Value) {
    (
        json!({"name": volume, "configMap": {"name": config_map}}),
        json!({"name": volume, "readOnly": true, "mountPath": path}),
    )
}
