//! A Prometheus that finds the pods of the cluster by their annotations, and what it can be asked.

use super::super::{EndedOnDrop, browser::Browser, kept, until};
use crate::program::run;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    env, fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// In the cluster's network, where nobody else listens on it.
const ADDRESS: &str = "127.0.0.1:19090";
const ADDRESS_OF_PAGES: &str = "127.0.0.1:19091";
/// Debian's has pages; the module that ours is built from comes without.
const WITH_PAGES: &str = "/usr/bin/prometheus";

/// A Prometheus that runs until it is dropped.
pub(super) struct Prometheus {
    _process: EndedOnDrop,
    address: &'static str,
}

impl Prometheus {
    /// One that reads every pod in the namespace `default` that asks for it.
    pub(super) fn start() -> Self {
        let label = |name: &str| format!("__meta_kubernetes_pod_{name}");
        let annotation = |name: &str| label(&format!("annotation_prometheus_io_{name}"));
        let relabelings = json!([
            {"action": "keep", "source_labels": [annotation("scrape")], "regex": "true"},
            {"source_labels": [annotation("path")], "regex": "(.+)", "target_label": "__metrics_path__"},
            {
                "source_labels": [label("ip"), annotation("port")], "separator": ":",
                "target_label": "__address__",
            },
            {"source_labels": [label("name")], "target_label": "pod"},
            {"source_labels": [label("label_sparkoperator_k8s_io_app_name")], "target_label": "app"},
            {"source_labels": [label("label_spark_role")], "target_label": "role"},
            // Those that have ended answer no more.
            {"action": "drop", "source_labels": [label("phase")], "regex": "Succeeded|Failed"},
        ]);
        let kubeconfig = env::var("KUBECONFIG").expect("`tests/cluster/cluster exec` sets it");
        let pods =
            json!({"role": "pod", "kubeconfig_file": kubeconfig, "namespaces": {"names": ["default"]}});
        let configuration = json!({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{
                "job_name": "pods", "kubernetes_sd_configs": [pods], "relabel_configs": relabelings,
            }],
        });
        Self::run("prometheus", ADDRESS, &configuration)
    }

    /// One with pages, for what `self` has read.
    pub(super) fn pages(&self) -> Self {
        let configuration = json!({"remote_read": [{"url": format!("http://{}/api/v1/read", self.address), "read_recent": true}]});
        Self::run(WITH_PAGES, ADDRESS_OF_PAGES, &configuration)
    }

    fn run(program: &str, address: &'static str, configuration: &Value) -> Self {
        let folder = kept(&format!("prometheus-{}", address.replace(':', "-")));
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("prometheus.yml");
        // JSON is YAML.
        fs::write(&file, configuration.to_string()).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}: tests/cluster/cluster build --watching"));
        let this = Self { _process: EndedOnDrop(process), address };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !this.ask("vector(1)").is_ok_and(|answer| answer.len() == 1) {
            assert!(Instant::now() < deadline, "{}", fs::read_to_string(folder.join("log")).unwrap());
            thread::sleep(Duration::from_millis(250));
        }
        this
    }

    /// What a PromQL expression is now: each series with its value.
    pub(super) fn ask(&self, expression: &str) -> Result<Vec<Value>, String> {
        let url = format!("http://{}", self.address);
        let output = run("promtool", &["query", "instant", "--format=json", &url, expression], "");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
    }

    /// The names of all metrics of the pods of `role` that the application `app` has or has had.
    pub(super) fn names(&self, app: &str, role: &str) -> BTreeSet<String> {
        let expression =
            format!("group by (__name__) (last_over_time({{app=\"{app}\",role=\"{role}\"}}[10m]))");
        let answer = self.ask(&expression).unwrap_or_default();
        let names = answer.iter().filter_map(|series| series["metric"]["__name__"].as_str());
        names.map(str::to_owned).collect()
    }

    /// The largest value that a metric of such pods has had.
    pub(super) fn largest(&self, metric: &str) -> f64 {
        let answer = self.ask(&format!("max(max_over_time({metric}[10m]))")).unwrap();
        let value = answer.first().and_then(|series| series["value"][1].as_str());
        value.unwrap_or_else(|| panic!("{metric} has no value")).parse().unwrap()
    }

    /// Its page with the graph of an expression, in a browser; it is kept as a picture of this name.
    pub(super) fn shows(&self, expression: &str, picture: &str) {
        let query: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let url = format!("http://{}/graph?g0.range_input=1m&g0.tab=0&g0.expr={query}", self.address);
        let mut browser = Browser::start("127.0.0.1");
        browser.open(&url).unwrap();
        let drawn = r"document.querySelectorAll('svg path').length";
        until("the lines are drawn", || browser.evaluate(drawn) != 0);
        browser.keeps_picture(picture);
        let page = browser.evaluate("document.body.innerText");
        for metric in ["spark_driver_jvm_heap_used", "spark_executor_jvm_heap_used"] {
            assert!(page.as_str().is_some_and(|page| page.contains(metric)), "{page}");
        }
    }
}
