//! How does Prometheus reach the JVM's metrics of a Spark pod?

use super::{Concern, Problem, SparkPod, annotation_value::Json, config_maps, network};
use crate::{
    api::{
        Role, SparkApplication,
        names::{annotation, path},
    },
    plan::volume_name,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(super) struct Prometheus;

/// The exporter's configuration and port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Exporter {
    config_map: String,
    port: i32,
    port_name: String,
}

impl Concern for Prometheus {
    const KEY: &'static str = annotation::PROMETHEUS;
    type Value = Json<Exporter>;

    /// Nothing yet: the ConfigMap that the pods would mount is made by the monitoring feature.
    fn asked(_application: &SparkApplication, _role: Role) -> Option<Self::Value> {
        None
    }

    fn apply(pod: &mut SparkPod, Json(exporter): Self::Value) -> Result<(), Problem> {
        let volume = volume_name::of_config_map(&exporter.config_map);
        config_maps::mount(pod, &volume, &exporter.config_map, path::METRICS_CONF)?;
        network::add_ports(
            pod,
            vec![json!({"name": exporter.port_name, "containerPort": exporter.port, "protocol": "TCP"})],
        )
    }
}
