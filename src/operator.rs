//! Runs controller, webhook, certificates and the ports for probes and metrics in one process, or one half of them with
//! its ports. When one of these parts ends, all end.

use crate::{
    admin::{self, Liveness, Readiness},
    api_server::{self, Requests},
    installation,
    listen::{everywhere, listen},
    manifests, metrics,
    parts::{
        Parts,
        condition::{CACHES, CERTIFICATES, DEFINITIONS, PERMISSIONS, RUNNING, WEBHOOK},
    },
    process_limits,
    settings::{Settings, VERSION},
    shutdown, telemetry,
};
use anyhow::{Context, anyhow};
use certificates::{Registration, ServingCertificate, Trust};
use controller::{
    self, ApplicationMetrics, ScheduleMetrics, Setup, SubmissionEnvironment, SubmissionMetrics,
    SubmitterSettings, Watching, Workloads,
};
use futures::FutureExt;
use jiff::tz::TimeZone;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use leader_election::Leadership;
use plan::{Policy, executors::ExecutorLimits, schedule};
use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use watches::Watches;
use webhook::{
    self, ExposureRights, LargeReviews, Lookups, NamedBatchSchedulers, Quotas, ReadSubmissionEnvironment,
    ReviewMetrics, Reviews,
};

/// How long a watch may go without an answer before the liveness probe fails. A watch begins anew every minute; after a
/// failure it is retried at least every two minutes.
const SILENCE: Duration = Duration::from_secs(5 * 60);

/// Runs the operator, or the half that `settings` name, until a signal arrives. Logs `warnings` first.
///
/// # Errors
///
/// When the operator cannot start, or one of its parts has ended early.
pub async fn run(settings: Settings, warnings: &[String]) -> anyhow::Result<()> {
    telemetry::init(settings.zap_encoder, &settings.zap_log_level);
    for warning in warnings {
        warn!("{warning}");
    }
    if let Err(error) = process_limits::take_small_pages() {
        warn!(%error, "memory is taken in pages of any size");
    }
    if let Err(error) = process_limits::raise_open_files() {
        warn!(%error, "the limit of open files stays as it is");
    }
    let spark_configuration = settings.spark_configuration().map_err(|why| anyhow!(why))?;
    let timing = settings.election.timing().map_err(|why| anyhow!(why))?;
    let source = settings.webhook.source().map_err(|why| anyhow!(why))?;
    let closing = settings.webhook.closing();
    let tls = settings.webhook.tls().map_err(|why| anyhow!(why))?;
    let metrics_tls = settings.metrics.tls(settings.health_probe_bind_address).map_err(|why| anyhow!(why))?;
    let metrics_of_applications = settings.metrics.of_applications().map_err(|why| anyhow!(why))?;
    let batch_schedulers =
        settings.installation.batch_scheduler.batch_schedulers().map_err(|why| anyhow!(why))?;
    let stop = shutdown::on_signal().context("cannot listen for signals")?;

    let config = config(settings.cluster.kubeconfig.as_deref()).await?;
    let master = settings.master.clone().unwrap_or_else(|| master(&config));
    let (drives, serves_webhook) =
        (settings.installation.drives_applications(), settings.installation.serves_webhook());
    let has_webhook = settings.installation.webhook;
    let webhook = if serves_webhook {
        Some(listen("--webhook-port", everywhere(settings.webhook.webhook_port))?)
    } else {
        None
    };
    let admin = listen("--health-probe-bind-address", settings.health_probe_bind_address)?;
    let own_metrics = match settings.metrics.address() {
        Some(address) if address != settings.health_probe_bind_address => {
            Some(listen("--metrics-bind-address", address)?)
        }
        _ => None,
    };

    let mut registry = metrics::registry();
    let requests = Requests::new(&mut registry);
    let watches = Watches::default();
    let client =
        api_server::client(config, &requests).context("the Kubernetes configuration cannot be used")?;
    // Driver pods that are created before the API server trusts the webhook would be denied, and fields that are
    // written before the definitions are right would be lost.
    let before_driving: &[_] = if serves_webhook { &[CERTIFICATES, DEFINITIONS] } else { &[DEFINITIONS] };
    let of_webhook: &[_] = if serves_webhook { &[CERTIFICATES, WEBHOOK] } else { &[] };
    let of_controller: &[_] = if drives { &[CACHES] } else { &[] };
    let of_both = [DEFINITIONS, PERMISSIONS];
    let readiness = Readiness::waiting_for(of_both.iter().chain(of_controller).chain(of_webhook).copied());
    let installation = &settings.installation.name;
    let places = settings.webhook.places(installation);
    let namespaces = settings.installation.namespaces();
    let workloads = Workloads::new(&mut registry, settings.controller_threads);
    let applications = ApplicationMetrics::new(metrics_of_applications);
    let precision = settings.scheduled_spark_application_timestamp_precision;
    let shortest_period = settings.schedule_shortest_period;
    let setup = Setup {
        client: client.clone(),
        policy: Policy {
            operator: Some(format!("{}/{}", places.secret_namespace, installation.name)),
            driver_creation_grace: settings.driver_pod_creation_grace_period,
            submitter: settings.submitter,
            submission_pod: settings.submission_pod(),
            has_webhook,
            executor_limits: ExecutorLimits {
                count: settings.max_tracked_executor_per_app,
                ..ExecutorLimits::default()
            },
            default_time_to_live_seconds: Some(i64::from(settings.default_time_to_live_seconds))
                .filter(|seconds| *seconds > 0),
            has_driver_pdb: settings.installation.enable_driver_pdb,
            protects_driver_outcome: settings.protect_driver_outcome,
            tries_executors: settings.executor_dry_run,
            exposure: settings.exposure.exposure(),
            batch_schedulers: batch_schedulers.clone(),
            ..Policy::new(master)
        },
        schedule_policy: schedule::Policy { precision, shortest_period, zone: TimeZone::system() },
        submitter: SubmitterSettings { at_once: settings.max_submissions, has_webhook },
        submission_environment: SubmissionEnvironment::of_process(spark_configuration),
        application_metrics: applications.clone(),
        submission_metrics: SubmissionMetrics::new(&mut registry),
        schedule_metrics: ScheduleMetrics::new(&mut registry),
        watching: Watching::new(
            client.clone(),
            namespaces,
            api_server::WATCH_SECONDS,
            watches.clone(),
            &mut registry,
        ),
        concurrency: settings.controller_threads,
        workloads: workloads.clone(),
        instance: settings.pod_name.clone(),
        server_time: {
            let requests = requests.clone();
            Arc::new(move || requests.server_time())
        },
    };

    let quotas = settings.installation.enable_resource_quota_enforcement;
    let submission_environment: ReadSubmissionEnvironment = {
        let files = setup.submission_environment.clone();
        Arc::new(move || {
            let files = files.clone();
            async move { files.found().await.map_err(|unreadable| unreadable.to_string()) }.boxed()
        })
    };
    let checks_exposure = settings.installation.check_exposure_rights;
    let webhook = webhook.map(|tcp| {
        let certificate = Arc::new(ServingCertificate::default());
        let serving = Arc::clone(&certificate);
        let expected = manifests::webhook_configurations(&settings.installation, &places.service_namespace);
        let registration = Registration::new(expected, &mut registry);
        let trust = Trust::new(client.clone(), places.clone(), source, serving, registration, &mut registry);
        let metrics = ReviewMetrics::new(&mut registry);
        let reviews = Reviews {
            metrics,
            quotas: quotas.then(|| Quotas::new(client.clone(), setup.policy.clone(), submission_environment)),
            exposure_rights: checks_exposure.then(|| ExposureRights::new(client.clone())),
            lookups: Lookups::new(settings.webhook.webhook_client_ca.is_some()),
            precision,
            shortest_period,
            // The flags of the webhook of Kubeflow's operator do not say which ones there are.
            batch_schedulers: (drives || batch_schedulers.is_some())
                .then_some(NamedBatchSchedulers(batch_schedulers)),
            large: LargeReviews::default(),
        };
        (tcp, certificate, Arc::new(trust), reviews)
    });
    let lock_namespace = settings.election.lock_namespace(&places.secret_namespace).to_owned();
    let lock = settings.election.lock_name(installation).filter(|_| drives);
    let leadership = lock.as_ref().map(|lock| {
        Leadership::new(client.clone(), (&lock_namespace, lock), &settings.pod_name, timing, &mut registry)
    });

    info!(version = VERSION, "started");
    let mut parts = Parts::new(stop.clone(), closing.delay);
    // Probes and metrics are served until the webhook has ended.
    let served = CancellationToken::new();
    let mut probes = admin::probes(liveness(watches.clone(), workloads.clone()), readiness.clone());
    let text = move || metrics::text(&registry) + &applications.text();
    let metrics = admin::metrics(&settings.metrics.metrics_endpoint, Arc::new(text));
    if let Some(tcp) = own_metrics {
        let certificate = webhook.as_ref().map(|(_, certificate, ..)| Arc::clone(certificate));
        parts.serve_metrics(tcp, metrics, metrics_tls, certificate, &served)?;
    } else if settings.metrics.address().is_some() {
        probes = probes.merge(metrics);
    }
    parts.start("port of the probes", admin::serve(admin, probes, served.clone()));
    let served = served.drop_guard();
    if let Some((tcp, certificate, trust, reviews)) = webhook {
        let address = tcp.local_addr().context("the webhook's socket has no address")?;
        let itself = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
        parts.keep_trusted(&trust, &watches, itself, &readiness);
        let stopped = stop.clone();
        let tcp = tcp.into_std().context("the webhook's socket cannot be handed on")?;
        parts.start("webhook", async move {
            let _served = served;
            webhook::on_threads_of_their_own(async move {
                let tcp = TcpListener::from_std(tcp)?;
                webhook::serve(tcp, certificate, &tls, reviews, closing, stopped).await
            })
            .await
        });
    } else {
        let stopped = stop.clone();
        parts.start("ports without a webhook", async move {
            let _served = served;
            stopped.cancelled().await;
            Ok(())
        });
    }
    let (stopped, ready) = (stop.clone(), readiness.clone());
    parts.start("end of readiness", async move {
        stopped.cancelled().await;
        ready.waits(RUNNING, "is asked to stop");
        Ok(())
    });

    let needs = installation::Needs { places, lock, lock_namespace, settings: settings.installation };
    parts.keep_installed(&client, &needs, &readiness);
    if !drives {
        return parts.all_ended().await;
    }
    parts.start("controller", async move {
        let can_begin = readiness.wait_for(before_driving);
        if stop.run_until_cancelled(can_begin).await.is_none() {
            return Ok(());
        }
        // A replica that takes over fills its caches now. It stays ready: its webhook may be the last one of the Service.
        let drive = || controller::run(setup.clone(), || readiness.met(CACHES), stop.clone());
        let stands_by = || {
            // A replica that does not lead has no caches and watches nothing, but it is ready to lead.
            workloads.forget();
            readiness.met(CACHES);
        };
        match leadership {
            Some(leadership) => leadership.lead(drive, stands_by, stop.clone()).await,
            None => drive().await,
        }
        Ok(())
    });
    parts.all_ended().await
}

/// Returns a client for the cluster that `kubeconfig` names, or else for the cluster that kube infers.
///
/// # Errors
///
/// When there is no configuration, or the configuration cannot be used.
pub async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = config(kubeconfig).await?;
    Client::try_from(config).context("the Kubernetes configuration cannot be used")
}

/// Reads the configuration from `kubeconfig`, or else from KUBECONFIG, ~/.kube/config or the pod's account.
async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig: {}", path.display()))?;
            let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
            config.with_context(|| format!("--kubeconfig: {}", path.display()))
        }
        None => Config::infer().await.context(
            "no Kubernetes configuration: run in a cluster, or set --kubeconfig or KUBECONFIG to a file that says where the \
             API server is",
        ),
    }
}

/// Returns the check behind `/healthz`: whether every watch is alive and the reconcile loops make progress.
fn liveness(watches: Watches, workloads: Workloads) -> Liveness {
    Arc::new(move || {
        let silent = watches.silent(SILENCE).into_iter();
        let silent =
            silent.map(|(path, age)| format!("the watch of {path} has been silent for {} s", age.as_secs()));
        silent.chain(workloads.stuck()).collect()
    })
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
