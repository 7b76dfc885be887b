//! Sets the properties for Spark's metrics: the path of `metrics.properties`, the prefix of the metric names, the JVM
//! option that runs the JMX exporter, and the pod annotations by which Prometheus finds the exporter.

use crate::{Context, Properties};
use api::{Role, monitoring::Monitoring, names::conf};

/// Sets the properties for `spec.monitoring`. `properties` already contains the values that other fields of the spec
/// and `sparkConf` set.
pub(crate) fn metrics(context: &Context, properties: &mut Properties) {
    let Some(monitoring) = Monitoring::of(context.application) else { return };
    properties.set(conf::METRICS_CONF, monitoring.metrics_properties());
    if !context.spec.spark_conf.contains_key(conf::METRICS_NAMESPACE) {
        properties.set(conf::METRICS_NAMESPACE, monitoring.metrics_namespace());
    }
    for role in Role::ALL {
        let Some(exporter) = monitoring.exporter(role) else { continue };
        let key = conf::spark(role, conf::EXTRA_JAVA_OPTIONS);
        let others = properties.get(&key).or_else(|| context.defaults.get(&key).map(String::as_str));
        let options = match others.unwrap_or_default() {
            "" => exporter.java_option.clone(),
            others => format!("{others} {}", exporter.java_option),
        };
        properties.set(key, options);

        let template = role.pod(context.spec).template.as_ref();
        let of_template = template.map(|template| &template.json()["metadata"]["annotations"]);
        for (name, value) in exporter.scrape_annotations() {
            let key = conf::kubernetes(role, &format!("{}{name}", conf::ANNOTATION_PREFIX));
            let is_said = properties.get(&key).is_some()
                || context.defaults.contains_key(&key)
                || of_template.is_some_and(|annotations| !annotations[name].is_null());
            if !is_said {
                properties.set(key, value);
            }
        }
    }
}
