//! Holds the parts that all connections share: the settings, the room, and the end of the process.

use super::{
    metrics::GatewayMetrics,
    room::{Limit, Room, most},
};
use kube::Client;
use rustix::process::{Resource, getrlimit};
use std::{collections::BTreeSet, io, ops::RangeInclusive, sync::Arc, time::Duration};
use tokio::{net::TcpListener, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};
use watches::Watches;
use work::Turns;

/// The longest time for the last reports, after all connections have been closed. Kubernetes ends the process soon after.
const LAST_REPORTS: Duration = Duration::from_secs(3);

/// The most reports that are sent at once; namespaces take turns. The API server takes those of the gateway's account one
/// after the other when there are many, and a client waits until its server is woken by one.
const REPORTS: usize = 32;

/// The admin's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespaces whose SparkConnects are served; none for all.
    pub namespaces: Option<BTreeSet<String>>,
    /// The ports at which SparkConnects may be served.
    pub ports: RangeInclusive<u16>,
    /// The port of Spark Connect in a server's pod.
    pub server_port: u16,
    pub connections: Limit,
    /// The most bytes of memory that the process may have; none if nothing limits it.
    pub memory: Option<u64>,
    /// The limit of the connections that wait for servers. They count as connections too.
    pub held: Limit,
    pub longest_wait: Duration,
    /// The time between two reports of a SparkConnect while connections are open.
    pub report_period: Duration,
    /// The time for which connections go on after the process was asked to stop.
    pub termination_grace: Duration,
}

/// Opens a port.
pub type Listen = Arc<dyn Fn(u16) -> io::Result<TcpListener> + Send + Sync>;

/// The settings, the client and the metrics that the gateway uses.
pub struct Setup {
    pub settings: Settings,
    pub client: Client,
    pub watches: Watches,
    /// The longest time that one watch request lasts, in seconds.
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
    /// Whose turn it is to send a report.
    pub(crate) reports: Turns,
    /// Cancelled when the process is asked to stop: no port is open any more.
    pub(crate) stop: CancellationToken,
    /// Cancelled at the end of the termination grace: connections are closed, and the last reports sent.
    pub(crate) cut: CancellationToken,
}

impl Gateway {
    pub(crate) fn new(setup: Setup, stop: CancellationToken) -> Self {
        let Settings { connections, held, memory, .. } = setup.settings;
        let in_all = most(connections.in_all, getrlimit(Resource::Nofile).current, memory);
        info!(connections = in_all, "so many connections may be open");
        Self {
            connections: Room::new(Limit { in_all, ..connections }, setup.metrics.open.clone()),
            held: Room::new(held, setup.metrics.held.clone()),
            setup,
            open: TaskTracker::new(),
            reporters: TaskTracker::new(),
            reports: Turns::new(REPORTS),
            stop,
            cut: CancellationToken::new(),
        }
    }

    /// Waits until all connections have ended, at most for the termination grace, closes those that have not, and waits
    /// until the last reports were sent. Ports are closed already.
    pub(crate) async fn end(&self) {
        self.open.close();
        info!(connections = self.open.len(), "no new connections are accepted");
        if timeout(self.setup.settings.termination_grace, self.open.wait()).await.is_err() {
            info!(connections = self.open.len(), "connections are closed at the end of --termination-grace");
        }
        self.cut.cancel();
        self.reporters.close();
        if timeout(LAST_REPORTS, self.reporters.wait()).await.is_err() {
            warn!("not all of the last reports were sent");
        }
    }
}
