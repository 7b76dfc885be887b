//! What stands between the API server and several replicas? As kube-proxy does, a balancer that sends new
//! connections in turn to those that are ready, as it learns a little late, and leaves the others alone.

use super::{
    eventually,
    operator::{HEALTH, WEBHOOK_PORT},
    seen,
};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    time::{sleep, timeout},
};

/// How late it learns that somebody is not ready any more: what controllers and kube-proxy need for a change of
/// an EndpointSlice.
const LATE: Duration = Duration::from_secs(1);
/// And that somebody is: the kubelet has to look first.
const LATER: Duration = Duration::from_secs(3);

/// The balancer; it ends with this value, and so do its connections.
pub(crate) struct Balancer {
    pub(crate) port: u16,
    replicas: &'static [u16],
    ready: Arc<Mutex<Vec<u16>>>,
    taken: Arc<Mutex<BTreeMap<u16, usize>>>,
    /// Its own, so that it also serves while the test waits for `kubectl`.
    runtime: Option<Runtime>,
}

impl Balancer {
    /// For replicas whose ports are so far from the usual ones.
    pub(crate) async fn start(replicas: &'static [u16]) -> Self {
        let runtime = Runtime::new().unwrap();
        let tcp = runtime.spawn(TcpListener::bind("127.0.0.1:0")).await.unwrap().unwrap();
        let port = tcp.local_addr().unwrap().port();
        let ready = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::<Mutex<BTreeMap<_, _>>>::default();
        runtime.spawn(look(replicas, Arc::clone(&ready)));
        runtime.spawn(balance(tcp, Arc::clone(&ready), Arc::clone(&taken)));
        Self { port, replicas, ready, taken, runtime: Some(runtime) }
    }

    /// Waits until it knows that all are ready.
    pub(crate) async fn knows_all(&self) {
        eventually("all replicas are known to be ready", async || {
            let ready = self.ready.lock().unwrap();
            seen(ready.len() == self.replicas.len(), &ready)
        })
        .await;
    }

    /// How many connections each replica has been given.
    pub(crate) fn taken(&self) -> Vec<usize> {
        self.taken.lock().unwrap().values().copied().collect()
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A test's thread must not wait for it.
            runtime.shutdown_background();
        }
    }
}

/// Keeps an eye on who is ready.
async fn look(replicas: &[u16], ready: Arc<Mutex<Vec<u16>>>) {
    let mut since = BTreeMap::new();
    loop {
        for replica in replicas {
            match timeout(LATE, is_ready(HEALTH + replica)).await {
                Ok(Ok(true)) => {
                    since.entry(*replica).or_insert_with(Instant::now);
                }
                Ok(_) => {
                    since.remove(replica);
                }
                // A kubelet that gets no answer in time asks twice more before it believes that a pod is not ready.
                Err(_) => {}
            }
        }
        let known = since.iter().filter(|(_, since)| since.elapsed() >= LATER);
        *ready.lock().unwrap() = known.map(|(replica, _)| *replica).collect();
        sleep(LATE).await;
    }
}

async fn is_ready(port: u16) -> io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

async fn balance(tcp: TcpListener, ready: Arc<Mutex<Vec<u16>>>, taken: Arc<Mutex<BTreeMap<u16, usize>>>) {
    for turn in 0.. {
        let (mut client, _) = tcp.accept().await.unwrap();
        let replica = {
            let ready = ready.lock().unwrap();
            // Where nobody is ready, kube-proxy refuses.
            if ready.is_empty() {
                continue;
            }
            ready[turn % ready.len()]
        };
        *taken.lock().unwrap().entry(replica).or_default() += 1;
        tokio::spawn(async move {
            client.set_nodelay(true).unwrap();
            // An error is the client's: it sees its connection end.
            if let Ok(mut server) = TcpStream::connect(("127.0.0.1", WEBHOOK_PORT + replica)).await {
                server.set_nodelay(true).unwrap();
                copy_bidirectional(&mut client, &mut server).await.ok();
            }
        });
    }
}
