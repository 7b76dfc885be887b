//! What `spec.monitoring` of an application asks for: Spark's `metrics.properties`, and the Prometheus JMX exporter as a Java agent in driver
//! and executors.
//!
//! Files that the user has not put into the image come from a ConfigMap. Spark gets its part of the answers as properties, and the pods
//! get the mount of the ConfigMap and the exporter's port by their customization.

use super::{
    MonitoringSpec, PrometheusSpec, Role, SparkApplication,
    names::{annotation, conf, path},
    stated,
};

/// Kubeflow's default.
const DEFAULT_PORT: i32 = 8090;
const DEFAULT_PORT_NAME: &str = "jmx-exporter";

/// The ConfigMap's key for Spark's `metrics.properties`, and so the name of the file.
pub const METRICS_PROPERTIES: &str = "metrics.properties";
/// The ConfigMap's key for the exporter's configuration, and so the name of the file.
pub const EXPORTER_CONFIGURATION: &str = "prometheus.yaml";

/// The monitoring of an application that asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Monitoring<'a> {
    application: &'a SparkApplication,
    /// `spec.monitoring`.
    pub asked: &'a MonitoringSpec,
}

/// The exporter of one role's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exporter<'a> {
    /// The number of its port.
    pub port: i32,
    /// The name of its port.
    pub port_name: &'a str,
    /// The option that makes a JVM run it.
    pub java_option: String,
}

impl<'a> Monitoring<'a> {
    /// None where the application does not ask for monitoring.
    #[must_use]
    pub fn of(application: &'a SparkApplication) -> Option<Self> {
        let asked = application.spec.monitoring.as_ref()?;
        Some(Self { application, asked })
    }

    /// What begins the names of all metrics: the default configuration of the exporter finds namespace and name of the
    /// application in it.
    #[must_use]
    pub fn metrics_namespace(&self) -> String {
        let metadata = &self.application.metadata;
        let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
        format!("{}.{}", text(&metadata.namespace), text(&metadata.name))
    }

    /// Where Spark finds its `metrics.properties`. (In KF the ConfigMap's outweighs the user's `spark.metrics.conf` also
    /// where nobody has said what is to be in it.)
    #[must_use]
    pub fn metrics_properties(&self) -> String {
        self.own_metrics_properties().map_or_else(|| mounted(METRICS_PROPERTIES), str::to_owned)
    }

    /// The path of a `metrics.properties` that is not the ConfigMap's; none where the ConfigMap has it.
    #[must_use]
    pub fn own_metrics_properties(&self) -> Option<&'a str> {
        let file = stated(&self.asked.metrics_properties_file).map(String::as_str);
        let configured = || self.application.spec.spark_conf.get(conf::METRICS_CONF).map(String::as_str);
        file.or_else(|| configured().filter(|_| stated(&self.asked.metrics_properties).is_none()))
    }

    /// The exporter of the pods of `role`, where their metrics are exposed.
    #[must_use]
    pub fn exporter(&self, role: Role) -> Option<Exporter<'a>> {
        let prometheus = self.asked.prometheus.as_ref()?;
        is_exposed(self.asked, role).then(|| {
            let port = port(prometheus);
            let jar = &prometheus.jmx_exporter_jar;
            let own = stated(&prometheus.config_file).cloned();
            let configuration = own.unwrap_or_else(|| mounted(EXPORTER_CONFIGURATION));
            Exporter {
                port,
                port_name: port_name(prometheus),
                java_option: format!("-javaagent:{jar}={port}:{configuration}"),
            }
        })
    }

    /// The ConfigMap that the pods of `role` mount, if they need it. All of them read the same `metrics.properties`,
    /// whether they are exposed or not. (In KF only those that are have it; the others complain and go on.)
    #[must_use]
    pub fn mounted_by(&self, role: Role) -> Option<String> {
        let needs_properties = self.own_metrics_properties().is_none();
        let prometheus = self.asked.prometheus.as_ref().filter(|_| is_exposed(self.asked, role));
        let needs_configuration =
            prometheus.is_some_and(|prometheus| stated(&prometheus.config_file).is_none());
        (needs_properties || needs_configuration).then(|| config_map_name(self.application))
    }
}

impl Exporter<'_> {
    /// By which Prometheus finds it.
    #[must_use]
    pub fn scrape_annotations(&self) -> [(&'static str, String); 3] {
        [
            (annotation::SCRAPE, "true".to_owned()),
            (annotation::SCRAPE_PORT, self.port.to_string()),
            (annotation::SCRAPE_PATH, "/metrics".to_owned()),
        ]
    }
}

/// Whether the pods of `role` are to expose metrics.
#[must_use]
pub const fn is_exposed(monitoring: &MonitoringSpec, role: Role) -> bool {
    match role {
        Role::Driver => monitoring.expose_driver_metrics,
        Role::Executor => monitoring.expose_executor_metrics,
    }
}

/// The port that the exporter listens on.
#[must_use]
pub fn port(prometheus: &PrometheusSpec) -> i32 {
    prometheus.port.unwrap_or(DEFAULT_PORT)
}

/// What that port of the container is called.
#[must_use]
pub fn port_name(prometheus: &PrometheusSpec) -> &str {
    stated(&prometheus.port_name).map_or(DEFAULT_PORT_NAME, String::as_str)
}

/// Where the pods find a file of the ConfigMap.
fn mounted(file: &str) -> String {
    format!("{}/{file}", path::METRICS_CONF)
}

/// The name of the ConfigMap, which is Kubeflow's. No name of an application is too long for it.
#[must_use]
pub fn config_map_name(application: &SparkApplication) -> String {
    format!("{}-prom-conf", application.metadata.name.as_deref().unwrap_or_default())
}
