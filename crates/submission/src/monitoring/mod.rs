//! Implements `spec.monitoring` of an application: properties, a ConfigMap with the configuration files that the image
//! does not contain, and advice for the user if the Java agent fails.

mod java_agent_failure;

use crate::{Context, owned::owned, run::Run};
use api::{SparkApplication, conf, label, monitoring::Monitoring, stated};
pub use java_agent_failure::explained;
use serde_json::{Map, Value, json};
use spark_client::Conf;

/// The default `metrics.properties`: it exposes all metrics of Spark and of the JVM as JMX beans.
const DEFAULT_PROPERTIES: &str = include_str!("metrics.properties");
/// The default configuration of the JMX exporter. The metric names are those of the default configuration of Kubeflow's
/// operator. The patterns also match the parts that Spark 3 and later add to the names of beans.
const DEFAULT_CONFIGURATION: &str = include_str!("prometheus.yaml");

/// Returns the ConfigMap for `run`; `None` if the image contains every file that is needed.
pub fn config_map(application: &SparkApplication, run: &Run) -> Option<Value> {
    let monitoring = Monitoring::of(application)?;
    let mut files = Map::new();
    if monitoring.own_metrics_properties().is_none() {
        let text = stated(&monitoring.asked.metrics_properties).map_or(DEFAULT_PROPERTIES, String::as_str);
        files.insert(api::monitoring::METRICS_PROPERTIES.to_owned(), text.into());
    }
    let prometheus = monitoring.asked.prometheus.as_ref();
    if let Some(prometheus) = prometheus.filter(|prometheus| stated(&prometheus.config_file).is_none()) {
        let text = stated(&prometheus.configuration).map_or(DEFAULT_CONFIGURATION, String::as_str);
        files.insert(api::monitoring::EXPORTER_CONFIGURATION.to_owned(), text.into());
    }
    let metadata = json!({"name": api::monitoring::config_map_name(application)});
    let object = || json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files});
    (!files.is_empty()).then(|| owned(object(), application, Some(run.id.as_str()), label::CREATED_BY))
}

/// Sets the properties for Spark's metrics: the path of `metrics.properties`, the prefix of the metric names, the JVM option that
/// runs the JMX exporter, and the pod annotations by which Prometheus finds the exporter. `properties` already contains the
/// values that other fields of the spec and `sparkConf` set.
pub(crate) fn metrics(context: &Context, properties: &mut Conf) {
    let Some(monitoring) = Monitoring::of(context.application) else { return };
    properties.set(conf::METRICS_CONF, monitoring.metrics_properties());
    if !context.spec.spark_conf.contains_key(conf::METRICS_NAMESPACE) {
        properties.set(conf::METRICS_NAMESPACE, monitoring.metrics_namespace());
    }
    for (role, pod) in context.pods() {
        let Some(exporter) = monitoring.exporter(role) else { continue };
        let key = conf::spark(role, conf::EXTRA_JAVA_OPTIONS);
        let others = properties.raw(&key).or_else(|| context.defaults.get(&key).map(String::as_str));
        let options = match others.unwrap_or_default() {
            "" => exporter.java_option.clone(),
            others => format!("{others} {}", exporter.java_option),
        };
        properties.set(key, options);

        let of_template = &pod.template()["metadata"]["annotations"];
        for (name, value) in exporter.scrape_annotations() {
            let key = conf::kubernetes(role, &format!("{}{name}", conf::ANNOTATION_PREFIX));
            let is_set = properties.raw(&key).is_some()
                || context.defaults.contains_key(&key)
                || !of_template[name].is_null();
            if !is_set {
                properties.set(key, value);
            }
        }
    }
}
