//! Runs the gateway of SparkConnects that sleep, and its port for probes and metrics.

use crate::{
    admin::{self, Liveness, Readiness},
    api_server::{self, Requests, WATCH_SECONDS},
    listen::{everywhere, listen},
    metrics,
    operator::{UNUSABLE, config, silent},
    parts::{CACHES, Parts},
    process,
    settings::{ConnectGatewaySettings, VERSION},
};
use anyhow::Context;
use connect_gateway::{GatewayMetrics, Settings, Setup};
use std::{fs, io, sync::Arc};
use tokio_util::sync::CancellationToken;
use tracing::info;
use watches::Watches;

/// Runs the gateway until a signal arrives, and then for the termination grace.
///
/// # Errors
///
/// When the gateway cannot start, or one of its parts has ended early.
pub async fn run(settings: ConnectGatewaySettings) -> anyhow::Result<()> {
    let stop = process::begin(&settings.log, &[])?;
    let config = config(settings.cluster.kubeconfig.as_deref()).await?;
    let admin = settings.health_probe_bind_address;
    let admin = admin.map(|address| listen("--health-probe-bind-address", address)).transpose()?;
    let mut registry = metrics::registry();
    let requests = Requests::new(&mut registry);
    let watches = Watches::default();
    let setup = Setup {
        settings: Settings { memory: memory(), ..settings.gateway() },
        client: api_server::client(config, &requests).context(UNUSABLE)?,
        watches: watches.clone(),
        watch_seconds: WATCH_SECONDS,
        listen: Arc::new(|port: u16| {
            listen("status.gateway.port", everywhere(port))
                .map_err(|error| io::Error::other(format!("{error:#}")))
        }),
        metrics: GatewayMetrics::new(&mut registry),
    };

    info!(version = VERSION, "started");
    let (served, readiness) = (CancellationToken::new(), Readiness::waiting_for([CACHES]));
    let mut parts = Parts::new(&readiness, &stop, settings.termination_grace);
    if let Some(tcp) = admin {
        let liveness: Liveness = Arc::new(move || silent(&watches).collect());
        let text = move || metrics::text(&registry);
        let metrics = admin::metrics(&settings.metrics_endpoint, Arc::new(text));
        let routes = admin::probes(liveness, readiness.clone()).merge(metrics);
        parts.start("port of the probes", admin::serve(tcp, routes, served.clone()));
    }
    // Probes and metrics are served until the last connection has ended.
    let served = served.drop_guard();
    parts.start("gateway", async move {
        connect_gateway::run(setup, move || readiness.met(CACHES), stop).await;
        drop(served);
        Ok(())
    });
    parts.all_ended(None).await
}

/// Returns how many bytes of memory the container may have; `None` without a limit, for which the file has `max`. A
/// container sees its own cgroup as the root, with the files of cgroup v2 or v1.
fn memory() -> Option<u64> {
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    limits.iter().find_map(|limit| fs::read_to_string(limit).ok()?.trim().parse().ok())
}
