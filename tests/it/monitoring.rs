//! Tests the effect of `spec.monitoring` on an application, with each submitter.

use crate::{
    choice::{asking, chosen, policy},
    native::program,
    prelude::*,
};
use api::{ObjectKind, names::conf};
use plan::{By, Observed, extension::View, submission_plan::choose};
use spark_client::read_properties;
use submission::monitoring::config_map;

const JAR: &str = "/prometheus/exporter.jar";

#[test]
fn the_config_map_has_the_files_that_are_not_in_the_image() {
    let files = |monitoring: Value| {
        let application = monitored(monitoring, json!({}));
        let made = config_map(&application, &Run::next(&application));
        made.map(|made| serde_json::from_value::<BTreeMap<String, String>>(made["data"].clone()).unwrap())
    };
    let both = files(json!({"prometheus": {"jmxExporterJar": JAR}})).unwrap();
    assert_eq!(both.keys().collect::<Vec<_>>(), ["metrics.properties", "prometheus.yaml"]);
    let properties = read_properties(&both["metrics.properties"]).unwrap();
    assert_eq!(properties["*.sink.jmx.class"], "org.apache.spark.metrics.sink.JmxSink");
    assert!(serde_saphyr::from_str::<Value>(&both["prometheus.yaml"]).unwrap()["rules"].is_array());

    let own = files(json!({
        "metricsProperties": "a.b=c", "prometheus": {"jmxExporterJar": JAR, "configuration": "rules: []"},
    }));
    let expected = [("metrics.properties", "a.b=c"), ("prometheus.yaml", "rules: []")];
    assert_eq!(own.unwrap(), expected.map(|(file, text)| (file.to_owned(), text.to_owned())).into());

    let mut in_image =
        json!({"metricsPropertiesFile": "/m", "prometheus": {"jmxExporterJar": JAR, "configFile": "/c"}});
    assert_eq!(files(in_image.clone()), None);
    in_image["metricsPropertiesFile"] = json!("");
    assert_eq!(files(in_image).unwrap().keys().collect::<Vec<_>>(), ["metrics.properties"]);
    assert_eq!(files(json!({"metricsProperties": "a.b=c"})).unwrap().len(), 1);
}

/// The ConfigMap with the configuration of the JMX exporter has the name that Kubeflow's operator gives it. The owner
/// is the application, and a label has the submission id of the run.
#[test]
fn the_config_map_is_among_the_objects_of_its_run() {
    let application = monitored(json!({"prometheus": {"jmxExporterJar": JAR}}), json!({}));
    let run = Run::next(&application);
    let metadata = &config_map(&application, &run).unwrap()["metadata"];
    assert_eq!(metadata["name"], "pi-prom-conf");
    assert_eq!(metadata["ownerReferences"][0]["uid"], json!(application.metadata.uid));
    let labels = json!({label::APP_NAME: "pi", label::SUBMISSION_ID: run.id, label::CREATED_BY: "true"});
    assert_eq!(metadata["labels"], labels);
    let child = ObjectKind::CONFIG_MAP.named("pi-prom-conf");
    assert_eq!(api::monitoring::config_map_name(&application), child.name);
    let (seen, policy) = (Observed::default(), policy());
    let view = View { application: &application, seen: &seen, now: Timestamp::UNIX_EPOCH, policy: &policy };
    assert!(view.children(&run, None).contains(&child));
}

#[test]
fn the_pods_of_both_submitters_find_the_config_map() {
    for submitter in ["native", "spark-submit"] {
        let application = monitored(json!({"prometheus": {"jmxExporterJar": JAR}}), json!({}));
        let application = asking(application, Some(submitter));
        let made = config_map(&application, &Run::next(&application)).unwrap();
        match chosen(&application, &policy()).request.by {
            By::Native(objects) => {
                assert_eq!(objects.children[0], made);
                let last = objects.children.last().unwrap()["metadata"]["name"].as_str().unwrap();
                assert!(last.starts_with("spark-drv-"), "Spark's own ConfigMap is created last: {last}");
                let volumes = objects.pod["spec"]["volumes"].as_array().unwrap();
                assert!(volumes.iter().any(|volume| volume["configMap"]["name"] == "pi-prom-conf"));
            }
            By::Pod { objects, .. } => assert_eq!(objects.children[0], made),
        }
    }
}

/// A Java option of the user is never lost, wherever the user has set it.
#[test]
fn the_java_agent_is_appended_to_the_effective_options() {
    let agent = "-javaagent:/prometheus/exporter.jar=8090:/etc/metrics/conf/prometheus.yaml";
    let key = "spark.driver.extraJavaOptions";
    for (field, configured, default, expected) in [
        (Some("-Da=field"), Some("-Da=conf"), "-Da=default", format!("-Da=field {agent}")),
        (None, Some("-Da=conf"), "-Da=default", format!("-Da=conf {agent}")),
        (None, None, "-Da=default", format!("-Da=default {agent}")),
        (None, None, "", agent.to_owned()),
        (Some(""), None, "-Da=default", agent.to_owned()),
    ] {
        let spark_conf: BTreeMap<_, _> = configured.map(|options| (key, options)).into_iter().collect();
        let application = monitored(
            json!({"prometheus": {"jmxExporterJar": JAR}}),
            json!({"sparkConf": spark_conf, "driver": {"javaOptions": field}}),
        );
        let submission_environment = SubmissionEnvironment {
            defaults: format!("{key} {default}\n"),
            ..SubmissionEnvironment::default()
        };
        for (submitter, properties) in both_ways(&application, &submission_environment) {
            assert_eq!(properties[key], expected, "{submitter}");
            assert_eq!(properties[conf::METRICS_NAMESPACE], "default.pi", "{submitter}");
        }
    }
}

/// Kubeflow's operator always overwrites the user's `spark.metrics.conf`. This operator does so only if
/// `spec.monitoring` contains or names other metrics properties.
#[test]
fn the_users_metrics_properties_count_unless_spec_monitoring_has_some() {
    let spark_conf = json!({"sparkConf": {"spark.metrics.conf": "/mine", "spark.metrics.namespace": "my"}});
    let exporter = json!({"jmxExporterJar": JAR});
    for (monitoring, expected) in [
        (json!({"prometheus": exporter}), "/mine"),
        (json!({"metricsProperties": "a.b=c"}), "/etc/metrics/conf/metrics.properties"),
        (json!({"metricsPropertiesFile": "/file", "metricsProperties": "a.b=c"}), "/file"),
    ] {
        let application = monitored(monitoring, spark_conf.clone());
        for (submitter, properties) in both_ways(&application, &SubmissionEnvironment::default()) {
            assert_eq!(properties[conf::METRICS_CONF], expected, "{submitter}");
            assert_eq!(properties[conf::METRICS_NAMESPACE], "my", "{submitter}");
        }
    }
}

/// The metric names in Kubeflow's dashboards come from these rules. The patterns match the names of JMX beans both
/// before Spark 3 and since Spark 3.
#[test]
fn the_default_configuration_has_a_rule_for_each_metric_of_kubeflow() {
    let application = monitored(json!({"prometheus": {"jmxExporterJar": JAR}}), json!({}));
    let made = config_map(&application, &Run::next(&application)).unwrap();
    let text = made["data"]["prometheus.yaml"].as_str().unwrap();
    let configuration: Value = serde_saphyr::from_str(text).unwrap();
    assert_eq!(configuration["lowercaseOutputName"], true);
    let rules = configuration["rules"].as_array().unwrap();
    let names: Vec<_> = rules.iter().map(|rule| rule["name"].as_str().unwrap()).collect();
    let expected = [
        "spark_driver_$3_$4", "spark_streaming_driver_$4", "spark_structured_streaming_driver_$4",
        "spark_executor_$4", "spark_driver_$3_$4_count", "spark_driver_LiveListenerBus_$3",
        "spark_executor_$4_count", "spark_executor_$4_$5", "spark_executor_$4_$5_count",
    ];
    assert_eq!(names, expected);
    for rule in rules {
        let pattern = rule["pattern"].as_str().unwrap();
        let attribute = if rule["type"] == "COUNTER" { "Count" } else { "Value" };
        assert!(pattern.ends_with(&format!(r"(?:, type=\w+)?><>{attribute}")), "{pattern}");
        assert_eq!(rule["labels"]["app_namespace"], "$1");
        assert_eq!(rule["labels"]["app_id"], "$2");
    }
}

/// Returns the driver's properties as each of the two submitters produces them.
fn both_ways(
    application: &SparkApplication,
    submission_environment: &SubmissionEnvironment,
) -> [(&'static str, BTreeMap<String, String>); 2] {
    ["native", "spark-submit"].map(|submitter| {
        let application = asking(application.clone(), Some(submitter));
        let run = Run::next(&application);
        let chosen = choose(&application, &run, submission_environment, &policy(), Timestamp::UNIX_EPOCH);
        let (By::Native(objects) | By::Pod { objects, .. }) = chosen.unwrap().request.by;
        let text = objects.children.last().unwrap()["data"]["spark.properties"].as_str().unwrap();
        (submitter, read_properties(text).unwrap())
    })
}

/// Returns an application with this `spec.monitoring`, which exposes the metrics of both roles.
fn monitored(mut monitoring: Value, mut spec: Value) -> SparkApplication {
    monitoring["exposeDriverMetrics"] = json!(true);
    monitoring["exposeExecutorMetrics"] = json!(true);
    spec["monitoring"] = monitoring;
    program(spec)
}
