//! Starts a Prometheus that reads the metrics of all pods whose annotations ask for that, and queries it.
//!
//! Debian's Prometheus is built without the discovery of pods: instead, [`write_targets`] writes a file with the labels
//! that Prometheus would discover. `make soak` sets PROMETHEUS to a program that discovers pods itself.

use super::super::{browser::Browser, kept, listed};
use crate::prelude::*;
use std::{net::TcpListener, sync::atomic::AtomicBool, thread::JoinHandle};

/// The longest that Prometheus or its page may take to answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// The program of Debian's package.
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
    /// Starts a Prometheus that reads those pods of the application `app` in the namespace `default` whose annotations
    /// ask for it.
    pub(super) fn start(app: &str) -> Self {
        let mut relabelings: Value = yaml(&data("node/relabelings.yaml"));
        // Other tests read the pods of their own applications.
        let own = json!({"action": "keep", "source_labels": ["app"], "regex": app});
        relabelings.as_array_mut().unwrap().push(own);
        let mut job = json!({"job_name": "pods", "relabel_configs": relabelings});
        let configuration =
            |job: &Value| json!({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]});
        if let Ok(program) = env::var("PROMETHEUS") {
            let kubeconfig = env::var("KUBECONFIG").expect("`tests/tools/cluster/cluster exec` sets it");
            job["kubernetes_sd_configs"] =
                json!([{"role": "pod", "kubeconfig_file": kubeconfig, "namespaces": {"names": ["default"]}}]);
            return Self::run(&program, &configuration(&job));
        }
        let (file, targets) = Targets::begin();
        job["file_sd_configs"] = json!([{"files": [file]}]);
        Self { _targets: Some(targets), ..Self::run(PROMETHEUS, &configuration(&job)) }
    }

    /// Starts another Prometheus on the data that `self` has read: the one of Debian's package, which has web pages.
    pub(super) fn pages(&self) -> Self {
        let configuration = json!({"remote_read": [{"url": format!("http://{}/api/v1/read", self.address), "read_recent": true}]});
        Self::run(PROMETHEUS, &configuration)
    }

    fn run(program: &str, configuration: &Value) -> Self {
        // No other process in the cluster's network is given this port before Prometheus binds it.
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
            .unwrap_or_else(|error| {
                panic!("{program}: {error}: tests/tools/cluster/cluster build --watching")
            });
        let this = Self { _process: EndedOnDrop(process), _targets: None, address };
        let deadline = Instant::now() + PATIENCE;
        while !this.ask("vector(1)").is_ok_and(|answer| answer.len() == 1) {
            assert!(Instant::now() < deadline, "{}", fs::read_to_string(folder.join("log")).unwrap());
            thread::sleep(Duration::from_millis(250));
        }
        this
    }

    /// Returns the present value of a PromQL expression: each series with its value.
    pub(super) fn ask(&self, expression: &str) -> Result<Vec<Value>, String> {
        let url = format!("http://{}", self.address);
        let said =
            program::said(run("promtool", &["query", "instant", "--format=json", &url, expression], ""));
        said.and_then(|answer| serde_json::from_str(&answer).map_err(|error| error.to_string()))
    }

    /// Returns the names of all metrics of the present and past pods of `role` of the application `app`.
    pub(super) fn names(&self, app: &str, role: &str) -> BTreeSet<String> {
        let expression =
            format!("group by (__name__) (last_over_time({{app=\"{app}\",role=\"{role}\"}}[10m]))");
        let answer = self.ask(&expression).unwrap_or_default();
        let names = answer.iter().filter_map(|series| series["metric"]["__name__"].as_str());
        names.map(str::to_owned).collect()
    }

    /// Returns the largest value that `metric` has had in the last ten minutes.
    pub(super) fn largest(&self, metric: &str) -> f64 {
        let answer = self.ask(&format!("max(max_over_time({metric}[10m]))")).unwrap();
        let value = answer.first().and_then(|series| series["value"][1].as_str());
        value.unwrap_or_else(|| panic!("{metric} has no value")).parse().unwrap()
    }

    /// Opens the page with the graph of an expression in a browser, and saves a picture of this name.
    pub(super) fn shows(&self, expression: &str, picture: &str) {
        let query: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let url = format!("http://{}/graph?g0.range_input=1m&g0.tab=0&g0.expr={query}", self.address);
        let mut browser = Browser::start("127.0.0.1");
        let deadline = Instant::now() + PATIENCE;
        // A page queries only once, and a busy Prometheus may answer with an error: a user would open the page again.
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

/// Opens a page with a graph; returns whether lines are drawn within ten seconds.
fn draws(browser: &mut Browser, url: &str) -> bool {
    browser.open(url).unwrap();
    (0..20).any(|_| {
        thread::sleep(Duration::from_millis(500));
        browser.evaluate("document.querySelectorAll('svg path').length") != 0
    })
}

impl Targets {
    /// Starts to write the targets to a file; returns the path of the file.
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

/// Writes each pod of the namespace `default` that has an address, with the labels of Prometheus' own discovery.
fn write_targets(file: &Path) {
    let pods = listed("/api/v1/namespaces/default/pods");
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
    let targets: Vec<_> = pods.iter().filter_map(target).collect();
    // Prometheus reads the file when it changes, so an unfinished file is written under another name.
    let whole = file.with_extension("unfinished");
    fs::write(&whole, json!(targets).to_string()).unwrap();
    fs::rename(&whole, file).unwrap();
}
