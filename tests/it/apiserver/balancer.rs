//! A load balancer between the API server and several replicas. Like kube-proxy, it distributes new connections in
//! turn over the ready replicas, learns of readiness changes with a delay, and leaves existing connections alone.

use super::operator::get;
use crate::apiserver::prelude::*;
use tokio::io::copy_bidirectional;

/// How late the balancer learns that a replica is not ready any more: the time that controllers and kube-proxy need for
/// a change of an EndpointSlice.
const LATE: Duration = Duration::from_millis(500);
/// How late the balancer learns that a replica is ready: the kubelet has to probe first.
const LATER: Duration = Duration::from_secs(1);

/// The balancer; it and its connections end when this value is dropped.
pub(crate) struct Balancer {
    pub(crate) port: u16,
    replicas: &'static [u16],
    ready: Arc<Mutex<Vec<u16>>>,
    taken: Arc<Mutex<BTreeMap<u16, usize>>>,
    _background: Background,
}

impl Balancer {
    /// Starts a balancer for replicas; each number is the offset of a replica's ports from the usual ports.
    pub(crate) async fn start(replicas: &'static [u16]) -> Self {
        let background = Background::start();
        let tcp = background.spawn(TcpListener::bind("127.0.0.1:0")).await.unwrap().unwrap();
        let port = tcp.local_addr().unwrap().port();
        let ready = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::<Mutex<BTreeMap<_, _>>>::default();
        background.spawn(look(replicas, Arc::clone(&ready)));
        background.spawn(balance(tcp, Arc::clone(&ready), Arc::clone(&taken)));
        Self { port, replicas, ready, taken, _background: background }
    }

    /// Waits until the balancer knows that all replicas are ready.
    pub(crate) async fn knows_all(&self) {
        eventually("all replicas are known to be ready", async || {
            let ready = self.ready.lock().unwrap();
            seen(ready.len() == self.replicas.len(), &ready)
        })
        .await;
    }

    /// Returns the number of connections that each replica has been given.
    pub(crate) fn taken(&self) -> Vec<usize> {
        self.taken.lock().unwrap().values().copied().collect()
    }
}

/// Probes the replicas repeatedly, and stores which ones are ready.
async fn look(replicas: &[u16], ready: Arc<Mutex<Vec<u16>>>) {
    let mut since = BTreeMap::new();
    loop {
        for replica in replicas {
            match timeout(LATE, get(HEALTH + replica, "/readyz")).await {
                Ok(Ok((200, _))) => {
                    since.entry(*replica).or_insert_with(Instant::now);
                }
                Ok(_) => {
                    since.remove(replica);
                }
                // A kubelet that gets no answer in time probes twice more before it marks a pod as not ready.
                Err(_) => {}
            }
        }
        let known = since.iter().filter(|(_, since)| since.elapsed() >= LATER);
        *ready.lock().unwrap() = known.map(|(replica, _)| *replica).collect();
        sleep(LATE).await;
    }
}

async fn balance(tcp: TcpListener, ready: Arc<Mutex<Vec<u16>>>, taken: Arc<Mutex<BTreeMap<u16, usize>>>) {
    for turn in 0.. {
        let (mut client, _) = tcp.accept().await.unwrap();
        let replica = {
            let ready = ready.lock().unwrap();
            // If no replica is ready, kube-proxy refuses the connection.
            if ready.is_empty() {
                continue;
            }
            ready[turn % ready.len()]
        };
        *taken.lock().unwrap().entry(replica).or_default() += 1;
        tokio::spawn(async move {
            client.set_nodelay(true).unwrap();
            // If the replica cannot be reached, the client sees its connection end.
            if let Ok(mut server) = TcpStream::connect(("127.0.0.1", WEBHOOK_PORT + replica)).await {
                server.set_nodelay(true).unwrap();
                copy_bidirectional(&mut client, &mut server).await.ok();
            }
        });
    }
}
