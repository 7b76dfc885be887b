//! Runs controller, webhook, certificates and the ports for probes and metrics in one process, or one half of them with
//! its ports. When one of these parts ends, all end.

use crate::{
    admin::{self, Liveness, Readiness},
    api_server::{self, Requests, WATCH_SECONDS},
    installation::Needs,
    listen::{everywhere, listen},
    manifests, metrics,
    parts::{CACHES, CERTIFICATES, DEFINITIONS, PERMISSIONS, Parts, WEBHOOK},
    process,
    settings::{ExposureCheck, Settings, VERSION},
};
use anyhow::Context;
use axum::http::{HeaderValue, header::USER_AGENT};
use certificates::{Places, ServingCertificate, Trust};
use controller::{
    self, ApplicationMetrics, ScheduleMetrics, Setup, SubmissionEnvironment, SubmissionMetrics, Watching,
    Workloads,
};
use futures::FutureExt;
use jiff::tz::TimeZone;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use leader_election::Leadership;
use plan::{Policy, extension::Extensions};
use prometheus_client::registry::Registry;
use std::{env, io, path::Path, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use watches::Watches;
use webhook::{
    ExposureRights, LargeReviews, Lookups, Quotas, ReadSubmissionEnvironment, ReviewMetrics, Reviews,
};

/// How long a watch may go without an answer before the liveness probe fails. A watch restarts every minute; after a
/// failure it is retried at least every two minutes.
const SILENCE: Duration = Duration::from_secs(5 * 60);

/// The message if no client can be created from the configuration. The cause follows.
pub(crate) const UNUSABLE: &str = "the Kubernetes configuration cannot be used";

/// Runs the operator, or the half that `settings` name, until a signal arrives. Logs `warnings` first.
///
/// # Errors
///
/// When the operator cannot start, or one of its parts has ended early.
pub async fn run(settings: Settings, warnings: &[String]) -> anyhow::Result<()> {
    let stop = process::begin(&settings.log, warnings)?;
    let installation = &settings.installation;
    let spark_configuration = settings.spark_configuration()?;
    let timing = settings.election.timing()?;
    let source = settings.webhook.source();
    if let Some(warning) = settings.webhook.unused_directory(&source) {
        warn!(directory = ?settings.webhook.webhook_cert_dir, "{warning}");
    }
    let closing = settings.webhook.closing();
    let tls = settings.webhook.tls()?;
    let of_probes = settings.health_probe_bind_address;
    let metrics_tls = settings.metrics.tls(of_probes)?;
    let metrics_of_applications = settings.metrics.of_applications()?;
    let extensions = installation.extensions.extensions()?;

    let config = config(settings.cluster.kubeconfig.as_deref()).await?;
    let master = settings.master.clone().unwrap_or_else(|| master(&config));
    let (drives, serves_webhook) = (installation.drives_applications(), installation.serves_webhook());
    let webhook = serves_webhook.then(|| listen("--webhook-port", everywhere(settings.webhook.webhook_port)));
    let webhook = webhook.transpose()?;
    let admin = of_probes.map(|address| listen("--health-probe-bind-address", address)).transpose()?;
    let own_metrics = settings.metrics.address().filter(|own| Some(*own) != of_probes);
    let own_metrics = own_metrics.map(|own| listen("--metrics-bind-address", own)).transpose()?;

    let mut registry = metrics::registry();
    let requests = Requests::new(&mut registry);
    let watches = Watches::default();
    let client = api_server::client(config, &requests).context(UNUSABLE)?;
    let readiness = readiness(drives, serves_webhook);
    let places = settings.webhook.places(&installation.name);
    let namespaces = installation.namespaces();
    let of_connects = connect_policy(&settings, &master);
    let connect = installation.connect.setup(&installation.name.name, &places.secret_namespace, of_connects);
    let setup = Setup {
        client: client.clone(),
        policy: policy(&settings, &places, master, extensions),
        schedule_policy: schedule_policy(&settings),
        connect,
        max_submissions: settings.max_submissions,
        submission_environment: SubmissionEnvironment::of_process(spark_configuration),
        application_metrics: ApplicationMetrics::new(metrics_of_applications),
        workloads: Workloads::new(&mut registry, settings.controller_threads),
        submission_metrics: SubmissionMetrics::new(&mut registry),
        schedule_metrics: ScheduleMetrics::new(&mut registry),
        watching: Watching::new(client.clone(), namespaces, WATCH_SECONDS, watches.clone(), &mut registry),
        instance: settings.pod_name.clone(),
        server_time: Arc::new(move || requests.server_time()),
    };
    let certificate = Arc::new(ServingCertificate::default());
    let webhook = webhook.map(|tcp| {
        let serving = Arc::clone(&certificate);
        let expected = manifests::webhook_configurations(installation, &places.service_namespace);
        let trust = Trust::new(client.clone(), places.clone(), source, serving, expected, &mut registry);
        let gateway = installation.connect.gateway_user(&installation.name.name, &places.secret_namespace);
        (tcp, Arc::new(trust), reviews(&settings, &setup, gateway, &mut registry))
    });
    let lock = settings.election.lock(&installation.name, &places.secret_namespace).filter(|_| drives);
    let leadership = lock.as_ref().map(|(namespace, name)| {
        Leadership::new(client.clone(), (namespace, name), &settings.pod_name, timing, &mut registry)
    });

    info!(version = VERSION, "started");
    let mut parts = Parts::new(&readiness, &stop, closing.delay);
    // Probes and metrics are served until the webhook has ended; without a webhook, until the process is asked to stop.
    let served = CancellationToken::new();
    let mut probes = admin::probes(liveness(watches.clone(), setup.workloads.clone()), readiness.clone());
    let applications = setup.application_metrics.clone();
    let text = move || metrics::text(&registry) + &applications.text();
    let metrics = admin::metrics(&settings.metrics.metrics_endpoint, Arc::new(text));
    if let Some(tcp) = own_metrics {
        parts.serve_metrics(tcp, metrics, metrics_tls, &certificate, serves_webhook, &served)?;
    } else if settings.metrics.address().is_some() {
        probes = probes.merge(metrics);
    }
    if let Some(tcp) = admin {
        parts.start("port of the probes", admin::serve(tcp, probes, served.clone()));
    }
    let mut served = Some(served.drop_guard());
    if let Some((tcp, trust, reviews)) = webhook {
        let itself = parts.serve_webhook(tcp, certificate, tls, reviews, closing, served.take())?;
        parts.keep_trusted(&trust, &watches, itself);
    }
    let needs = Needs { places, lock, settings: settings.installation };
    parts.keep_installed(client, needs);
    if drives {
        // Driver pods that are created before the API server trusts the webhook would be denied, and fields that are
        // written before the definitions are right would be lost.
        let before: &[_] = if serves_webhook { &[CERTIFICATES, DEFINITIONS] } else { &[DEFINITIONS] };
        parts.start("controller", drive(setup, leadership, before, readiness, stop));
    }
    parts.all_ended(served).await
}

/// Returns the readiness of a process that drives applications, serves the webhook, or both.
fn readiness(drives: bool, serves_webhook: bool) -> Readiness {
    let of_webhook: &[_] = if serves_webhook { &[CERTIFICATES, WEBHOOK] } else { &[] };
    let of_controller: &[_] = if drives { &[CACHES] } else { &[] };
    let of_both = [DEFINITIONS, PERMISSIONS];
    Readiness::waiting_for(of_both.iter().chain(of_controller).chain(of_webhook).copied())
}

/// Returns the settings on which the plan of an application depends.
fn policy(settings: &Settings, places: &Places, master: String, extensions: Extensions) -> Policy {
    let installation = &settings.installation;
    let time_to_live = Some(i64::from(settings.default_time_to_live_seconds));
    Policy {
        operator: Some(format!("{}/{}", places.secret_namespace, installation.name.name)),
        submission: submission::Settings {
            master,
            has_webhook: installation.webhook,
            exposure: settings.exposure.exposure(),
            submission_pod: submission::submission_pod::Settings {
                cpu: settings.submission_pod_cpu.clone(),
                memory: settings.submission_pod_memory.clone(),
                program: settings.spark_submit_path.clone(),
                deadline: settings.spark_submit_timeout,
            },
        },
        driver_creation_grace: settings.driver_pod_creation_grace_period,
        submitter: settings.submitter,
        executor_limit: settings.max_tracked_executor_per_app,
        default_time_to_live_seconds: time_to_live.filter(|seconds| *seconds > 0),
        default_service_account: Some(settings.default_service_account.clone()),
        partial_restart: settings.partial_restart,
        has_driver_pdb: installation.enable_driver_pdb,
        protects_driver_outcome: settings.protect_driver_outcome,
        tries_executors: settings.executor_dry_run,
        extensions,
    }
}

/// Returns the settings on which the plan of a schedule depends.
fn schedule_policy(settings: &Settings) -> schedules::Policy {
    schedules::Policy {
        precision: settings.scheduled_spark_application_timestamp_precision,
        shortest_period: settings.schedule_shortest_period,
        zone: TimeZone::system(),
    }
}

/// Returns the settings on which the plan of a SparkConnect depends.
fn connect_policy(settings: &Settings, master: &str) -> connect::Policy {
    connect::Policy {
        default_service_account: Some(settings.default_service_account.clone()),
        exposure: settings.exposure.exposure(),
        tries_executors: settings.executor_dry_run,
        ..connect::Policy::new(master)
    }
}

/// Returns what the webhook's reviews need in addition to a request. They follow the same policies as the controller of
/// `setup`. `gateway` is the user name of the gateway's service account.
fn reviews(settings: &Settings, setup: &Setup, gateway: Option<String>, registry: &mut Registry) -> Reviews {
    let Setup { client, policy, schedule_policy, submission_environment: files, .. } = setup;
    let (installation, files) = (&settings.installation, files.clone());
    let submission_environment: ReadSubmissionEnvironment = Arc::new(move || {
        let files = files.clone();
        async move { files.found().await.map_err(|unreadable| unreadable.to_string()) }.boxed()
    });
    let check = installation.check_exposure_rights;
    let rights = || ExposureRights { client: client.clone(), refuses: check == ExposureCheck::True };
    let quotas = || Quotas { client: client.clone(), policy: policy.clone(), submission_environment };
    // The flags of the webhook of Kubeflow's operator do not say which batch schedulers there are.
    let knows_schedulers = installation.drives_applications() || installation.extensions.has_any();
    Reviews {
        metrics: ReviewMetrics::new(registry),
        quotas: installation.enable_resource_quota_enforcement.then(quotas),
        exposure_rights: (check != ExposureCheck::False).then(rights),
        lookups: Lookups::new(settings.webhook.webhook_client_ca.is_some()),
        gateway,
        precision: schedule_policy.precision,
        shortest_period: schedule_policy.shortest_period,
        extensions: if knows_schedulers { policy.extensions.clone() } else { Extensions::default() },
        large: LargeReviews::default(),
    }
}

/// Drives applications until `stop`, once the conditions `before` are met, and where there is a `leadership` only while
/// this process leads.
async fn drive(
    setup: Setup,
    leadership: Option<Leadership>,
    before: &[&'static str],
    readiness: Readiness,
    stop: CancellationToken,
) -> io::Result<()> {
    if stop.run_until_cancelled(readiness.wait_for(before)).await.is_none() {
        return Ok(());
    }
    // A replica that takes over fills its caches now. It stays ready: its webhook may be the last one of the Service.
    let drive = || controller::run(setup.clone(), || readiness.met(CACHES), stop.clone());
    // A replica that does not lead has no caches and watches nothing, but it is ready to lead.
    let stands_by = || readiness.met(CACHES);
    match leadership {
        Some(leadership) => leadership.lead(drive, stands_by, stop.clone()).await,
        None => drive().await,
    }
    Ok(())
}

/// Returns a client for the cluster that `kubeconfig` names, or else for the cluster that kube infers.
///
/// # Errors
///
/// When there is no configuration, or the configuration cannot be used.
pub async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = config(kubeconfig).await?;
    Client::try_from(config).context(UNUSABLE)
}

/// Reads the configuration from `kubeconfig`, or else from KUBECONFIG, ~/.kube/config or the pod's account.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    let mut config = match kubeconfig {
        Some(path) => {
            let file = || format!("--kubeconfig: {}", path.display());
            let read = Kubeconfig::read_from(path).with_context(file)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.with_context(file)?
        }
        None => Config::infer().await.context(
            "no Kubernetes configuration: run in a cluster, or set --kubeconfig or KUBECONFIG to a file that says where the \
             API server is",
        )?,
    };
    // What precedes the slash is the manager of the fields that the operator writes, in `metadata.managedFields`.
    let agent = HeaderValue::from_static(concat!("spark-operator/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    Ok(config)
}

/// Returns the check behind `/healthz`: whether every watch is alive and the reconcile loops make progress.
fn liveness(watches: Watches, workloads: Workloads) -> Liveness {
    Arc::new(move || silent(&watches).chain(workloads.stuck()).collect())
}

/// Returns a description of each watch that is not alive.
pub(crate) fn silent(watches: &Watches) -> impl Iterator<Item = String> {
    let silent = watches.silent(SILENCE).into_iter();
    silent.map(|(path, age)| format!("the watch of {path} has been silent for {} s", age.as_secs()))
}

/// Returns the URL of the API server for Spark's `--master`: that of its Service inside a cluster, otherwise that of
/// the kubeconfig.
fn master(config: &Config) -> String {
    match (env::var("KUBERNETES_SERVICE_HOST"), env::var("KUBERNETES_SERVICE_PORT")) {
        (Ok(host), Ok(port)) if host.contains(':') => format!("k8s://https://[{host}]:{port}"),
        (Ok(host), Ok(port)) => format!("k8s://https://{host}:{port}"),
        _ => format!("k8s://{}", config.cluster_url.to_string().trim_end_matches('/')),
    }
}
