//! Starts a Prometheus that reads the metrics of all pods whose annotations ask for that, and queries it.
//!
//! Debian's Prometheus is built without the discovery of pods: instead, it asks this process for its [`targets`], with the
//! labels that it would discover. `make soak` sets PROMETHEUS to a program that discovers pods itself.

use super::super::{browser::Browser, kept, listed};
use crate::prelude::*;

/// Maximum time until Prometheus or its page answers.
const PATIENCE: Duration = Duration::from_secs(120);
/// The program of Debian's package.
const PROMETHEUS: &str = "/usr/bin/prometheus";

/// A Prometheus that runs until it is dropped.
pub(super) struct Prometheus {
    _process: EndedOnDrop,
    /// The server of [`targets`], if Prometheus needs one.
    _discovery: Option<Background>,
    address: String,
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
        let background = Background::start();
        let listener = background.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(async || Json(targets()));
        background.spawn(async { axum::serve(listener, router).await.unwrap() });
        // The refresh interval is also the timeout of an answer.
        job["http_sd_configs"] = json!([{"url": url, "refresh_interval": "2s"}]);
        Self { _discovery: Some(background), ..Self::run(PROMETHEUS, &configuration(&job)) }
    }

    /// Starts another Prometheus on the data that `self` has read: the one of Debian's package, which has web pages.
    pub(super) fn pages(&self) -> Self {
        let configuration = json!({"remote_read": [{"url": format!("http://{}/api/v1/read", self.address), "read_recent": true}]});
        Self::run(PROMETHEUS, &configuration)
    }

    fn run(program: &str, configuration: &Value) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
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
        let this = Self { _process: EndedOnDrop(process), _discovery: None, address };
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

/// Returns each pod of the namespace `default` that has an address, with the labels of Prometheus' own discovery.
fn targets() -> Vec<Value> {
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
    listed("/api/v1/namespaces/default/pods").iter().filter_map(target).collect()
}
