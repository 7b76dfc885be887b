//! Mounts ConfigMaps into Spark's container: Hadoop's, Spark's and any others.

use super::{Concern, Problem, SparkPod, annotation_value::Json, entries, env, volumes};
use crate::volume_name;
use api::{
    NamePath, Role, SparkApplication,
    names::{annotation, env as variable, path, volume},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) struct HadoopConfigMap;

impl Concern for HadoopConfigMap {
    const KEY: &'static str = annotation::HADOOP_CONFIG_MAP;
    type Value = String;

    fn asked(application: &SparkApplication, _role: Role) -> Option<String> {
        application.spec.hadoop_config_map.clone()
    }

    fn apply(pod: &mut SparkPod, config_map: String) -> Result<(), Problem> {
        mount(pod, volume::HADOOP_CONFIG_MAP, &config_map, path::HADOOP_CONF)?;
        env::set(pod, variable::HADOOP_CONF_DIR, path::HADOOP_CONF)
    }
}

pub(super) struct SparkConfigMap;

impl Concern for SparkConfigMap {
    const KEY: &'static str = annotation::SPARK_CONFIG_MAP;
    type Value = String;

    fn asked(application: &SparkApplication, _role: Role) -> Option<String> {
        application.spec.spark_config_map.clone()
    }

    fn apply(pod: &mut SparkPod, config_map: String) -> Result<(), Problem> {
        mount(pod, volume::SPARK_CONFIG_MAP, &config_map, path::SPARK_CONF)?;
        // Spark has already set this variable to its own directory; the later entry takes effect.
        env::set(pod, variable::SPARK_CONF_DIR, path::SPARK_CONF)
    }
}

pub(super) struct ConfigMaps;

impl Concern for ConfigMaps {
    const KEY: &'static str = annotation::CONFIG_MAPS;
    type Value = Json<Vec<NamePath>>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        let config_maps = &role.pod(&application.spec).config_maps;
        (!config_maps.is_empty()).then(|| Json(config_maps.clone()))
    }

    fn apply(pod: &mut SparkPod, Json(config_maps): Self::Value) -> Result<(), Problem> {
        let (mut added, mut mounts, mut at) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (i, NamePath { name, path }) in config_maps.iter().enumerate() {
            for (field, value) in [("name", name), ("path", path)] {
                if value.is_empty() {
                    return Err(Problem::new(format!("[{i}].{field}"), "is required"));
                }
            }
            let (volume, mount) = mounted(&volume_name::of_config_map(name), name, path);
            if let Some(there) = at.insert(path, mount.clone()).filter(|there| *there != mount) {
                return Err(Problem::new(
                    format!("[{i}]"),
                    entries::taken(&[volumes::MOUNT], &mount, &there),
                ));
            }
            added.push(volume);
            mounts.push(mount);
        }
        volumes::add_volumes(pod, added)?;
        volumes::add_mounts(pod, mounts)
    }
}

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
