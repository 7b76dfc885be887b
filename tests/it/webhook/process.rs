//! Runs the operator as a process of its own, with a minimal API server, so that tests can observe how clients of the
//! webhook affect the memory and the log of the process.

use super::{BOTH, Client, DEADLINE, connector, handshake, review, spark_pod};
use crate::prelude::*;
use axum::routing::get;
use procfs::process::Process;
use rustls::time_provider::DefaultTimeProvider;
use std::future::pending;
use tokio_rustls::{TlsConnector, client::TlsStream};

const PROGRAM: &str = env!("CARGO_BIN_EXE_spark-operator");

/// The process `spark-operator run`, which is killed when this value is dropped.
pub(super) struct Operator {
    process: EndedOnDrop,
    pub address: SocketAddr,
    /// Where /healthz and /readyz are served.
    pub probes: SocketAddr,
    connectors: [TlsConnector; 2],
    log: PathBuf,
    _api_server: AbortOnDropHandle<()>,
}

impl Operator {
    /// Starts an operator whose files are in a folder called `name`; returns when its webhook serves.
    pub(super) async fn start(name: &str) -> Self {
        Self::with(name, &["--metrics-bind-address=0"]).await
    }

    /// Starts an operator with these arguments in addition to the usual ones.
    pub(super) async fn with(name: &str, arguments: &[&str]) -> Self {
        let mut operator = Self::of_cluster(name, arguments, Router::new()).await;
        let begin = Instant::now();
        while operator.handshake("h2").await.is_err() {
            assert!(
                begin.elapsed() < DEADLINE && operator.process.0.try_wait().unwrap().is_none(),
                "{}",
                operator.log()
            );
            sleep(Duration::from_millis(20)).await;
        }
        operator
    }

    /// Like [`Self::with`], but does not wait for the webhook. The API server serves `routes` in addition.
    pub(super) async fn of_cluster(name: &str, arguments: &[&str], routes: Router) -> Self {
        let folder = empty_folder(&format!("webhook/{name}"));
        let directory = folder.to_str().unwrap();
        let generated = program::run(
            PROGRAM,
            &[
                "certs", "generate", "--directory", directory, "--dns-name", SERVICE, "--dns-name",
                "localhost",
            ],
            "",
        );
        assert!(generated.status.success(), "{generated:?}");
        fs::copy(folder.join("ca-cert.pem"), folder.join("ca.crt")).unwrap();

        let (api_server, kubeconfig) = api_server(&folder, routes).await;
        let (port, probes) = (free_port(), free_port());
        let log = folder.join("log");
        let process = Command::new(PROGRAM)
            .args(["run", "--zap-encoder=json"])
            .arg(format!("--health-probe-bind-address=127.0.0.1:{probes}"))
            .args(arguments)
            .args([
                "--webhook-cert-name=server-cert.pem", "--webhook-key-name=server-key.pem",
                "--webhook-cert-dir", directory,
            ])
            .arg(format!("--webhook-port={port}"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .env_clear()
            .stdin(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let ca = fs::read_to_string(folder.join("ca.crt")).unwrap();
        let connectors = BOTH.map(|protocol| {
            connector(&ca, Arc::new(DefaultTimeProvider), rustls::DEFAULT_VERSIONS, &[protocol])
        });
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let probes = (Ipv4Addr::LOCALHOST, probes).into();
        Self { process: EndedOnDrop(process), address, probes, connectors, log, _api_server: api_server }
    }

    pub(super) async fn handshake(&self, protocol: &str) -> std::io::Result<TlsStream<TcpStream>> {
        self.handshake_at(self.address, protocol).await
    }

    /// Opens a TLS connection to the listener at `address`, which must show the webhook's certificate.
    pub(super) async fn handshake_at(
        &self,
        address: SocketAddr,
        protocol: &str,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let [http1, http2] = &self.connectors;
        handshake(address, if protocol == "h2" { http2 } else { http1 }).await
    }

    /// Asserts that a new client gets the right answer, over HTTP/1.1 and over HTTP/2.
    pub(super) async fn answers(&self) {
        let review = review(&spark_pod(json!({"host-network": "true"})));
        for mut client in [
            Client::http1(self.handshake("http/1.1").await.unwrap()).await,
            Client::http2(self.handshake("h2").await.unwrap()).await,
        ] {
            assert!(client.review(&review).await["response"]["patch"].is_string());
        }
    }

    /// Returns the anonymous memory of the process now, in KiB; the program file is not included.
    pub(super) fn memory_kib(&self) -> u64 {
        self.proc().status().unwrap().rssanon.unwrap()
    }

    /// Returns the peak memory of the process in KiB, without the pages of its own file: the kernel takes those back
    /// when memory is short, and a program that is not optimized has 50 MiB of them.
    pub(super) fn most_memory_kib(&self) -> u64 {
        let status = self.proc().status().unwrap();
        status.vmhwm.unwrap() - status.rssfile.unwrap()
    }

    /// Returns the number of open files and sockets.
    pub(super) fn open_files(&self) -> usize {
        self.proc().fd_count().unwrap()
    }

    fn proc(&self) -> Process {
        Process::new(i32::try_from(self.process.0.id()).unwrap()).unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Returns the lines of the log that are about clients of the webhook, and not about the API server.
    pub(super) fn logged_of_clients(&self) -> Vec<String> {
        let cluster =
            ["::operator", "::process", "::admin", "_certificates::registration", "_certificates::trust"];
        let is_of_clients =
            |line: &&str| !cluster.iter().any(|target| line.contains(&format!("\"spark_operator{target}\"")));
        self.log().lines().filter(is_of_clients).map(str::to_owned).collect()
    }
}

const SERVICE: &str = "spark-operator-webhook-svc.spark-operator.svc";

/// Starts an API server that has a MutatingWebhookConfiguration and `routes`, and leaves all other requests unanswered
/// (an answer would give the operator work, and work takes memory); returns the server and the kubeconfig that contains
/// its address.
async fn api_server(folder: &Path, routes: Router) -> (AbortOnDropHandle<()>, PathBuf) {
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "spark-operator-webhook", "resourceVersion": "1"}, "webhooks": [],
    });
    let missing =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404});
    let group = "/apis/admissionregistration.k8s.io/v1";
    let routes = routes
        .route(
            &format!("{group}/mutatingwebhookconfigurations/spark-operator-webhook"),
            get(async move || Json(configuration)),
        )
        .route(
            &format!("{group}/validatingwebhookconfigurations/spark-operator-webhook"),
            get(async move || (StatusCode::NOT_FOUND, Json(missing))),
        )
        .fallback(async || pending::<()>().await);
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", tcp.local_addr().unwrap());
    let serving = tokio::spawn(async { axum::serve(tcp, routes).await.unwrap() });
    let kubeconfig = program::kubeconfig(folder, &server, "default");
    (AbortOnDropHandle::new(serving), kubeconfig)
}
