//! How is the operator run? As a process of its own, with no permissions but those of `manifests/rbac`.

use super::{
    eventually,
    kubectl::{kubectl, try_kubectl_with},
    namespace::Namespace,
    seen,
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use std::{
    env, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::LazyLock,
    thread,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The MutatingWebhookConfiguration of the manifests.
pub(super) const WEBHOOK: &str = "spark-operator-webhook";
/// The namespace of the operator and its Secret.
pub(super) const NAMESPACE: &str = "spark-operator";
/// Whom the API server takes the operator for.
pub(super) const USER: &str = "system:serviceaccount:spark-operator:spark-operator";

const HEALTH_PORT: u16 = 8081;
const WEBHOOK_PORT: u16 = 9443;

/// A running operator; it ends with this value, and so do its children.
pub(super) struct Operator {
    process: Child,
    log: PathBuf,
}

/// The processes of a `spark-submit` whose operator was killed; they end with this value.
pub(super) struct Orphan(Pid);

impl Operator {
    /// Starts an operator and waits until it is ready and the API server trusts it. Its log goes on where
    /// that of the test's last one ended.
    pub(super) async fn start(namespace: &Namespace) -> Self {
        let log = namespace.folder.join("operator.log");
        let output = fs::File::options().create(true).append(true).open(&log).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_spark-operator"))
            .arg("run")
            .env("KUBECONFIG", kubeconfig(&namespace.folder))
            .env("SPARK_HOME", spark_home())
            .env("POD_NAMESPACE", NAMESPACE)
            .env("RUST_LOG", "info,spark_operator=debug")
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let mut operator = Self { process, log };
        operator.becomes_ready().await;
        operator
    }

    async fn becomes_ready(&mut self) {
        eventually("the operator is ready", async || {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "the operator has ended: {ended:?}");
            let answer = readyz().await.unwrap_or_else(|error| error.to_string());
            seen(answer.starts_with("HTTP/1.1 200 "), &answer)
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
        eventually("the API server trusts the webhook", async || {
            let created = try_kubectl_with(&pod, &["create", "--dry-run=server", "-f", "-"]);
            created.map(drop)
        })
        .await;
    }

    /// What this test's operators have logged.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The `spark-submit`s that run, by the ids of their process groups.
    pub(super) fn spark_submits(&self) -> Vec<Pid> {
        let operator = i32::try_from(self.process.id()).unwrap();
        processes()
            .into_iter()
            // One that has just been forked may still be in our own group.
            .filter(|process| process.parent == operator && process.id == process.group)
            .filter_map(|process| Pid::from_raw(process.id))
            .collect()
    }

    /// Waits until a `spark-submit` runs.
    pub(super) async fn submits(&self) -> Pid {
        eventually("a spark-submit runs", async || {
            self.spark_submits().first().copied().ok_or_else(|| "none".to_owned())
        })
        .await
    }

    /// SIGKILL. The `spark-submit`s that it leaves behind go on.
    pub(super) fn kill(mut self) -> Vec<Orphan> {
        let orphans = self.spark_submits().into_iter().map(Orphan).collect();
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        orphans
    }

    /// SIGTERM: it has to end with exit code 0.
    pub(super) async fn stop(mut self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        let ended = eventually("the operator has stopped", async || {
            self.process.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
        })
        .await;
        assert_eq!(ended.code(), Some(0));
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}:\n{}", self.log.display(), self.log());
        }
        if let Ok(None) = self.process.try_wait() {
            let submits = self.spark_submits();
            self.process.kill().unwrap();
            self.process.wait().unwrap();
            submits.into_iter().map(Orphan).for_each(drop);
        }
    }
}

impl Orphan {
    /// Whether any of its processes lives.
    pub(super) fn is_alive(&self) -> bool {
        is_group_alive(self.0)
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        // An error means that none of them lives any more.
        kill_process_group(self.0, Signal::KILL).ok();
    }
}

/// Complains of an operator that runs already: every test would fail for it, each in a way of its own.
pub(super) fn assert_none_is_left() {
    for port in [HEALTH_PORT, WEBHOOK_PORT] {
        if let Err(error) = TcpListener::bind(("0.0.0.0", port)) {
            panic!(
                "port {port}: {error}. Has an aborted test left its operator behind? `tests/cluster/cluster up --level api --fresh` \
                 ends it (`make test` does that)"
            );
        }
    }
}

/// Whether a process of this group lives.
pub(super) fn is_group_alive(group: Pid) -> bool {
    processes().iter().any(|process| process.group == group.as_raw_nonzero().get())
}

struct Process {
    id: i32,
    parent: i32,
    group: i32,
}

/// All processes but zombies.
fn processes() -> Vec<Process> {
    let process = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        // pid (name) state parent group …; the name may have blanks and parentheses.
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?;
        let process =
            Process { id, parent: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? };
        (state != "Z").then_some(process)
    };
    fs::read_dir("/proc").unwrap().filter_map(|entry| process(entry.ok()?)).collect()
}

async fn readyz() -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", HEALTH_PORT)).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The administrator's kubeconfig with a token of the operator's service account in place of his.
fn kubeconfig(folder: &Path) -> PathBuf {
    let mut config: Value =
        serde_json::from_str(&kubectl(&["config", "view", "--raw", "--output=json"])).unwrap();
    let token = kubectl(&["create", "token", "spark-operator", "--namespace", NAMESPACE]);
    config["users"][0]["user"] = json!({"token": token.trim()});
    let path = folder.join("kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// Where Spark is unpacked.
fn spark_home() -> &'static str {
    static HOME: LazyLock<String> = LazyLock::new(|| {
        env::var("SPARK_HOME").unwrap_or_else(|_| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/cluster");
            let output = Command::new(script).arg("spark-home").output().unwrap();
            assert!(
                output.status.success(),
                "cluster spark-home: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        })
    });
    &HOME
}
