//! What does `spark-operator run` consist of? Controller, webhook, certificates and admin port in one
//! process; where one ends early, all end.

use crate::{
    admin::{self, Readiness},
    controller::{self, Setup, SparkSubmitRunner},
    plan::Policy,
    settings::Settings,
    shutdown, telemetry,
    webhook::{self, ServingCertificate, Trust},
};
use anyhow::{Context, anyhow};
use jiff::Timestamp;
use kube::{Client, Config};
use std::{env, future::Future, net::Ipv4Addr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often certificates and caBundle are looked at; whoever removes them is undone within this time.
const TRUST_INTERVAL: Duration = Duration::from_secs(60);
/// How soon to try again where that failed: the webhook is of no use before.
const TRUST_RETRY: Duration = Duration::from_secs(2);

/// Conditions of readiness, as `/readyz` names them.
mod condition {
    pub(super) const CACHES: &str = "caches";
    pub(super) const CERTIFICATES: &str = "certificates";
}

/// Runs the operator until a signal.
///
/// # Errors
///
/// When it cannot start, or a part of it has ended early.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    telemetry::init(settings.log_format);
    settings.check_spark_home().map_err(|why| anyhow!(why))?;
    let stop = shutdown::on_signal().context("cannot listen for signals")?;

    let config =
        Config::infer().await.context("no Kubernetes configuration: set KUBECONFIG or run in a cluster")?;
    let master = settings.master.clone().unwrap_or_else(|| master(&config));
    let client = Client::try_from(config).context("the Kubernetes configuration cannot be used")?;
    let webhook = TcpListener::bind((Ipv4Addr::UNSPECIFIED, settings.webhook_port))
        .await
        .with_context(|| format!("--webhook-port: cannot listen on {}", settings.webhook_port))?;
    let admin = TcpListener::bind(settings.health_probe_bind_address).await.with_context(|| {
        format!("--health-probe-bind-address: cannot listen on {}", settings.health_probe_bind_address)
    })?;

    let readiness = Readiness::waiting_for([condition::CACHES, condition::CERTIFICATES]);
    let certificate = Arc::new(ServingCertificate::default());
    let trust = Trust::new(client.clone(), settings.places(), Arc::clone(&certificate));
    let (ended, submissions_ended) = mpsc::unbounded_channel();
    let setup = Setup {
        client,
        policy: Policy { master, driver_creation_grace: settings.driver_pod_creation_grace_period },
        spark_submit: SparkSubmitRunner::new(
            settings.spark_home,
            settings.max_spark_submits,
            settings.spark_submit_timeout,
            ended,
        ),
        submissions_ended,
        concurrency: settings.controller_threads,
        instance: settings.pod_name,
    };

    info!(version = env!("CARGO_PKG_VERSION"), "started");
    let trusted = CancellationToken::new();
    let mut parts = Parts { running: JoinSet::new(), stop: stop.clone() };
    parts.start("admin port", admin::serve(admin, readiness.clone(), stop.clone()));
    parts.start("webhook", webhook::serve(webhook, certificate, stop.clone()));
    parts.start("certificates", keep_trust(trust, readiness.clone(), trusted.clone(), stop.clone()));
    parts.start("controller", async move {
        // Driver pods that are made before the API server trusts the webhook would be denied.
        if stop.run_until_cancelled(trusted.cancelled()).await.is_some() {
            controller::run(setup, move || readiness.met(condition::CACHES), stop).await;
        }
        Ok(())
    });
    parts.all_ended().await
}

/// Keeps certificates and caBundle right; cancels `trusted` once they are.
async fn keep_trust(
    trust: Trust,
    readiness: Readiness,
    trusted: CancellationToken,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let keep = async {
        loop {
            let pause = match trust.establish(now()).await {
                Ok(()) => {
                    readiness.met(condition::CERTIFICATES);
                    trusted.cancel();
                    TRUST_INTERVAL
                }
                Err(error) => {
                    warn!(%error, "the API server cannot trust the webhook yet");
                    TRUST_RETRY
                }
            };
            sleep(pause).await;
        }
    };
    stop.run_until_cancelled(keep).await;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the clock of the certificates")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// The API server as Spark's `--master` names it: inside a cluster its Service, otherwise as kubeconfig has
/// it.
fn master(config: &Config) -> String {
    match (env::var("KUBERNETES_SERVICE_HOST"), env::var("KUBERNETES_SERVICE_PORT")) {
        (Ok(host), Ok(port)) if host.contains(':') => format!("k8s://https://[{host}]:{port}"),
        (Ok(host), Ok(port)) => format!("k8s://https://{host}:{port}"),
        _ => format!("k8s://{}", config.cluster_url.to_string().trim_end_matches('/')),
    }
}

/// The parts of the process.
struct Parts {
    running: JoinSet<(&'static str, std::io::Result<()>)>,
    stop: CancellationToken,
}

impl Parts {
    fn start(
        &mut self,
        name: &'static str,
        part: impl Future<Output = std::io::Result<()>> + Send + 'static,
    ) {
        self.running.spawn(async move { (name, part.await) });
    }

    /// Waits until all have ended; the first that ends without having been asked to takes the others with it.
    async fn all_ended(mut self) -> anyhow::Result<()> {
        let mut result = Ok(());
        while let Some(ended) = self.running.join_next().await {
            let failure = match ended {
                Ok((name, Err(error))) => Some(anyhow!(error).context(format!("the {name} failed"))),
                Ok((name, Ok(()))) if !self.stop.is_cancelled() => {
                    Some(anyhow!("the {name} has ended early"))
                }
                Ok((_, Ok(()))) => None,
                Err(panic) => Some(anyhow!(panic).context("a part of the operator panicked")),
            };
            if let Some(failure) = failure {
                self.stop.cancel();
                result = result.and(Err(failure));
            }
        }
        result
    }
}
