//! Checks that metrics can be exposed as `spec.monitoring` says, and that the configuration texts in `spec.monitoring`
//! can be parsed.

use super::{Subject, property, rules};
use api::{PrometheusSpec, Role, conf, monitoring, stated, submit_conf};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use serde_saphyr::{Error as YamlError, options::DuplicateKeyPolicy};
use spark_client::{keys_alone, read_properties};
use std::collections::BTreeMap;
use submission::exposure::is_ui_off;

/// Fields of the exporter, by their paths below the spec.
const PORT: &str = "monitoring.prometheus.port";
const PORT_NAME: &str = "monitoring.prometheus.portName";
const CONFIG_FILE: &str = "monitoring.prometheus.configFile";

/// The ports of the driver on which Spark itself listens: the port's name in the driver's container, the property that
/// sets the port, and Spark's default.
const OF_DRIVER: [(&str, &str, i32); 3] = [
    ("driver-rpc-port", submit_conf::DRIVER_PORT, 7078),
    ("blockmanager", submit_conf::DRIVER_BLOCK_MANAGER_PORT, 7079),
    ("spark-ui", conf::UI_PORT, 4040),
];

pub(super) fn exposure(subject: &Subject) {
    let Some(asked) = &subject.spec.monitoring else { return };
    metrics_properties(subject, asked);
    let exposed: Vec<_> = Role::ALL.into_iter().filter(|role| monitoring::is_exposed(asked, *role)).collect();
    let Some(prometheus) = &asked.prometheus else {
        let sinks = stated(&asked.metrics_properties).or(stated(&asked.metrics_properties_file));
        if sinks.is_none() && !exposed.is_empty() {
            let what =
                "sets Spark's metrics.properties; without monitoring.prometheus nothing exposes the metrics";
            subject.warn("monitoring", what);
        }
        return;
    };
    configuration(subject, prometheus);
    if exposed.is_empty() {
        return;
    }
    if let Some((scheme, path)) = prometheus.jmx_exporter_jar.split_once(':')
        && !scheme.contains('/')
    {
        let path = path.trim_start_matches('/');
        let why =
            format_args!("is not a file path, so that no JVM would start: write the path alone, `/{path}`");
        subject.refuse("monitoring.prometheus.jmxExporterJar", why);
    }
    rules::check("PrometheusSpec", &json!(prometheus), &mut |field, why| {
        subject.refuse(format_args!("monitoring.prometheus{field}"), why);
    });
    for role in exposed {
        beside_others(subject, prometheus, role);
    }
    let names_are_ours = stated(&prometheus.config_file).or(stated(&prometheus.configuration)).is_none();
    if names_are_ours && subject.spec.spark_conf.contains_key(conf::METRICS_NAMESPACE) {
        let what = "the exporter's default configuration looks for `<namespace>.<application>` there and may find no metrics";
        subject.warn(property(conf::METRICS_NAMESPACE), what);
    }
}

fn metrics_properties(subject: &Subject, asked: &api::MonitoringSpec) {
    let (of_text, of_file) = ("monitoring.metricsProperties", "monitoring.metricsPropertiesFile");
    let (text, file) = (stated(&asked.metrics_properties), stated(&asked.metrics_properties_file));
    let counts = |field: &str| format!("is ignored: {} counts", subject.field(field));
    if text.is_some() && file.is_some() {
        subject.warn(of_text, counts(of_file));
    }
    let outweighs = file.map(|_| of_file).or(text.map(|_| of_text));
    let configured = subject.spec.spark_conf.get(conf::METRICS_CONF);
    if let Some(field) = outweighs.filter(|_| configured.is_some_and(|configured| Some(configured) != file)) {
        subject.warn(property(conf::METRICS_CONF), counts(field));
    }
    let Some(text) = text else { return };
    for key in keys_alone(text) {
        let what = format!("`{key}` has no value: write `{key}=…`");
        // Spark does not start with a sink whose class has no name.
        let is_sink = ["*", "driver", "executor"].iter().any(|at| key.starts_with(&format!("{at}.sink.")));
        if is_sink && key.ends_with(".class") {
            subject.refuse(of_text, what);
        } else {
            subject.warn(of_text, what);
        }
    }
    let properties = read_properties(text).map_err(|why| subject.refuse(of_text, why)).unwrap_or_default();
    for key in properties.keys().filter(|key| !has_instance(key)) {
        let what = "begins with no instance, such as `*.` or `driver.`: Spark ignores it";
        subject.warn(of_text, format_args!("`{key}` {what}"));
    }
}

/// Whether a key of `metrics.properties` begins with an instance, by the rule of Spark's `MetricsConfig`.
fn has_instance(key: &str) -> bool {
    let is_instance =
        |text: &str| text == "*" || (!text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic()));
    key.split_once('.').is_some_and(|(instance, rest)| is_instance(instance) && !rest.is_empty())
}

/// The maximum number of values in the exporter's configuration, including those that aliases repeat, and the maximum
/// size of its texts in bytes. A configuration with a rule for each metric of Spark has a few thousand values. Without
/// these limits, the values of a text of 1 KiB could take some hundred megabytes.
const MOST_VALUES: usize = 20_000;
const LARGEST_TEXTS: usize = 1 << 20;

fn configuration(subject: &Subject, prometheus: &PrometheusSpec) {
    let Some(text) = stated(&prometheus.configuration) else { return };
    let field = "monitoring.prometheus.configuration";
    if stated(&prometheus.config_file).is_some() {
        let file = subject.field(CONFIG_FILE);
        subject.warn(field, format_args!("is ignored: {file} counts"));
    }
    // If a key is given twice, the exporter uses the last value.
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! {
            max_nodes: MOST_VALUES,
            max_total_scalar_bytes: LARGEST_TEXTS,
            max_recorded_anchor_events: MOST_VALUES,
            max_recorded_anchor_bytes: LARGEST_TEXTS,
        },
    };
    // A configuration that contains only comments is null as YAML. It sets nothing, and the exporter accepts it.
    type Mapping = Option<BTreeMap<String, IgnoredAny>>;
    if serde_saphyr::from_str_with_options::<Mapping>(text, options.clone()).is_ok() {
        return;
    }
    match serde_saphyr::from_str_with_options::<IgnoredAny>(text, options) {
        Ok(_) => subject.refuse(field, "is no mapping: write the exporter's settings, such as `rules:`"),
        Err(error) if is_beyond_budget(&error) => {
            let what = format_args!("is nested too deep, or has more than {MOST_VALUES} values");
            subject.refuse(field, format_args!("{what}: name a file of the image in configFile instead"));
        }
        Err(error) => {
            let why = error.to_string();
            let why = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
            subject.refuse(field, format_args!("is not YAML: {why}"));
        }
    }
}

/// Whether the text that caused `error` is larger or deeper than the parser's budget allows.
fn is_beyond_budget(error: &YamlError) -> bool {
    match error {
        YamlError::WithSnippet { error, .. } | YamlError::AliasError { error, .. } => is_beyond_budget(error),
        error => matches!(error, YamlError::Budget { .. }),
    }
}

/// Checks that no other port has the number or the name of the exporter's port.
fn beside_others(subject: &Subject, prometheus: &PrometheusSpec, role: Role) {
    let (port, name) = (monitoring::port(prometheus), monitoring::port_name(prometheus));
    // The ports of the spec, and those of Spark's container in the template.
    let pod = role.pod(&subject.spec);
    let containers = pod.template()["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
    let own = containers.iter().find(|container| container["name"] == role.container());
    let own = own.or(containers.first()).map_or(&Value::Null, |container| &container["ports"]);
    for (section, ports) in [("ports", &json!(pod.ports)), ("template", own)] {
        let field = subject.field(format_args!("{role}.{section}"));
        for other in ports.as_array().into_iter().flatten() {
            let is_tcp = other["protocol"].as_str().unwrap_or("TCP") == "TCP";
            if other["containerPort"] == port && is_tcp {
                subject
                    .warn(PORT, format_args!("{port} is in {field} too: only the exporter can listen on it"));
            } else if other["name"] == name {
                let why = format_args!("`{name}` is the name of another port in {field}: choose another");
                subject.refuse(PORT_NAME, why);
            }
        }
    }
    for (spark, key, default) in OF_DRIVER.into_iter().filter(|_| role == Role::Driver) {
        let configured = subject.spec.spark_conf.get(key);
        let taken = configured.map_or(Some(default), |configured| configured.trim().parse().ok());
        // Without the web UI, nothing listens on its port, but the container still has a port of that name.
        let is_unused = key == conf::UI_PORT && is_ui_off(subject.application);
        if taken == Some(port) && !is_unused {
            let why =
                format_args!("{port} is the driver's own ({key}), and it would not start: choose another");
            subject.refuse(PORT, why);
        }
        if name == spark {
            let why = format_args!("`{name}` is what Spark calls a port of the driver: choose another");
            subject.refuse(PORT_NAME, why);
        }
    }
}
