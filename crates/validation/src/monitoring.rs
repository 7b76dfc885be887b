//! Checks that metrics can be exposed as `spec.monitoring` asks, and that the configuration texts in `spec.monitoring`
//! can be parsed.

use super::{Findings, Subject};
use api::{
    MonitoringSpec, PrometheusSpec, Role,
    monitoring::{self, is_exposed},
    names::{conf, submit_conf},
    stated,
};
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;
use spark_client::{keys_alone, read_properties};

/// The ports that the exporter may have. The CRD has the same limits.
const PORTS: std::ops::RangeInclusive<i32> = 1024..=49151;
/// Kubernetes' limit for the name of a port, in characters.
pub(super) const LONGEST_PORT_NAME: usize = 15;

/// The ports of the driver on which Spark itself listens: the port's name in the driver's container, the property that
/// sets the port, and Spark's default.
const OF_DRIVER: [(&str, &str, i32); 3] = [
    ("driver-rpc-port", submit_conf::DRIVER_PORT, 7078),
    ("blockmanager", submit_conf::DRIVER_BLOCK_MANAGER_PORT, 7079),
    ("spark-ui", conf::UI_PORT, 4040),
];

pub(super) fn exposure(subject: &Subject, findings: &mut Findings) {
    let Some(asked) = &subject.spec.monitoring else { return };
    metrics_properties(subject, asked, findings);
    let Some(prometheus) = &asked.prometheus else {
        let has_sinks =
            stated(&asked.metrics_properties).or(stated(&asked.metrics_properties_file)).is_some();
        if !has_sinks && Role::ALL.into_iter().any(|role| is_exposed(asked, role)) {
            let what =
                "sets Spark's metrics.properties; without monitoring.prometheus nothing exposes the metrics";
            findings.warn(subject.field("monitoring"), what);
        }
        return;
    };
    configuration(subject, prometheus, findings);
    if !Role::ALL.into_iter().any(|role| is_exposed(asked, role)) {
        return;
    }
    agent(subject, prometheus, findings);
    port(subject, prometheus, findings);
    for role in Role::ALL.into_iter().filter(|role| is_exposed(asked, *role)) {
        beside_others(subject, prometheus, role, findings);
    }
    let names_are_ours =
        stated(&prometheus.config_file).is_none() && stated(&prometheus.configuration).is_none();
    if names_are_ours && subject.spec.spark_conf.contains_key(conf::METRICS_NAMESPACE) {
        let what = "the exporter's default configuration looks for `<namespace>.<application>` there and may find no metrics";
        findings.warn(subject.conf(conf::METRICS_NAMESPACE), what);
    }
}

fn metrics_properties(subject: &Subject, asked: &MonitoringSpec, findings: &mut Findings) {
    let (text, file) = (stated(&asked.metrics_properties), stated(&asked.metrics_properties_file));
    let counts = |field: &str| format!("is ignored: {} counts", subject.field(field));
    if text.is_some() && file.is_some() {
        findings
            .warn(subject.field("monitoring.metricsProperties"), counts("monitoring.metricsPropertiesFile"));
    }
    let outweighs =
        file.map(|_| "monitoring.metricsPropertiesFile").or(text.map(|_| "monitoring.metricsProperties"));
    let configured = subject.spec.spark_conf.get(conf::METRICS_CONF);
    if let Some(field) = outweighs.filter(|_| configured.is_some_and(|configured| Some(configured) != file)) {
        findings.warn(subject.conf(conf::METRICS_CONF), counts(field));
    }
    let Some(text) = text else { return };
    let field = subject.field("monitoring.metricsProperties");
    for key in keys_alone(text) {
        let what = format!("`{key}` has no value: write `{key}=…`");
        // Spark does not start with a sink whose class has no name.
        let is_sink = ["*", "driver", "executor"].iter().any(|at| key.starts_with(&format!("{at}.sink.")));
        if is_sink && key.ends_with(".class") {
            findings.refuse(&field, what)
        } else {
            findings.warn(&field, what)
        }
    }
    match read_properties(text) {
        Err(why) => findings.refuse(&field, why),
        Ok(properties) => {
            for key in properties.keys().filter(|key| !has_instance(key)) {
                findings.warn(
                    &field,
                    format_args!(
                        "`{key}` begins with no instance, such as `*.` or `driver.`: Spark ignores it"
                    ),
                );
            }
        }
    }
}

/// Whether a key of `metrics.properties` begins with an instance, by the rule of Spark's `MetricsConfig`.
fn has_instance(key: &str) -> bool {
    let is_instance =
        |text: &str| text == "*" || (!text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic()));
    key.split_once('.').is_some_and(|(instance, rest)| is_instance(instance) && !rest.is_empty())
}

fn configuration(subject: &Subject, prometheus: &PrometheusSpec, findings: &mut Findings) {
    let Some(text) = stated(&prometheus.configuration) else { return };
    let field = subject.field("monitoring.prometheus.configuration");
    if stated(&prometheus.config_file).is_some() {
        let file = subject.field("monitoring.prometheus.configFile");
        findings.warn(&field, format_args!("is ignored: {file} counts"));
    }
    // Of a key that stands twice the exporter takes the last.
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    match serde_saphyr::from_str_with_options::<Value>(text, options) {
        // A configuration that contains only comments is null as YAML. It sets nothing, and the exporter accepts it.
        Ok(Value::Object(_) | Value::Null) => {}
        Ok(_) => findings.refuse(&field, "is no mapping: write the exporter's settings, such as `rules:`"),
        Err(error) => {
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
            findings.refuse(&field, format_args!("is not YAML: {why}"));
        }
    }
}

/// Checks that the path of the exporter's jar is set, and that no path in the `-javaagent` option contains a blank:
/// blanks separate the options of a JVM.
fn agent(subject: &Subject, prometheus: &PrometheusSpec, findings: &mut Findings) {
    let jar = subject.field("monitoring.prometheus.jmxExporterJar");
    if prometheus.jmx_exporter_jar.is_empty() {
        let why = "is required: write the path of the exporter's jar inside the image";
        findings.refuse(&jar, why);
    } else if let Some((scheme, path)) = prometheus.jmx_exporter_jar.split_once(':')
        && !scheme.contains('/')
    {
        let path = path.trim_start_matches('/');
        findings.refuse(&jar, format_args!("is no path, and no JVM starts: write the path alone, `/{path}`"));
    }
    let file = subject.field("monitoring.prometheus.configFile");
    let file = prometheus.config_file.as_ref().map(|path| (file, path));
    for (field, path) in [(jar, &prometheus.jmx_exporter_jar)].into_iter().chain(file) {
        if path.contains(char::is_whitespace) {
            findings.refuse(
                field,
                format_args!("`{path}` has a blank, which ends an option of a JVM: choose another path"),
            );
        }
    }
}

fn port(subject: &Subject, prometheus: &PrometheusSpec, findings: &mut Findings) {
    let port = monitoring::port(prometheus);
    if !PORTS.contains(&port) {
        let why = format!("`{port}` is not possible: write {} to {}", PORTS.start(), PORTS.end());
        findings.refuse(subject.field("monitoring.prometheus.port"), why);
    }
    let name = monitoring::port_name(prometheus);
    let is_name = name.len() <= LONGEST_PORT_NAME
        && name.split('-').all(|part| !part.is_empty())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && name.contains(|c: char| c.is_ascii_lowercase());
    if !is_name {
        findings.refuse(
            subject.field("monitoring.prometheus.portName"),
            format_args!(
                "`{name}` cannot be the name of a port: write lower-case letters, digits and single `-` between them, at \
                 most {LONGEST_PORT_NAME}"
            ),
        );
    }
}

/// Checks that no other port has the number or the name of the exporter's port.
fn beside_others(subject: &Subject, prometheus: &PrometheusSpec, role: Role, findings: &mut Findings) {
    let (port, name) = (monitoring::port(prometheus), monitoring::port_name(prometheus));
    let field = |field: &str| subject.field(format_args!("monitoring.prometheus.{field}"));
    for declared in declared(subject, role) {
        if declared.number == port && declared.protocol == "TCP" {
            let what = format!("{port} is in {} too: only the exporter can listen on it", declared.field);
            findings.warn(field("port"), what);
        } else if declared.name == name {
            let why = format!("`{name}` is the name of another port in {}: choose another", declared.field);
            findings.refuse(field("portName"), why);
        }
    }
    if role == Role::Executor {
        return;
    }
    for (spark, key, default) in OF_DRIVER {
        let configured = subject.spec.spark_conf.get(key);
        let taken = configured.map_or(Some(default), |configured| configured.trim().parse().ok());
        if taken == Some(port) {
            findings.refuse(
                field("port"),
                format_args!("{port} is the driver's own ({key}), and it would not start: choose another"),
            );
        }
        if name == spark {
            let why = format!("`{name}` is what Spark calls a port of the driver: choose another");
            findings.refuse(field("portName"), why);
        }
    }
}

/// A port that the user has declared for Spark's container.
struct Declared<'s> {
    field: String,
    name: &'s str,
    number: i32,
    protocol: &'s str,
}

fn declared<'s>(subject: &'s Subject, role: Role) -> Vec<Declared<'s>> {
    let pod = role.pod(&subject.spec);
    let of_spec = pod.ports.iter().map(|port| Declared {
        field: subject.of_role(role, "ports"),
        name: &port.name,
        number: port.container_port,
        protocol: &port.protocol,
    });
    let template = pod.template.as_ref().map(|template| template.json());
    let containers = template.and_then(|template| template["spec"]["containers"].as_array());
    let own = |container: &&Value| container["name"] == role.container();
    let container = containers.and_then(|containers| containers.iter().find(own).or(containers.first()));
    let of_template = container.and_then(|container| container["ports"].as_array()).into_iter().flatten();
    let of_template = of_template.map(|port| Declared {
        field: subject.of_role(role, "template"),
        name: port["name"].as_str().unwrap_or_default(),
        number: port["containerPort"]
            .as_i64()
            .and_then(|number| i32::try_from(number).ok())
            .unwrap_or_default(),
        protocol: port["protocol"].as_str().unwrap_or("TCP"),
    });
    of_spec.chain(of_template).collect()
}
