//! Mounts Spark's `metrics.properties` and the configuration of the metrics exporter into a Spark pod, and declares the
//! port at which Prometheus finds the exporter.

use super::{Problem, Step, config_maps, network, value};
use crate::volume_name;
use api::{
    monitoring::{Exporter, Monitoring},
    names::{annotation, path},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The ConfigMap that contains the files to mount, and the exporter's port. Each is absent if the pod does not have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    config_map: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<i32>,
    /// Present only together with `port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    port_name: Option<String>,
}

pub(super) const PROMETHEUS: Step = Step {
    key: annotation::PROMETHEUS,
    asked: |_, application, role| {
        let monitoring = Monitoring::of(application)?;
        let (config_map, exporter) = (monitoring.mounted_by(role), monitoring.exporter(role));
        let of_exporter = |Exporter { port, port_name, .. }: Exporter| (port, port_name.to_owned());
        let (port, port_name) = exporter.map(of_exporter).unzip();
        (config_map.is_some() || port.is_some())
            .then(|| value::written(&Metrics { config_map, port, port_name }))
    },
    apply: |pod, text| {
        let Metrics { config_map, port, port_name } = value::typed(text)?;
        if let Some(config_map) = config_map {
            let volume = volume_name::of_config_map(&config_map);
            config_maps::mount(pod, &volume, &config_map, path::METRICS_CONF)?;
        }
        match (port, port_name) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(Problem::new("port", "is required together with portName")),
            (Some(_), None) => Err(Problem::new("portName", "is required together with port")),
            (Some(port), Some(name)) => {
                let port = json!({"name": name, "containerPort": port, "protocol": "TCP"});
                network::add_ports(pod, vec![port])
            }
        }
    },
};
