//! Measures how many reviews the webhook answers on one core, and how many its listener could answer at most.
//!
//! Each server is a process of its own on the first core; the load comes from the second core: eight HTTP/1.1
//! connections that are kept open, each with one review at a time. Reviews of applications, in which a run is planned, come
//! one after the other: their times are those that a user waits.

use super::{Results, Usage, milliseconds};
use crate::{
    apiserver::prelude::now,
    fuzzed,
    prelude::*,
    webhook::{Client, review, spark_pod, trusting},
};
use axum::routing::post;
use certificates::{Certificates, ServingCertificate};
use hyper::{Request, header};
use prometheus_client::registry::Registry;
use rustls::pki_types::ServerName;
use spark_operator::process;
use std::io::{BufRead, BufReader};
use tokio_rustls::TlsConnector;
use webhook::{Closing, Limits, Tls, router, serve_routes};

const CONNECTIONS: usize = 8;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(10);
/// The environment variable that selects the server to run, and its values: one that always answers the same, and the
/// webhook.
const SERVE: &str = "BENCH_SERVE";
const CONSTANT: &str = "constant";
const OPERATORS: &str = "webhook";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: make bench"]
async fn reviews() {
    pin("1", std::process::id());
    let mut results = Results::default();
    for (what, server, path, body, connections) in [
        ("limit", CONSTANT, "/mutate", typical_review(), CONNECTIONS),
        ("mutate", OPERATORS, "/mutate", typical_review(), CONNECTIONS),
        ("validate", OPERATORS, "/validate", application_review(&typical_spec()), 1),
    ] {
        let server = Server::start(server);
        let (connector, address) = (server.connector(), ("127.0.0.1", server.port));
        let load = async |length| load(&connector, address, (path, &body), connections, length).await;
        load(WARM_UP).await;
        let (cpu, begin) = (server.usage().cpu(), Instant::now());
        let mut latencies = load(MEASURED).await;
        let (cpu, seconds) = (server.usage().cpu() - cpu, begin.elapsed().as_secs_f64());
        latencies.sort_unstable();
        let count = latencies.len();
        let mut put = |measure: &str, value: f64| results.put(&format!("webhook.{what}.{measure}"), value);
        put("per_second", count as f64 / seconds);
        put("p50_ms", milliseconds(latencies[count / 2]));
        put("p99_ms", milliseconds(latencies[count * 99 / 100]));
        put("cpu_us_per_review", cpu.as_secs_f64() * 1e6 / count as f64);
        put("rss_mib", server.usage().rss_mib());
    }
    beside_hostile(&mut results).await;
    results.finish();
}

/// Measures how long a driver's review takes, with four connections, while the webhook also reviews applications that
/// are crafted to take long: as large as the API server accepts, with as many errors as possible, as deeply nested as
/// JSON may be.
async fn beside_hostile(results: &mut Results) {
    let server = Server::start(OPERATORS);
    let (connector, address) = (server.connector(), ("127.0.0.1", server.port));
    let hostile = hostile_load(&connector, address, WARM_UP + MEASURED);
    let body = typical_review();
    load(&connector, address, ("/mutate", &body), 4, WARM_UP).await;
    let mut latencies = load(&connector, address, ("/mutate", &body), 4, MEASURED).await;
    latencies.sort_unstable();
    let answered = hostile.await;
    let mut put = |measure: &str, value: f64| results.put(&format!("webhook.hostile.{measure}"), value);
    put("answered", answered as f64);
    put("p50_ms", milliseconds(latencies[latencies.len() / 2]));
    put("p99_ms", milliseconds(latencies[latencies.len() * 99 / 100]));
    put("rss_mib", server.usage().rss_mib());
}

/// Sends reviews of applications that are crafted to take long, two connections for each. Returns how many were
/// answered.
pub(super) fn hostile_load(
    connector: &TlsConnector,
    address: (&'static str, u16),
    length: Duration,
) -> impl Future<Output = usize> + use<> {
    let reviews = [volumes(), settings(), levels()].map(|spec| {
        let (connector, body) = (connector.clone(), application_review(&spec));
        tokio::spawn(async move { load(&connector, address, ("/validate", &body), 2, length).await.len() })
    });
    async {
        let mut answered = 0;
        for review in reviews {
            answered += review.await.unwrap();
        }
        answered
    }
}

/// Returns a spec with as many volumes and mounts as fit into 3 MiB; no mount has a volume of its name.
fn volumes() -> Value {
    let volumes: Vec<_> = (0..60_000).map(|i| json!({"name": format!("a{i}")})).collect();
    let mounts: Vec<_> = (0..40_000).map(|i| json!({"name": format!("b{i}"), "mountPath": "/"})).collect();
    json!({"volumes": volumes, "driver": {"volumeMounts": mounts}})
}

/// Returns a spec with about as many Spark properties as fit into 3 MiB; the webhook refuses each of them.
fn settings() -> Value {
    let conf: Map<_, _> = (0..50_000)
        .map(|i| (format!("spark.kubernetes.driver.annotation.sparkoperator.k8s.io/a{i}"), json!("")))
        .collect();
    json!({"sparkConf": conf})
}

fn levels() -> Value {
    let nested = (0..100).fold(json!("x".repeat(3 << 20)), |inner, _| json!({"x": inner}));
    json!({"driver": {"template": nested}})
}

/// Returns the spec of an application as users typically write it.
fn typical_spec() -> Value {
    yaml(&data("bench/application-spec.yaml"))
}

/// Returns the review of an application with the fields of `spec` and the required ones.
fn application_review(spec: &Value) -> Bytes {
    let mut whole = json!({
        "type": "Scala", "sparkVersion": "4.0.1", "mainApplicationFile": "local:///x.jar", "driver": {}, "executor": {},
    });
    json_patch::merge(&mut whole, spec);
    let mut review = review(&json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
        "metadata": {"name": "etl", "namespace": "default"}, "spec": whole,
    }));
    review["request"]["kind"] =
        json!({"group": "sparkoperator.k8s.io", "version": "v1beta2", "kind": "SparkApplication"});
    Bytes::from(review.to_string())
}

/// Runs a server if [`reviews`] has started this process; otherwise does nothing.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: make bench"]
async fn server() {
    let Ok(what) = env::var(SERVE) else { return };
    // The operator process has the same setting.
    process::take_small_pages().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let certificate = Arc::new(ServingCertificate::default());
    let made = Certificates::generate(&["localhost".to_owned()], now()).unwrap();
    certificate.set(&made.certificate, &made.key).unwrap();
    println!("\nserves {} {}", tcp.local_addr().unwrap().port(), made.ca_certificate.replace('\n', "|"));
    let routes = if what == OPERATORS {
        router(fuzzed::reviews(&mut Registry::default()))
    } else {
        let constant = post(async |_: Bytes| Json(json!({"response": {"allowed": true}})));
        Router::new().route("/mutate", constant)
    };
    let (closing, stop) = (Closing::default(), CancellationToken::new());
    serve_routes(tcp, Some((certificate, &Tls::default())), routes, Limits::REVIEWS, closing, stop)
        .await
        .unwrap();
}

/// Returns the review of a driver as Spark creates it, with eight customizations.
fn typical_review() -> Bytes {
    let pod = spark_pod(json!({
        "env": r#"[{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]"#,
        "config-maps": r#"[{"name": "settings", "path": "/etc/settings"}]"#,
        "volumes": r#"[{"name": "scratch", "emptyDir": {"sizeLimit": "10Gi"}}]"#,
        "volume-mounts": r#"[{"name": "scratch", "mountPath": "/scratch"}]"#,
        "node-selector": r#"{"pool": "spark"}"#,
        "tolerations": r#"[{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]"#,
        "memory-limit": "2Gi", "security-context": r#"{"runAsUser": 185, "allowPrivilegeEscalation": false}"#,
    }));
    Bytes::from(review(&pod).to_string())
}

/// Sends reviews on this many connections, for the time `length`. Returns how long each review took.
async fn load(
    connector: &TlsConnector,
    address: (&'static str, u16),
    (path, body): (&'static str, &Bytes),
    connections: usize,
    length: Duration,
) -> Vec<Duration> {
    let until = Instant::now() + length;
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let (connector, body) = (connector.clone(), body.clone());
            tokio::spawn(async move {
                let tcp = TcpStream::connect(address).await.unwrap();
                tcp.set_nodelay(true).unwrap();
                let name = ServerName::try_from("localhost").unwrap();
                let mut client = Client::http1(connector.connect(name, tcp).await.unwrap()).await;
                let mut latencies = Vec::new();
                while Instant::now() < until {
                    let request = Request::post(format!("https://localhost{path}"))
                        .header(header::CONTENT_TYPE, "application/json")
                        .body(body.clone().into())
                        .unwrap();
                    let begin = Instant::now();
                    let (status, answer) = client.send(request).await.unwrap();
                    latencies.push(begin.elapsed());
                    assert!(status == StatusCode::OK && !answer.is_empty());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await.unwrap());
    }
    latencies
}

/// A server process, which ends when this value is dropped.
struct Server {
    process: EndedOnDrop,
    port: u16,
    ca: String,
}

impl Server {
    fn start(what: &str) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "bench::webhook::server"])
            .env(SERVE, what)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        pin("0", process.id());
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = lines.map(Result::unwrap).find(|line| line.starts_with("serves ")).unwrap();
        let mut words = said.splitn(3, ' ').skip(1);
        let port = words.next().unwrap().parse().unwrap();
        Self { process: EndedOnDrop(process), port, ca: words.next().unwrap().replace('|', "\n") }
    }

    fn connector(&self) -> TlsConnector {
        trusting(&self.ca)
    }

    fn usage(&self) -> Usage {
        Usage::of(self.process.0.id())
    }
}

/// Keeps a process and all its threads on one core.
fn pin(core: &str, process: u32) {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid", core, &process.to_string()])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}
