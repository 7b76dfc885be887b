//! Tests what an admin sees of `spark-operator` without a cluster: flags, files, errors, probes and metrics.

use crate::{
    prelude::*,
    program::{answer, printed},
};
use axum::http::Request;
use kube::Config;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{TcpListener, TcpStream};

const PROGRAM: &str = env!("CARGO_BIN_EXE_spark-operator");
/// Ten times as long as the slowest wait took when this was written.
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn help_names_every_flag_its_variable_and_its_default() {
    let help = printed(run(PROGRAM, &["run", "--help"], ""));
    for heading in ["Controller:", "Submission:", "Webhook:", "Probes, metrics, logs:"] {
        assert!(help.contains(heading), "no {heading} in\n{help}");
    }
    assert!(help.contains("--controller-threads <N>"), "{help}");
    assert!(help.contains("[env: SPARK_OPERATOR_CONTROLLER_THREADS=]"), "{help}");
    assert!(help.contains("[default: 10]"), "{help}");
    assert!(help.lines().all(|line| line.len() <= 120), "{help}");
}

#[test]
fn an_unknown_flag_or_command_is_refused_with_the_nearest_known_one() {
    for (arguments, hint) in [
        (
            ["run", "--health-probe-bind-adress=:1"],
            "a similar argument exists: '--health-probe-bind-address'",
        ),
        (["manifest", "crds"], "a similar subcommand exists: 'manifests'"),
    ] {
        let refused = run(PROGRAM, &arguments, "");
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains(hint), "{}", stderr(&refused));
    }
}

#[test]
fn the_version_is_printed() {
    assert_eq!(printed(run(PROGRAM, &["version", "--short"], "")), concat!(env!("CARGO_PKG_VERSION"), "\n"));
    let told = printed(run(PROGRAM, &["version"], ""));
    assert!(told.starts_with("spark-operator ") && told.contains("sparkoperator.k8s.io/v1beta2"), "{told}");
}

#[test]
fn certificate_files_are_private_and_overwrite_no_other_files() {
    let folder = empty_folder("start/certs");
    let arguments =
        ["certs", "generate", "--directory", folder.to_str().unwrap(), "--dns-name", "hook.ours.svc"];
    let written = printed(run(PROGRAM, &arguments, ""));
    let names = ["ca-cert.pem", "ca-key.pem", "server-cert.pem", "server-key.pem"];
    assert_eq!(written.lines().map(Path::new).collect::<Vec<_>>(), names.map(|name| folder.join(name)));
    for name in names {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(name);
        assert!(fs::read_to_string(&path).unwrap().starts_with("-----BEGIN "), "{name}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    let before = fs::read(folder.join("ca-key.pem")).unwrap();
    let refused = run(PROGRAM, &arguments, "");
    assert!(
        stderr(&refused).contains("ca-cert.pem exists already and is left as it is"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(fs::read(folder.join("ca-key.pem")).unwrap(), before);
}

#[test]
fn a_failed_start_is_reported_with_its_cause_and_advice() {
    let folder = empty_folder("start/cannot-start");
    let kubeconfig = kubeconfig(&folder);
    let kubeconfig = kubeconfig.to_str().unwrap();
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (arguments, complaints) in yaml::<Vec<(Vec<String>, Vec<String>)>>(&data("start/refused.yaml")) {
        let filled = |argument: String| argument.replace("{kubeconfig}", kubeconfig).replace("{port}", &port);
        let arguments: Vec<_> = arguments.into_iter().map(filled).collect();
        let refused = operator(&folder).args(&arguments).output().unwrap();
        assert!(!refused.status.success());
        for complaint in complaints {
            assert!(stderr(&refused).contains(&complaint), "{arguments:?}: {}", stderr(&refused));
        }
    }
}

#[test]
fn without_an_api_server_the_operator_waits_and_reports_for_what() {
    let folder = empty_folder("start/alone");
    let mut operator = operator(&folder);
    operator.arg("--kubeconfig").arg(kubeconfig(&folder)).arg("--submitter=spark-submit");
    let arguments = ["--zap-encoder=json", "--webhook-port=0", "--webhook-shutdown-delay=0s"];
    let running = Running::start(operator.args(arguments), &folder);

    let (status, body) = running.get("/healthz");
    assert_eq!((status, &*body), (200, "ok\n"));
    let refused = |line: &str| line.contains("Connection refused");
    let body = eventually("the operator has tried to connect", || {
        let (status, body) = running.get("/readyz");
        assert_eq!(status, 503, "{body}");
        (body.lines().filter(|line| refused(line)).count() == 3).then_some(body)
    });
    let lines: Vec<_> = body.lines().collect();
    assert_eq!(lines[0], "caches: not yet", "{body}");
    assert!(
        lines[1].starts_with("certificates: Secret spark-operator/spark-operator-webhook-certs: "),
        "{body}"
    );
    assert!(
        lines[2]
            .starts_with("definitions: CustomResourceDefinition sparkapplications.sparkoperator.k8s.io: "),
        "{body}"
    );
    assert!(lines[3].starts_with("permissions: SelfSubjectAccessReview: "), "{body}");
    assert_eq!(lines[4], "webhook: not yet", "{body}");

    let (status, metrics) = running.get("/metrics");
    assert_eq!(status, 200);
    assert_eq!(lacks(&metrics, "start/metrics.txt"), None, "{metrics}");
    assert!(metrics.contains("rest_client_requests_total{code=\"<error>\",method=\"GET\","), "{metrics}");

    let log = running.stop();
    let events: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let told = |condition: &str| events.iter().filter(|event| event["condition"] == condition).count();
    assert_eq!((told("certificates"), told("definitions"), told("permissions")), (1, 1, 1), "{log}");
}

#[test]
fn without_a_webhook_metrics_are_served_over_https_with_a_certificate_of_their_own() {
    let folder = empty_folder("start/secure-metrics");
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut operator = operator(&folder);
    operator.arg("--kubeconfig").arg(kubeconfig(&folder)).args(["--webhook=false", "--secure-metrics"]);
    let running = Running::at(free_port(), &mut operator, &folder, metrics);
    // As `curl --insecure` does.
    let mut config = Config::new(format!("https://{metrics}").parse().unwrap());
    (config.root_cert, config.accept_invalid_certs) = (Some(Vec::new()), true);
    let runtime = Background::start();
    let served = || {
        runtime.block_on(async {
            let request = Request::get("/metrics").body(Vec::new()).unwrap();
            Client::try_from(config.clone()).unwrap().request_text(request).await.ok()
        })
    };
    let text = eventually("the metrics are served", served);
    assert!(text.lines().any(|line| line == "spark_application_count 0"), "{text}");
    answer(TcpStream::connect(metrics).unwrap(), "/metrics").expect_err("the port serves HTTPS only");
    running.stop();
}

#[test]
fn a_stopping_operator_is_not_ready_but_still_runs_for_a_while() {
    let folder = empty_folder("start/leaving");
    let mut operator = operator(&folder);
    operator.arg("--kubeconfig").arg(kubeconfig(&folder));
    let arguments = ["--webhook-port=0", "--webhook-shutdown-delay=1s"];
    let running = Running::start(operator.args(arguments), &folder);
    assert!(!running.get("/readyz").1.contains("running"));

    let asked = Instant::now();
    kill_process(Pid::from_child(&running.process.0), Signal::TERM).unwrap();
    eventually("/readyz reports the stop", || {
        running.get("/readyz").1.contains("running: is asked to stop").then_some(())
    });
    running.ends_well();
    assert!(asked.elapsed() >= Duration::from_secs(1));
}

/// A running `spark-operator run`. The process ends when this value is dropped.
struct Running {
    process: EndedOnDrop,
    log: PathBuf,
    port: u16,
}

impl Running {
    /// Starts the operator with metrics and probes at one address.
    fn start(command: &mut Command, folder: &Path) -> Self {
        let port = free_port();
        Self::at(port, command, folder, ([127, 0, 0, 1], port).into())
    }

    /// Starts the operator with probes at `port` and its metrics at `metrics`.
    fn at(port: u16, command: &mut Command, folder: &Path, metrics: SocketAddr) -> Self {
        let log = folder.join("log");
        command.arg(format!("--health-probe-bind-address=127.0.0.1:{port}"));
        command.arg(format!("--metrics-bind-address={metrics}"));
        let process = command.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        let running = Self { process: EndedOnDrop(process), log, port };
        eventually("the operator listens", || TcpStream::connect(running.address()).ok());
        running
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Returns the status and the body of the answer.
    fn get(&self, path: &str) -> (u16, String) {
        answer(TcpStream::connect(self.address()).unwrap(), path).unwrap()
    }

    /// Sends SIGTERM, checks that the process ends without an error, and returns its log.
    fn stop(self) -> String {
        kill_process(Pid::from_child(&self.process.0), Signal::TERM).unwrap();
        self.ends_well()
    }

    fn ends_well(mut self) -> String {
        assert!(self.process.0.wait().unwrap().success());
        fs::read_to_string(&self.log).unwrap()
    }
}

/// Returns the command `spark-operator run`, with an environment that does not name any cluster.
fn operator(folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("run").env_clear().env("HOME", folder).stdin(Stdio::null());
    command
}

/// Returns a kubeconfig for a cluster whose API server does not listen.
fn kubeconfig(folder: &Path) -> PathBuf {
    program::kubeconfig(folder, "http://127.0.0.1:1", "default")
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < DEADLINE, "after {DEADLINE:?} still not true: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
