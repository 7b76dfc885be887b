//! Proves that a real Prometheus reads the metrics of drivers and executors, and that promtool accepts the operator's
//! own metrics and alert rules.

mod prometheus;

use super::{application, apply, delete, followed, install, kept, native::python_job, operator_pods, until};
use crate::{apiserver::prelude::*, program::run};
use prometheus::Prometheus;

/// Gauges, which have the same names with every version of the exporter.
const GAUGES_OF_DRIVER: [&str; 4] = [
    "spark_driver_blockmanager_memory_maxmem_mb",
    "spark_driver_dagscheduler_job_alljobs",
    "spark_driver_dagscheduler_stage_runningstages",
    "spark_driver_jvm_heap_used",
];
const GAUGES_OF_EXECUTOR: [&str; 3] = [
    "spark_executor_threadpool_completetasks",
    "spark_executor_threadpool_activetasks",
    "spark_executor_jvm_heap_used",
];
/// Counters, whose names end in `_total` with exporters since 1.0.
const COUNTERS_OF_DRIVER: [&str; 2] = [
    "spark_driver_livelistenerbus_numeventsposted_count",
    "spark_driver_dagscheduler_messageprocessingtime_count",
];
const COUNTERS_OF_EXECUTOR: [&str; 2] = ["spark_executor_runtime_count", "spark_executor_cputime_count"];

#[test]
#[ignore = "needs a node: make test"]
fn prometheus_reads_jvm_and_spark_metrics_through_the_classic_exporter() {
    let _shared = install();
    // The example is used unchanged: its exporter is the one in all examples for Kubeflow's operator.
    let name = "spark-pi-prometheus";
    let prometheus = Prometheus::start(name);
    kubectl(&["apply", "-f", &format!("manifests/examples/{name}.yaml")]);
    reads_all_of_it(&prometheus, name, "", "jvm_memory_bytes_used");
    shows_it(&prometheus, name);
    // The application would run for minutes.
    delete(name);
}

#[test]
#[ignore = "needs a node: make test"]
fn prometheus_reads_the_same_through_exporter_1_0_in_pods_of_spark_submit() {
    let _shared = install();
    let name = "exported-by-1-0";
    let prometheus = Prometheus::start(name);
    // The job waits until the file /tmp/enough exists.
    let mut job = python_job(name, "waiting-job", "tests/data/node/waiting/job.py");
    job["metadata"]["annotations"] = json!({"sparkoperator.k8s.io/submitter": "spark-submit"});
    job["spec"]["monitoring"] = json!({
        "exposeDriverMetrics": true, "exposeExecutorMetrics": true,
        "prometheus": {"jmxExporterJar": "/prometheus/jmx_prometheus_javaagent-1.0.1.jar", "port": 9404},
    });
    apply(&job);
    reads_all_of_it(&prometheus, name, "_total", "jvm_memory_used_bytes");
    kubectl(&["exec", &format!("{name}-driver"), "--", "touch", "/tmp/enough"]);
    assert_eq!(followed(name).last().unwrap(), "COMPLETED");
    until("its ConfigMap is gone", || {
        kubectl(&["get", "configmap", &format!("{name}-prom-conf"), "--ignore-not-found"]).is_empty()
    });
    delete(name);
}

#[test]
#[ignore = "needs a node: make test"]
fn prometheus_reads_the_metrics_that_spark_serves_itself() {
    let _shared = install();
    let name = "spark-pi-prometheus-servlet";
    let prometheus = Prometheus::start(name);
    kubectl(&["apply", "-f", &format!("manifests/examples/{name}.yaml")]);
    until("Prometheus has the driver's metrics", || {
        prometheus
            .names(name, "driver")
            .iter()
            .any(|name| name.ends_with("_driver_BlockManager_memory_maxMem_MB_Value"))
    });
    // The application would run for minutes.
    delete(name);
}

#[test]
#[ignore = "needs a node: make test"]
fn a_driver_without_its_exporter_says_which_jar_is_missing() {
    let _shared = install();
    for submitter in ["native", "spark-submit"] {
        let name = format!("no-exporter-{submitter}");
        let mut job = example("spark-pi-prometheus");
        job["metadata"]["name"] = json!(name);
        job["metadata"]["annotations"] = json!({"sparkoperator.k8s.io/submitter": submitter});
        job["spec"]["monitoring"]["prometheus"]["jmxExporterJar"] = json!("/prometheus/none.jar");
        apply(&job);
        assert_eq!(followed(&name).last().unwrap(), "FAILED");
        let message = application(&name)["status"]["applicationState"]["errorMessage"].take();
        assert_eq!(
            message,
            "driver container failed with ExitCode: 1, Reason: Error, Message: the image has no Java agent at \
             `/prometheus/none.jar`: put the exporter's jar there, or write the path that it has into \
             spec.monitoring.prometheus.jmxExporterJar"
        );
        delete(&name);
    }
}

/// The metrics of Kubeflow's operator that this operator has too, for Kubeflow's dashboards, and about which promtool
/// may complain, because their names break rules of Prometheus: a counter ends in `_total`, nothing else ends in
/// `_count`, and no name contains the word histogram.
const KUBEFLOW_METRICS: &str = include_str!("../../../data/kubeflow-metrics.txt");

#[test]
#[ignore = "needs a node: make test"]
fn promtool_complains_only_about_metric_names_of_kubeflow() {
    let _shared = install();
    for pod in operator_pods() {
        let path = format!("/api/v1/namespaces/spark-operator/pods/{pod}:8080/proxy/metrics");
        let metrics = kubectl(&["get", "--raw", &path]);
        let checked = run("promtool", &["check", "metrics"], &metrics);
        let said = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
        let others: Vec<_> = said
            .lines()
            .filter(|line| {
                let name = line.split(' ').next().unwrap_or_default();
                !KUBEFLOW_METRICS.lines().any(|known| known == name)
            })
            .collect();
        assert_eq!(others, Vec::<&str>::new());
    }
}

#[test]
#[ignore = "needs a node: make test"]
fn promtool_accepts_the_example_alert_rules() {
    let rules = fs::read_dir("manifests/monitoring").unwrap().map(|entry| entry.unwrap().path());
    let rules: Vec<_> = rules.filter(|path| path.to_string_lossy().contains("rules")).collect();
    assert!(!rules.is_empty());
    for file in rules {
        let object: Value = yaml(&file);
        // The rules are in the format of Prometheus, or in that of the Prometheus Operator.
        let groups = if object["kind"] == "PrometheusRule" { &object["spec"] } else { &object };
        let plain = kept("rules.yaml");
        fs::write(&plain, groups.to_string()).unwrap();
        let checked = run("promtool", &["check", "rules", plain.to_str().unwrap()], "");
        assert!(checked.status.success(), "{}: {checked:?}", file.display());
    }
}

/// Waits until Prometheus has all metrics of a running application, and checks some values. `total` is the suffix of
/// the names of counters; `heap` is a metric of the JVM that the exporter adds by itself.
fn reads_all_of_it(prometheus: &Prometheus, name: &str, total: &str, heap: &str) {
    for (role, gauges, plain) in [
        ("driver", &GAUGES_OF_DRIVER[..], COUNTERS_OF_DRIVER),
        ("executor", &GAUGES_OF_EXECUTOR, COUNTERS_OF_EXECUTOR),
    ] {
        let counters = plain.map(|counter| format!("{counter}{total}"));
        let expected = gauges.iter().copied().chain(counters.iter().map(String::as_str)).chain([heap]);
        let expected: Vec<_> = expected.collect();
        let missing = || {
            let names = prometheus.names(name, role);
            expected.iter().filter(|name| !names.contains(**name)).copied().collect::<Vec<_>>()
        };
        until(&format!("Prometheus has {expected:?} of the {role}"), || missing().is_empty());
        let wrong = if total.is_empty() { "_total" } else { "" };
        let names = prometheus.names(name, role);
        let other = |counter: &&&str| names.contains(&format!("{counter}{wrong}"));
        assert_eq!(plain.iter().find(other), None, "a counter has only one of the two names");
    }
    let of = |metric: &str| format!("{metric}{{app=\"{name}\",app_namespace=\"default\",app_id=\"{name}\"}}");
    until("an executor has finished tasks", || {
        prometheus.largest(&of("spark_executor_threadpool_completetasks")) > 0.0
    });
    assert!(prometheus.largest(&of("spark_driver_jvm_heap_used")) > 1e6);
    assert!(prometheus.largest(&of("spark_executor_jvm_heap_used")) > 1e6);
    assert!(prometheus.largest(&of("spark_driver_dagscheduler_job_alljobs")) > 0.0);
    let executors = prometheus.ask(&of("spark_executor_jvm_heap_used")).unwrap();
    assert_eq!(executors[0]["metric"]["executor_id"], "1");
}

/// Shows the heap sizes on Prometheus' own page and saves a picture.
fn shows_it(prometheus: &Prometheus, name: &str) {
    // The graph of a single sample shows nothing. Meanwhile the job keeps two cores busy.
    until("there is something to see", || {
        let seen =
            format!("count_over_time(spark_executor_threadpool_completetasks{{app=\"{name}\"}}[5m]) > 4");
        !prometheus.ask(&seen).unwrap().is_empty()
    });
    let heaps = format!("{{app=\"{name}\",__name__=~\"spark_(driver|executor)_jvm_heap_used\"}}");
    let expression = format!("sum by (__name__, app) ({heaps})");
    prometheus.pages().shows(&expression, "prometheus-graph.png");
}

/// Returns the example of this name.
fn example(name: &str) -> Value {
    yaml(&data("../../manifests/examples").join(Path::new(name).with_extension("yaml")))
}
