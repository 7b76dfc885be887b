//! A gateway on loopback, with a simulated API server, and with an echo server in place of Spark.

use super::api_server::{ApiServer, Report};
use crate::prelude::*;
use connect_gateway::{GatewayMetrics, Limit, Settings, Setup, run};
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::{
    io::{self, AsyncWriteExt},
    task::JoinHandle,
};
use watches::Watches;

/// The creation time of most SparkConnects.
pub(crate) const EARLY: &str = "2026-11-28T08:00:00Z";
/// Maximum duration of anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The address of each port by its number in statuses, and how often the gateway has opened it.
type Opened = Arc<Mutex<BTreeMap<u16, (SocketAddr, usize)>>>;

pub(crate) struct Rig {
    pub(crate) api: Arc<ApiServer>,
    pub(crate) stop: CancellationToken,
    opened: Opened,
    registry: Registry,
    running: JoinHandle<()>,
}

/// Returns settings whose limits no test reaches unless it changes them.
pub(crate) fn settings() -> Settings {
    Settings {
        namespaces: None,
        ports: 20_000..=29_999,
        server_port: 0,
        connections: Limit { in_all: 100, of_one: 50 },
        memory: None,
        held: Limit { in_all: 100, of_one: 50 },
        longest_wait: PATIENCE,
        report_period: PATIENCE,
        termination_grace: PATIENCE,
    }
}

/// Waits until `look` finds something.
pub(crate) async fn eventually<T>(look: impl Fn() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, found).await.expect("the condition has not become true")
}

/// Starts a server that sends back what it gets, and returns its port.
async fn echo() -> u16 {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = tcp.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                // A connection that is reset is an error here.
                io::copy(&mut from, &mut to).await.ok();
                to.shutdown().await.ok();
            });
        }
    });
    port
}

impl Rig {
    pub(crate) async fn begin(settings: Settings) -> Self {
        let settings = Settings { server_port: echo().await, ..settings };
        let (api, opened, stop) = (ApiServer::new(), Opened::default(), CancellationToken::new());
        let mut registry = Registry::default();
        let addresses = Arc::clone(&opened);
        let listen = move |port: u16| -> io::Result<TcpListener> {
            let tcp = std::net::TcpListener::bind("127.0.0.1:0")?;
            tcp.set_nonblocking(true)?;
            let mut addresses = addresses.lock().unwrap();
            let times = addresses.get(&port).map_or(1, |(_, times)| times + 1);
            addresses.insert(port, (tcp.local_addr()?, times));
            TcpListener::from_std(tcp)
        };
        let setup = Setup {
            settings,
            client: api.client(),
            watches: Watches::default(),
            watch_seconds: 60,
            listen: Arc::new(listen),
            metrics: GatewayMetrics::new(&mut registry),
        };
        let synced = CancellationToken::new();
        let told = synced.clone();
        let running = tokio::spawn(run(setup, move || told.cancel(), stop.clone()));
        timeout(PATIENCE, synced.cancelled()).await.expect("the gateway has listed");
        Self { api, stop, opened, registry, running }
    }

    pub(crate) fn opened(&self, port: u16) -> Option<(SocketAddr, usize)> {
        self.opened.lock().unwrap().get(&port).copied()
    }

    /// Connects to a port once it is open.
    pub(crate) async fn connect(&self, port: u16) -> TcpStream {
        let (address, _) = eventually(|| self.opened(port)).await;
        TcpStream::connect(address).await.unwrap()
    }

    /// Waits until a port that was open is closed.
    pub(crate) async fn is_closed(&self, port: u16) {
        let (address, _) = self.opened(port).expect("the port was open");
        eventually(|| std::net::TcpStream::connect(address).err()).await;
    }

    /// Waits until the metrics have this sample.
    pub(crate) async fn shows(&self, sample: &str) {
        let shown = || {
            let mut text = String::new();
            encode(&mut text, &self.registry).unwrap();
            text.lines().any(|line| line.ends_with(sample)).then_some(())
        };
        eventually(shown).await;
    }

    /// Waits until the gateway has ended; returns all reports.
    pub(crate) async fn ended(self) -> Vec<Report> {
        timeout(PATIENCE, self.running).await.expect("the gateway ends").unwrap();
        self.api.reports()
    }
}
