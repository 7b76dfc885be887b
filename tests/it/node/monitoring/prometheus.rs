//! A Prometheus that reads the pods of the cluster that their annotations ask it to read, and what it can be asked.
//!
//! Debian's Prometheus is built without the discovery of pods, so that [`write_targets`] writes a file with the labels that Prometheus itself
//! would discover. `make soak` sets PROMETHEUS to a program that discovers them itself.

use super::super::{EndedOnDrop, browser::Browser, kept};
use crate::{apiserver::kubectl::kubectl, program::run};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The longest that Prometheus or its page may take to answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Debian's.
const PROMETHEUS: &str = "/usr/bin/prometheus";

/// A Prometheus that runs until it is dropped.
pub(super) struct Prometheus {
    _process: EndedOnDrop,
    _targets: Option<Targets>,
    address: String,
}

/// Keeps the file with the targets up to date until it is dropped.
struct Targets {
    is_dropped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prometheus {
    /// One that reads every pod of the application `app` in the namespace `default` that asks for it.
    pub(super) fn start(app: &str) -> Self {
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
            // Other tests read those of theirs.
            {"action": "keep", "source_labels": ["app"], "regex": app},
            // Those that have ended answer no more.
            {"action": "drop", "source_labels": [label("phase")], "regex": "Succeeded|Failed"},
        ]);
        let mut job = json!({"job_name": "pods", "relabel_configs": relabelings});
        let configuration =
            |job: &Value| json!({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]});
        if let Ok(program) = env::var("PROMETHEUS") {
            let kubeconfig = env::var("KUBECONFIG").expect("`tests/cluster/cluster exec` sets it");
            job["kubernetes_sd_configs"] =
                json!([{"role": "pod", "kubeconfig_file": kubeconfig, "namespaces": {"names": ["default"]}}]);
            return Self::run(&program, &configuration(&job));
        }
        let (file, targets) = Targets::begin();
        job["file_sd_configs"] = json!([{"files": [file]}]);
        Self { _targets: Some(targets), ..Self::run(PROMETHEUS, &configuration(&job)) }
    }

    /// One with pages, for what `self` has read.
    pub(super) fn pages(&self) -> Self {
        let configuration = json!({"remote_read": [{"url": format!("http://{}/api/v1/read", self.address), "read_recent": true}]});
        Self::run(PROMETHEUS, &configuration)
    }

    fn run(program: &str, configuration: &Value) -> Self {
        // Nobody else in the cluster's network is given this port before Prometheus has it.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let address = free.to_string();
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
        let this = Self { _process: EndedOnDrop(process), _targets: None, address };
        let deadline = Instant::now() + PATIENCE;
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
        let deadline = Instant::now() + PATIENCE;
        // A page asks once, and a Prometheus that is busy may answer it with an error: its user opens the page again.
        while !draws(&mut browser, &url) {
            let page = browser.evaluate("document.body.innerText");
            assert!(Instant::now() < deadline, "nothing is drawn on {url}: {page:#}");
        }
        browser.keeps_picture(picture);
        let page = browser.evaluate("document.body.innerText");
        for metric in ["spark_driver_jvm_heap_used", "spark_executor_jvm_heap_used"] {
            assert!(page.as_str().is_some_and(|page| page.contains(metric)), "{page}");
        }
    }
}

/// Whether lines are drawn on a page with a graph within ten seconds.
fn draws(browser: &mut Browser, url: &str) -> bool {
    browser.open(url).unwrap();
    (0..20).any(|_| {
        thread::sleep(Duration::from_millis(500));
        browser.evaluate("document.querySelectorAll('svg path').length") != 0
    })
}

impl Targets {
    /// The file, in which the targets are from now on.
    fn begin() -> (PathBuf, Self) {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let file = kept(&format!("targets-{}.json", FILES.fetch_add(1, Ordering::Relaxed)));
        let is_dropped = Arc::<AtomicBool>::default();
        let (place, is_over) = (file.clone(), Arc::clone(&is_dropped));
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                write_targets(&place);
                thread::sleep(Duration::from_secs(1));
            }
        });
        (file, Self { is_dropped, thread: Some(thread) })
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("it is taken here alone").join();
        assert!(ended.is_ok() || thread::panicking(), "the targets could not be written: see above");
    }
}

/// Each pod of the namespace `default` that has an address, with the labels that Prometheus' own discovery gives it.
fn write_targets(file: &Path) {
    let pods: Value = serde_json::from_str(&kubectl(&["get", "pods", "--output=json"])).unwrap();
    let target = |pod: &Value| {
        let address = pod["status"]["podIP"].as_str()?;
        let labels = ["annotations", "labels"].into_iter().flat_map(|kind| {
            let entries = pod["metadata"][kind].as_object().into_iter().flatten();
            entries.map(move |(key, value)| {
                let key = key.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
                (format!("__meta_kubernetes_pod_{}_{key}", kind.trim_end_matches('s')), value.clone())
            })
        });
        let itself = [
            ("name", &pod["metadata"]["name"]),
            ("ip", &pod["status"]["podIP"]),
            ("phase", &pod["status"]["phase"]),
        ];
        let itself = itself.map(|(key, value)| (format!("__meta_kubernetes_pod_{key}"), value.clone()));
        Some(json!({"targets": [address], "labels": labels.chain(itself).collect::<Map<_, _>>()}))
    };
    let targets: Vec<_> = pods["items"].as_array().unwrap().iter().filter_map(target).collect();
    // Prometheus reads the file when it changes, and must not read half of it.
    let whole = file.with_extension("unfinished");
    fs::write(&whole, json!(targets).to_string()).unwrap();
    fs::rename(&whole, file).unwrap();
}
