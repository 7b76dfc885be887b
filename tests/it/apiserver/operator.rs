//! How is the operator run? As a process of its own, with no permissions but those of `manifests/rbac`.

use super::{
    calls::{self, is_admitted, token},
    eventually,
    namespace::Namespace,
    processes::has_had_a_child,
    proxy::Proxy,
    seen,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The MutatingWebhookConfiguration of the manifests.
pub(crate) const WEBHOOK: &str = "spark-operator-webhook";
/// The namespace of the operator and its Secret.
pub(crate) const NAMESPACE: &str = "spark-operator";

/// Whom the API server takes the operator for.
pub(crate) const USER: &str = "system:serviceaccount:spark-operator:spark-operator";
/// The ports that it listens on.
pub(crate) const HEALTH: u16 = 8081;
pub(crate) const METRICS: u16 = 8080;
pub(crate) const WEBHOOK_PORT: u16 = 9443;
/// How far the ports of a second one are from those of the first.
pub(crate) const BESIDE: u16 = 1000;

/// A running operator; it ends with this value.
pub(crate) struct Operator {
    process: Child,
    started: Instant,
    /// To be added to every port.
    beside: u16,
    log: PathBuf,
}

/// How an operator is run; what is not said is as everywhere.
pub(crate) struct Setup<'a> {
    namespace: &'a Namespace,
    cluster: Option<Value>,
    beside: u16,
    election: Vec<String>,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
}

impl Setup<'_> {
    /// Through `proxy` to the API server.
    pub(crate) fn through(self, proxy: &Proxy) -> Self {
        Self { cluster: Some(proxy.cluster()), ..self }
    }

    /// With submission pods for all applications. Nobody runs them but a
    /// [`SubmissionNode`](super::submission_node::SubmissionNode).
    pub(crate) fn by_spark_submit(self) -> Self {
        self.argument("--submitter=spark-submit")
    }

    /// On ports of its own, so that it can run beside another one. The API server asks the other one's webhook.
    pub(crate) fn beside(self) -> Self {
        Self { beside: BESIDE, ..self }
    }

    /// As one of several candidates for the lease, which ends so many seconds after a leader's last word.
    pub(crate) fn candidate(self, seconds: u32) -> Self {
        // The lease has to be a second longer than the deadline.
        let deadline = (seconds * 1000 * 2 / 3).min((seconds - 1) * 1000);
        let election = [
            format!("--leader-election-lease-duration={seconds}s"),
            format!("--leader-election-renew-deadline={deadline}ms"),
            format!("--leader-election-retry-period={}ms", seconds * 1000 / 8),
        ];
        Self { election: election.into(), ..self }
    }

    /// As one of several candidates for the lease, by the operator's own settings.
    pub(crate) fn elected(self) -> Self {
        Self { election: Vec::new(), ..self }
    }

    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it and waits until it is ready and the API server trusts it.
    pub(crate) async fn start(self) -> Operator {
        let mut operator = self.spawn();
        operator.becomes_ready().await;
        operator
    }

    /// Starts it. Its log goes on where that of the test's last one ended.
    pub(crate) fn spawn(self) -> Operator {
        let name = if self.beside == 0 { "operator" } else { "beside" };
        let log = self.namespace.folder.join(format!("{name}.log"));
        let output = fs::File::options().create(true).append(true).open(&log).unwrap();
        let program = env::var("OPERATOR").unwrap_or(env!("CARGO_BIN_EXE_spark-operator").to_owned());
        let ports = [
            format!("--webhook-port={}", WEBHOOK_PORT + self.beside),
            format!("--health-probe-bind-address=:{}", HEALTH + self.beside),
            format!("--metrics-bind-address=:{}", METRICS + self.beside),
        ];
        let arguments = ports.into_iter().chain(self.election).chain(self.arguments);
        let process = Command::new(program)
            .arg("run")
            .args(arguments)
            .env(
                "KUBECONFIG",
                kubeconfig(&self.namespace.folder.join(format!("{name}.kubeconfig")), self.cluster),
            )
            .env("POD_NAMESPACE", NAMESPACE)
            .env("RUST_LOG", "info,spark_operator=debug")
            // Nobody chooses among replicas here but the tests that say so.
            .env("SPARK_OPERATOR_WEBHOOK_SHUTDOWN_DELAY", "0s")
            .envs(self.env)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Operator { process, started: Instant::now(), beside: self.beside, log }
    }
}

impl Operator {
    /// Starts an operator and waits until it is ready and the API server trusts it.
    pub(crate) async fn start(namespace: &Namespace) -> Self {
        Self::with(namespace).start().await
    }

    /// An operator that has yet to be started.
    pub(crate) fn with(namespace: &Namespace) -> Setup<'_> {
        Setup {
            namespace,
            cluster: None,
            beside: 0,
            // Whoever comes after one that was killed would have to wait for the end of its lease.
            election: vec!["--leader-election=false".to_owned()],
            arguments: Vec::new(),
            env: Vec::new(),
        }
    }

    async fn becomes_ready(&mut self) {
        eventually("the operator is ready", async || {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "the operator has ended: {ended:?}");
            let (status, body) = self.get(HEALTH, "/readyz").await?;
            seen(status == 200, body)
        })
        .await;
        // The API server hears of a new caBundle a moment later than we.
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "trust",
                "labels": {"spark-role": "driver"},
                "annotations": {"sparkoperator.k8s.io/env": "[]"},
            },
            "spec": {"containers": [{"name": "spark-kubernetes-driver", "image": "none"}]},
        });
        eventually("the API server trusts the webhook", async || is_admitted(&pod)).await;
    }

    /// What this test's operators have logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Status and body of what it answers; an error is that it does not.
    pub(crate) async fn get(&self, port: u16, path: &str) -> Result<(u16, String), String> {
        let answer = async {
            let mut stream = TcpStream::connect(("127.0.0.1", port + self.beside)).await?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.map(|_| answer)
        };
        let answer = answer.await.map_err(|error: std::io::Error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| answer.clone())?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(head)?;
        Ok((status, body.to_owned()))
    }

    /// The value of a metric, named with its labels.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64, String> {
        let (_, text) = self.get(METRICS, "/metrics").await?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).ok_or_else(|| format!("no {name} in\n{text}"))
    }

    /// Waits until it has looked at so many applications, and has nothing left to look at.
    pub(crate) async fn has_looked_at(&self, applications: usize) {
        eventually(&format!("it has looked at {applications} applications"), async || {
            let looked =
                self.metric("workqueue_queue_duration_seconds_count{name=\"sparkapplication\"}").await?;
            let waiting = self.metric("workqueue_depth{name=\"sparkapplication\"}").await?;
            seen(looked >= applications as f64 && waiting == 0.0, (looked, waiting))
        })
        .await;
    }

    /// Waits until it drives applications.
    pub(crate) async fn leads(&self) {
        eventually("it leads, and its caches are filled", async || {
            let leads = self.metric("leader_election_master_status{name=\"spark-operator-lock\"}").await?;
            let (status, body) = self.get(HEALTH, "/readyz").await?;
            seen(leads == 1.0 && status == 200, (leads, body))
        })
        .await;
    }

    /// How long it has been running.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has ever started a process.
    pub(crate) fn has_had_a_child(&self) -> bool {
        has_had_a_child(self.process.id())
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.killed();
    }

    fn killed(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Whether it is still the process that was started.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// SIGTERM: it has to end with exit code 0.
    pub(crate) async fn stop(mut self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        let ended = eventually("the operator has stopped", async || {
            self.process.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
        })
        .await;
        assert_eq!(ended.code(), Some(0));
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}:\n{}", self.log.display(), self.log());
        }
        if let Ok(None) = self.process.try_wait() {
            self.killed();
        }
    }
}

/// Complains of an operator that runs already: every test would fail for it, each in a way of its own.
pub(crate) fn assert_none_is_left() {
    for port in [HEALTH, METRICS, WEBHOOK_PORT] {
        if let Err(error) = TcpListener::bind(("0.0.0.0", port)) {
            panic!(
                "port {port}: {error}. Has an aborted test left its operator behind? `tests/cluster/cluster up --level api --fresh` \
                 ends it (`make test` does that)"
            );
        }
    }
}

/// The administrator's kubeconfig with a token of the operator's service account in place of his, and with
/// `cluster` in place of the API server if there is one.
fn kubeconfig(path: &Path, cluster: Option<Value>) -> PathBuf {
    let mut config = calls::kubeconfig();
    config["users"][0]["user"] = json!({"token": token("spark-operator", NAMESPACE)});
    if let Some(cluster) = cluster {
        config["clusters"][0]["cluster"] = cluster;
    }
    fs::write(path, config.to_string()).unwrap();
    path.to_owned()
}

/// A program that makes the calls of Spark's own `spark-submit` without its JVM.
pub(crate) fn stand_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand-in")
}

/// Where Spark is unpacked.
pub(crate) fn spark_home() -> &'static Path {
    static HOME: LazyLock<PathBuf> =
        LazyLock::new(|| env::var_os("SPARK_HOME").map_or_else(unpacked, PathBuf::from));
    &HOME
}

fn unpacked() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/cluster");
    let output = Command::new(script).arg("spark-home").output().unwrap();
    assert!(output.status.success(), "cluster spark-home: {}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}
