//! Builds the ConfigMap for an application's monitoring. It contains the configuration files that the image does not
//! contain.

use crate::{owned::owned, run::Run};
use api::{
    ObjectKey, ObjectKind, SparkApplication,
    monitoring::{EXPORTER_CONFIGURATION, METRICS_PROPERTIES, Monitoring, config_map_name},
    names::label,
    stated,
};
use serde_json::{Map, Value, json};

/// The default `metrics.properties`: it exposes all metrics of Spark and of the JVM as JMX beans.
const DEFAULT_PROPERTIES: &str = include_str!("metrics.properties");
/// The default configuration of the JMX exporter. The metric names are those of the default configuration of Kubeflow's
/// operator. The patterns also match the parts that Spark 3 and later add to the names of beans.
const DEFAULT_CONFIGURATION: &str = include_str!("prometheus.yaml");

/// Returns the ConfigMap for `run`; none if the image contains every file that is needed.
pub fn config_map(application: &SparkApplication, run: &Run) -> Option<Value> {
    let monitoring = Monitoring::of(application)?;
    let mut files = Map::new();
    if monitoring.own_metrics_properties().is_none() {
        let text = stated(&monitoring.asked.metrics_properties).map_or(DEFAULT_PROPERTIES, String::as_str);
        files.insert(METRICS_PROPERTIES.to_owned(), text.into());
    }
    let prometheus = monitoring.asked.prometheus.as_ref();
    if let Some(prometheus) = prometheus.filter(|prometheus| stated(&prometheus.config_file).is_none()) {
        let text = stated(&prometheus.configuration).map_or(DEFAULT_CONFIGURATION, String::as_str);
        files.insert(EXPORTER_CONFIGURATION.to_owned(), text.into());
    }
    let metadata = json!({"name": config_map_name(application)});
    let object = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files});
    (!files.is_empty()).then(|| owned(object(), application, Some(run.id.as_str()), label::CREATED_BY))
}

/// Returns the ConfigMap that may have been created for a run of the application, whatever the spec asks for now.
pub fn possible_child(application: &SparkApplication) -> ObjectKey {
    ObjectKind::CONFIG_MAP.named(config_map_name(application))
}
