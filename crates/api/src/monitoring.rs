//! Computes the settings for `spec.monitoring` of an application: Spark's `metrics.properties`, and the Prometheus JMX
//! exporter, which runs as a Java agent in driver and executors.
//!
//! Configuration files that are not in the image come from a ConfigMap. Spark gets its part of the settings as
//! properties; the webhook adds the mount of the ConfigMap and the exporter's port to the pods.

use super::{
    Identity, MonitoringSpec, PrometheusSpec, Role, SparkApplication, annotation, conf, path, stated,
};

/// The default of `prometheus.port`, the same as in Kubeflow's operator.
const DEFAULT_PORT: i32 = 8090;
const DEFAULT_PORT_NAME: &str = "jmx-exporter";

/// The key of Spark's `metrics.properties` in the ConfigMap, which is also the name of the mounted file.
pub const METRICS_PROPERTIES: &str = "metrics.properties";
/// The key of the exporter's configuration in the ConfigMap, which is also the name of the mounted file.
pub const EXPORTER_CONFIGURATION: &str = "prometheus.yaml";

/// The monitoring settings of an application with `spec.monitoring`.
#[derive(Clone, Copy, Debug)]
pub struct Monitoring<'a> {
    application: &'a SparkApplication,
    /// `spec.monitoring`.
    pub asked: &'a MonitoringSpec,
}

/// The JMX exporter in the pods of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exporter<'a> {
    /// The number of the exporter's port.
    pub port: i32,
    /// The name of the exporter's port.
    pub port_name: &'a str,
    /// The JVM option (`-javaagent:…`) that runs the exporter.
    pub java_option: String,
}

impl<'a> Monitoring<'a> {
    /// Returns the monitoring settings of `application`; `None` if `spec.monitoring` is absent.
    pub fn of(application: &'a SparkApplication) -> Option<Self> {
        let asked = application.spec.monitoring.as_ref()?;
        Some(Self { application, asked })
    }

    /// Returns the prefix of all metric names. The default configuration of the exporter reads the namespace and the
    /// name of the application from this prefix.
    pub fn metrics_namespace(&self) -> String {
        format!("{}.{}", self.application.own_namespace(), self.application.own_name())
    }

    /// Returns the path of Spark's `metrics.properties`. (In Kubeflow's operator the file of the ConfigMap takes
    /// precedence over the user's `spark.metrics.conf`, even if the user has given no content for the file.)
    pub fn metrics_properties(&self) -> String {
        self.own_metrics_properties().map_or_else(|| mounted(METRICS_PROPERTIES), str::to_owned)
    }

    /// Returns the path of the `metrics.properties` that the user has chosen; `None` if the file comes from the
    /// ConfigMap.
    pub fn own_metrics_properties(&self) -> Option<&'a str> {
        let file = stated(&self.asked.metrics_properties_file).map(String::as_str);
        let configured = || self.application.spec.spark_conf.get(conf::METRICS_CONF).map(String::as_str);
        file.or_else(|| configured().filter(|_| stated(&self.asked.metrics_properties).is_none()))
    }

    /// Returns the exporter in the pods of `role`; `None` if no exporter exposes their metrics.
    pub fn exporter(&self, role: Role) -> Option<Exporter<'a>> {
        let prometheus = self.asked.prometheus.as_ref().filter(|_| is_exposed(self.asked, role))?;
        let (port, port_name, jar) = (port(prometheus), port_name(prometheus), &prometheus.jmx_exporter_jar);
        let own = stated(&prometheus.config_file).cloned();
        let configuration = own.unwrap_or_else(|| mounted(EXPORTER_CONFIGURATION));
        Some(Exporter { port, port_name, java_option: format!("-javaagent:{jar}={port}:{configuration}") })
    }

    /// Returns the name of the ConfigMap that the pods of `role` mount; `None` if they need no ConfigMap. The pods of
    /// both roles read the same `metrics.properties`, even if only the metrics of one role are exposed. (In Kubeflow's
    /// operator only pods whose metrics are exposed mount the file; the others log that it is missing and continue.)
    pub fn mounted_by(&self, role: Role) -> Option<String> {
        let needs_properties = self.own_metrics_properties().is_none();
        let prometheus = self.asked.prometheus.as_ref().filter(|_| is_exposed(self.asked, role));
        let needs_configuration =
            prometheus.is_some_and(|prometheus| stated(&prometheus.config_file).is_none());
        (needs_properties || needs_configuration).then(|| config_map_name(self.application))
    }
}

impl Exporter<'_> {
    /// Returns the annotations by which Prometheus finds the exporter.
    pub fn scrape_annotations(&self) -> [(&'static str, String); 3] {
        [
            (annotation::SCRAPE, "true".to_owned()),
            (annotation::SCRAPE_PORT, self.port.to_string()),
            (annotation::SCRAPE_PATH, "/metrics".to_owned()),
        ]
    }
}

/// Returns whether the pods of `role` expose metrics.
pub const fn is_exposed(monitoring: &MonitoringSpec, role: Role) -> bool {
    match role {
        Role::Driver => monitoring.expose_driver_metrics,
        Role::Executor => monitoring.expose_executor_metrics,
    }
}

/// Returns the port that the exporter listens on.
pub fn port(prometheus: &PrometheusSpec) -> i32 {
    prometheus.port.unwrap_or(DEFAULT_PORT)
}

/// Returns the name of the exporter's port in the container.
pub fn port_name(prometheus: &PrometheusSpec) -> &str {
    stated(&prometheus.port_name).map_or(DEFAULT_PORT_NAME, String::as_str)
}

/// Returns the path inside the pods of a file from the ConfigMap.
fn mounted(file: &str) -> String {
    format!("{}/{file}", path::METRICS_CONF)
}

/// Returns the name of the ConfigMap, which is the same as in Kubeflow's operator. Validation limits the length of an
/// application's name, so this name is never too long.
pub fn config_map_name(application: &SparkApplication) -> String {
    format!("{}-prom-conf", application.own_name())
}
