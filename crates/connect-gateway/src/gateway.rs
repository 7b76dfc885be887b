//! Holds the state that all connections share: the settings, the connection slots, and the end of the process.

use super::{
    connection_limits::{Limit, Room, max_connections},
    metrics::GatewayMetrics,
};
use kube::Client;
use rustix::process::{Resource, getrlimit};
use std::{collections::BTreeSet, io, ops::RangeInclusive, sync::Arc, time::Duration};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};
use watches::Watches;
use work::Turns;

/// The timeout for the last reports, after all connections have been closed. Kubernetes kills the process soon after.
const LAST_REPORTS: Duration = Duration::from_secs(3);

/// The maximum number of reports in flight; namespaces take turns. The API server queues the requests of the gateway's
/// account if there are many, and a client waits until a report wakes its server.
const REPORTS: usize = 32;

/// The admin's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespaces whose SparkConnects are served. `None` for all.
    pub namespaces: Option<BTreeSet<String>>,
    /// The ports at which SparkConnects may be served.
    pub ports: RangeInclusive<u16>,
    /// The port of Spark Connect in a server's pod.
    pub server_port: u16,
    pub connections: Limit,
    /// The memory limit of the process in bytes. `None` if there is no limit.
    pub memory: Option<u64>,
    /// The limit for connections that are held until a server answers. They also count against `connections`.
    pub held: Limit,
    /// The maximum time for which a connection is held.
    pub longest_wait: Duration,
    /// The minimum time between two reports of a SparkConnect while connections are open; up to a quarter is added.
    pub report_period: Duration,
    /// The time for which open connections continue after the process was asked to stop.
    pub termination_grace: Duration,
}

/// Opens a port.
pub type Listen = Arc<dyn Fn(u16) -> io::Result<TcpListener> + Send + Sync>;

/// The dependencies of the gateway, which the process provides.
pub struct Setup {
    pub settings: Settings,
    pub client: Client,
    pub watches: Watches,
    /// The timeout of a watch request, in seconds.
    pub watch_seconds: u32,
    pub listen: Listen,
    pub metrics: GatewayMetrics,
}

pub(crate) struct Gateway {
    pub(crate) setup: Setup,
    pub(crate) connections: Arc<Room>,
    pub(crate) held: Arc<Room>,
    /// The tasks of connections.
    pub(crate) open: TaskTracker,
    /// The tasks that report.
    pub(crate) reporters: TaskTracker,
    /// Limits the reports in flight; namespaces take turns.
    pub(crate) reports: Turns,
    /// Cancelled when the process is asked to stop: all ports are closed.
    pub(crate) stop: CancellationToken,
    /// Cancelled when all connections have ended, at the latest at the end of the termination grace: open connections
    /// are closed, and the last reports are sent.
    pub(crate) closing: CancellationToken,
}

impl Gateway {
    pub(crate) fn new(setup: Setup, stop: CancellationToken) -> Self {
        let Settings { connections, held, memory, .. } = setup.settings;
        let in_all = max_connections(connections.in_all, getrlimit(Resource::Nofile).current, memory);
        info!(connections = in_all, "maximum number of open connections");
        Self {
            connections: Room::new(Limit { in_all, ..connections }, setup.metrics.open.clone()),
            held: Room::new(held, setup.metrics.held.clone()),
            setup,
            open: TaskTracker::new(),
            reporters: TaskTracker::new(),
            reports: Turns::new(REPORTS),
            stop,
            closing: CancellationToken::new(),
        }
    }

    /// Waits until all connections have ended, at most for the termination grace; closes the rest, and waits until the
    /// last reports were sent. The ports are closed already.
    pub(crate) async fn end(&self) {
        self.open.close();
        info!(connections = self.open.len(), "no new connections are accepted");
        if timeout(self.setup.settings.termination_grace, self.open.wait()).await.is_err() {
            info!(connections = self.open.len(), "connections are closed at the end of --termination-grace");
        }
        self.closing.cancel();
        self.reporters.close();
        if timeout(LAST_REPORTS, self.reporters.wait()).await.is_err() {
            warn!("not all of the last reports were sent");
        }
    }
}
