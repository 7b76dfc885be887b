//! Runs the operator as a process of its own, with only the permissions of `manifests/rbac`.

use super::{
    calls::{token, tried},
    processes::has_had_a_child,
};
use crate::apiserver::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use std::{fs::File, io::Write, net::TcpListener, path, sync::LazyLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration of the manifests.
pub(crate) const WEBHOOK: &str = "spark-operator-webhook";
/// The namespace of the operator and its Secret.
pub(crate) const NAMESPACE: &str = "spark-operator";
/// The path of the Lease in the API.
pub(crate) const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/spark-operator/leases/spark-operator-lock";

/// The operator's user name, as the API server sees it.
pub(crate) const USER: &str = "system:serviceaccount:spark-operator:spark-operator";
/// The ports on which the operator listens.
pub(crate) const HEALTH: u16 = 8081;
pub(crate) const METRICS: u16 = 8080;
pub(crate) const WEBHOOK_PORT: u16 = 9443;
/// The offset of the ports of a second operator from those of the first.
pub(crate) const BESIDE: u16 = 1000;

/// A running operator; its process is killed when this value is dropped.
pub(crate) struct Operator {
    process: Child,
    started: Instant,
    /// The offset that is added to every port.
    beside: u16,
    log: PathBuf,
}

/// The settings with which an operator is started. A setting that a test does not change has the default of the tests.
pub(crate) struct Setup<'a> {
    namespace: &'a Namespace,
    /// The path of the program.
    program: String,
    /// The command of the program: `run`, or `controller start`.
    command: Vec<String>,
    cluster: Option<Value>,
    beside: u16,
    /// The service account, in the operator's namespace.
    account: &'static str,
    election: Vec<String>,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
}

impl Setup<'_> {
    /// Connects the operator to the API server through `proxy`.
    pub(crate) fn through(self, proxy: &Proxy) -> Self {
        Self { cluster: Some(proxy.cluster()), ..self }
    }

    /// Runs another program than the one of this build.
    pub(crate) fn program(self, program: &str) -> Self {
        Self { program: program.to_owned(), ..self }
    }

    /// Runs another command of the program than `run`.
    pub(crate) fn command(self, command: &[String]) -> Self {
        Self { command: command.to_vec(), ..self }
    }

    /// Runs the operator with the rights of another account in the operator's namespace.
    pub(crate) fn account(self, account: &'static str) -> Self {
        Self { account, ..self }
    }

    /// Submits all applications by submission pods. Only a [`SubmissionNode`](super::submission_node::SubmissionNode)
    /// runs these pods.
    pub(crate) fn by_spark_submit(self) -> Self {
        self.argument("--submitter=spark-submit")
    }

    /// Uses ports of its own, so that the operator can run beside another operator. The API server calls the webhook of
    /// the other operator.
    pub(crate) fn beside(self) -> Self {
        Self { beside: BESIDE, ..self }
    }

    /// Makes the operator one of several candidates for the lease, which expires this many seconds after the leader's
    /// last renewal.
    pub(crate) fn candidate(self, seconds: u32) -> Self {
        // The operator requires that the lease is at least a second longer than the renew deadline.
        let deadline = (seconds * 1000 * 2 / 3).min((seconds - 1) * 1000);
        let election = [
            format!("--leader-election-lease-duration={seconds}s"),
            format!("--leader-election-renew-deadline={deadline}ms"),
            format!("--leader-election-retry-period={}ms", seconds * 1000 / 8),
        ];
        Self { election: election.into(), ..self }
    }

    /// Makes the operator one of several candidates for the lease, with the operator's default settings.
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

    /// Starts the operator; waits until the operator is ready and the API server trusts its webhook.
    pub(crate) async fn start(self) -> Operator {
        let mut operator = self.spawn();
        operator.becomes_ready().await;
        operator
    }

    /// Starts the operator. Its log is appended to that of the test's earlier operator on the same ports.
    pub(crate) fn spawn(self) -> Operator {
        count_start();
        let name = if self.beside == 0 { "operator" } else { "beside" };
        let log = self.namespace.folder.join(format!("{name}.log"));
        let output = fs::File::options().create(true).append(true).open(&log).unwrap();
        let ports = [
            format!("--webhook-port={}", WEBHOOK_PORT + self.beside),
            format!("--health-probe-bind-address=:{}", HEALTH + self.beside),
            format!("--metrics-bind-address=:{}", METRICS + self.beside),
        ];
        let arguments = ports.into_iter().chain(self.election).chain(self.arguments);
        let process = Command::new(self.program)
            .args(self.command)
            .args(arguments)
            .env(
                "KUBECONFIG",
                kubeconfig(
                    &self.namespace.folder.join(format!("{name}.kubeconfig")),
                    self.account,
                    self.cluster,
                ),
            )
            .env("POD_NAMESPACE", NAMESPACE)
            .env("RUST_LOG", "info,spark_operator=debug")
            // The delay is for load balancers that choose among replicas; tests that have one override this value.
            .env("SPARK_OPERATOR_WEBHOOK_SHUTDOWN_DELAY", "0s")
            .env("SPARK_OPERATOR_SCHEDULE_SHORTEST_PERIOD", "1s")
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
    /// Starts an operator; waits until the operator is ready and the API server trusts its webhook.
    pub(crate) async fn start(namespace: &Namespace) -> Self {
        Self::with(namespace).start().await
    }

    /// Returns the settings of an operator that is not started yet.
    pub(crate) fn with(namespace: &Namespace) -> Setup<'_> {
        Setup {
            namespace,
            program: env::var("OPERATOR").unwrap_or(env!("CARGO_BIN_EXE_spark-operator").to_owned()),
            command: vec!["run".to_owned()],
            cluster: None,
            beside: 0,
            account: "spark-operator",
            // With leader election, an operator that replaces a killed one would have to wait until the lease expires.
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
        // The API server may learn of a new caBundle only shortly after the operator is ready.
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "trust", "labels": {"spark-role": "driver"},
                "annotations": {"sparkoperator.k8s.io/env": "[]"},
            },
            "spec": {"containers": [{"name": "spark-kubernetes-driver", "image": "none"}]},
        });
        eventually("the API server trusts the webhook", async || {
            tried(&pod).map_err(|error| error.to_string())
        })
        .await;
    }

    /// Returns the log of this operator, and of the test's earlier operators on the same ports.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the log contains `text`, and returns the log. The operator logs what it has written after the API
    /// server has answered, so that a test can see the change before the line.
    pub(crate) async fn has_logged(&self, text: &str) -> String {
        eventually(&format!("{text:?} is in the log"), async || {
            let log = self.log();
            if log.contains(text) { Ok(log) } else { Err(log) }
        })
        .await
    }

    /// Returns the HTTP status and the body of the operator's answer to a GET, or the reason why there is no answer.
    pub(crate) async fn get(&self, port: u16, path: &str) -> Result<(u16, String), String> {
        get(port + self.beside, path).await
    }

    /// Returns the value of a metric. `name` contains the labels, as in the exposition: `name{label="value"}`.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64, String> {
        let (_, text) = self.get(METRICS, "/metrics").await?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).ok_or_else(|| format!("no {name} in\n{text}"))
    }

    /// Waits until a metric fulfils `condition`.
    pub(crate) async fn measures(&self, name: &str, condition: impl Fn(f64) -> bool) {
        eventually(&format!("{name} has the expected value"), async || {
            let value = self.metric(name).await?;
            seen(condition(value), value)
        })
        .await;
    }

    /// Waits until the operator has taken this many applications from its queue, and its queue is empty.
    pub(crate) async fn has_looked_at(&self, applications: usize) {
        eventually(&format!("it has reconciled {applications} applications"), async || {
            let looked =
                self.metric("workqueue_queue_duration_seconds_count{controller=\"sparkapplication\",name=\"sparkapplication\"}").await?;
            let waiting = self.metric("workqueue_depth{controller=\"sparkapplication\",name=\"sparkapplication\"}").await?;
            seen(looked >= applications as f64 && waiting == 0.0, (looked, waiting))
        })
        .await;
    }

    /// Waits until the operator leads and is ready, so that it runs applications.
    pub(crate) async fn leads(&self) {
        eventually("it leads, and its caches are filled", async || {
            let leads = self.metric("leader_election_master_status{name=\"spark-operator-lock\"}").await?;
            let (status, body) = self.get(HEALTH, "/readyz").await?;
            seen(leads == 1.0 && status == 200, (leads, body))
        })
        .await;
    }

    /// Returns the time since the operator was started.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the id of the operator's process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns whether the operator has ever started a process.
    pub(crate) fn has_had_a_child(&self) -> bool {
        has_had_a_child(self.process.id())
    }

    /// Ends the operator by SIGKILL.
    pub(crate) fn kill(mut self) {
        self.killed();
    }

    fn killed(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Returns whether the process that was started is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Ends the operator by SIGTERM; asserts that its exit code is 0.
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

/// Panics if an operator is already running: because of that operator every test would fail, each in a different way.
pub(crate) fn assert_none_is_left() {
    for port in [HEALTH, METRICS, WEBHOOK_PORT] {
        if let Err(error) = TcpListener::bind(("0.0.0.0", port)) {
            panic!(
                "port {port}: {error}. Has an aborted test left its operator behind? `tests/tools/cluster/cluster up --level api --fresh` \
                 ends it (`make test` does that)"
            );
        }
    }
}

/// Writes a kubeconfig to `path` and returns `path`. It is the administrator's kubeconfig with a token of `account`
/// instead of the administrator's credentials, and with `cluster`, if given, instead of the API server.
fn kubeconfig(path: &Path, account: &'static str, cluster: Option<Value>) -> PathBuf {
    let mut config = calls::kubeconfig();
    config["users"][0]["user"] = json!({"token": token(account, NAMESPACE)});
    if let Some(cluster) = cluster {
        config["clusters"][0]["cluster"] = cluster;
    }
    fs::write(path, config.to_string()).unwrap();
    path.to_owned()
}

/// Adds to the file in which `tests/tools/in-clusters` counts the operators that a level starts: each takes a second of
/// a core.
fn count_start() {
    if let Some(file) = env::var_os("OPERATORS_STARTED") {
        let mut file = File::options().append(true).create(true).open(file).unwrap();
        file.write_all(b".").unwrap();
    }
}

/// Returns the HTTP status and the body of the answer of a port of this machine to a GET without TLS, or the reason why
/// there is no answer.
pub(crate) async fn get(port: u16, path: &str) -> Result<(u16, String), String> {
    let answer = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
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

/// Returns a folder that can replace an unpacked Spark: its program `bin/spark-submit` sends the same requests to the
/// API server as Spark's own `spark-submit`, without a JVM.
pub(crate) fn stand_in() -> PathBuf {
    path::absolute("tests/tools/stand-in").unwrap()
}

/// Returns the folder in which Spark is unpacked.
pub(crate) fn spark_home() -> &'static Path {
    static HOME: LazyLock<PathBuf> =
        LazyLock::new(|| env::var_os("SPARK_HOME").map_or_else(|| unpacked(&[]), PathBuf::from));
    &HOME
}

/// Returns the folder with the unpacked Spark that these flags select.
pub(crate) fn unpacked(flags: &[&str]) -> PathBuf {
    let output = run("tests/tools/cluster/cluster", &[&["spark-home"], flags].concat(), "");
    PathBuf::from(program::printed(output).trim())
}
