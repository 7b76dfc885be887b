//! Serves the ports for Kubernetes' probes and for Prometheus: whether the process is alive, whether it is ready, and
//! its metrics.

use crate::settings::PROBES;
use axum::{
    Extension, Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use std::{collections::BTreeMap, fmt, io, sync::Arc};
use tokio::{net::TcpListener, sync::watch, task::spawn_blocking};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use webhook::{Caller, Closing, Limits};
use work::Turns;

/// The conditions that have to be met for the process to be ready, and the reason why a condition is not met.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<watch::Sender<Conditions>>);

/// For each condition, by name: the reason why the condition is not met, or `None` if it is met.
type Conditions = BTreeMap<&'static str, Option<String>>;

/// The reason of a condition that has not been checked yet.
const NOT_YET: &str = "not yet";

impl Readiness {
    /// Returns a readiness that is ready while each of `conditions` is [`met`](Self::met).
    pub fn waiting_for(conditions: impl IntoIterator<Item = &'static str>) -> Self {
        let conditions = conditions.into_iter().map(|condition| (condition, Some(NOT_YET.to_owned())));
        Self(Arc::new(watch::Sender::new(conditions.collect())))
    }

    /// Records that the condition is met.
    pub fn met(&self, condition: &'static str) {
        self.set(condition, None);
    }

    /// Records that the condition is not met, and logs the reason, but only when the reason is new. Returns whether it is.
    pub fn unmet(&self, condition: &'static str, why: &impl fmt::Display) -> bool {
        self.set(condition, Some(why.to_string()))
    }

    /// Records that the condition is not met for an expected reason. Nothing is wrong, so nothing is logged.
    pub fn waits(&self, condition: &'static str, for_what: &str) {
        self.0.send_modify(|conditions| {
            conditions.insert(condition, Some(for_what.to_owned()));
        });
    }

    /// Sets the reason why the condition is not met, or `None` if it is met. Returns whether that is new.
    fn set(&self, condition: &'static str, why: Option<String>) -> bool {
        self.0.send_if_modified(|conditions| {
            let was_ready = is_ready(conditions);
            let before = conditions.insert(condition, why.clone());
            if before.as_ref() == Some(&why) {
                return false;
            }
            match &why {
                Some(why) => warn!(condition, why, "not ready"),
                None if !was_ready && is_ready(conditions) => info!("ready"),
                None => info!(condition, "condition met"),
            }
            true
        })
    }

    /// Returns whether the condition is met.
    pub fn is_met(&self, condition: &'static str) -> bool {
        self.0.borrow().get(condition) == Some(&None)
    }

    /// Waits until all of `conditions` are met at once.
    pub async fn wait_for(&self, conditions: &[&'static str]) {
        let met = |state: &Conditions| conditions.iter().all(|condition| state.get(condition) == Some(&None));
        // The sender lives as long as `self`, so this cannot fail.
        drop(self.0.subscribe().wait_for(met).await);
    }

    /// Returns whether all conditions are met, and a text with a line for each.
    fn report(&self) -> (bool, String) {
        let conditions = self.0.borrow();
        let lines =
            conditions.iter().map(|(name, why)| format!("{name}: {}\n", why.as_deref().unwrap_or("ok")));
        (is_ready(&conditions), lines.collect())
    }
}

fn is_ready(conditions: &Conditions) -> bool {
    conditions.values().all(Option::is_none)
}

/// Returns a description of each part of the process that is stuck. Returns nothing while all parts work.
pub type Liveness = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Returns the routes `/healthz`, which fails with the parts that are stuck, and `/readyz`, whose body has a line for
/// each condition: `ok`, or the reason why the condition is not met.
pub fn probes(liveness: Liveness, readiness: Readiness) -> Router {
    let healthz = get(async move || match &liveness()[..] {
        [] => (StatusCode::OK, "ok\n".to_owned()),
        stuck => (StatusCode::INTERNAL_SERVER_ERROR, stuck.join("\n") + "\n"),
    });
    let readyz = get(async move || match readiness.report() {
        (true, report) => (StatusCode::OK, report),
        (false, report) => (StatusCode::SERVICE_UNAVAILABLE, report),
    });
    let [of_health, of_readiness] = PROBES;
    Router::new().route(of_health, healthz).route(of_readiness, readyz)
}

/// Returns the metrics of the process, in Prometheus' text format.
pub type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// Returns the route that serves all of `metrics` under `path`. They are written for one request after the other, on a
/// separate thread: the metrics of many applications are megabytes of text, and no other work waits for them. Clients
/// take turns.
pub fn metrics(path: &str, metrics: Metrics) -> Router {
    let turns = Turns::new(1);
    let show = get(async move |caller: Option<Extension<Caller>>| {
        let turn = turns.turn(Caller::of(caller).peer, "").await;
        let written = spawn_blocking(move || {
            let text = metrics();
            drop(turn);
            text
        });
        match written.await {
            Ok(text) => ([(CONTENT_TYPE, crate::metrics::CONTENT_TYPE)], text).into_response(),
            Err(bug) => (StatusCode::INTERNAL_SERVER_ERROR, bug.to_string()).into_response(),
        }
    });
    Router::new().route(path, show)
}

/// Serves `router` on `tcp` until `stop`.
///
/// # Errors
///
/// When the socket cannot be used.
pub async fn serve(tcp: TcpListener, router: Router, stop: CancellationToken) -> io::Result<()> {
    webhook::serve_routes(tcp, None, router, Limits::ADMIN, Closing::default(), stop).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        time::Duration,
    };
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpSocket, TcpStream},
        time::sleep,
    };

    async fn get(router: &Router, path: &str) -> String {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(tcp.local_addr().unwrap()).await.unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(tcp, router.clone(), stop.clone()));
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        stop.cancel();
        server.await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        format!("{} {body}", head.split(' ').nth(1).unwrap())
    }

    #[tokio::test]
    async fn many_scrapes_of_one_client_delay_another_by_one_turn() {
        let (written, (begin, held)) = (Arc::new(AtomicUsize::new(0)), mpsc::channel());
        let held = std::sync::Mutex::new(held);
        let counted = Arc::clone(&written);
        let text = move || {
            held.lock().unwrap().recv().unwrap();
            counted.fetch_add(1, Ordering::Relaxed).to_string()
        };
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(tcp, metrics("/metrics", Arc::new(text)), stop.clone()));
        let scrape = async |from: &str| {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(from.parse().unwrap()).unwrap();
            let mut stream = socket.connect(address).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
            stream
        };
        let mut crowd = Vec::new();
        for _ in 0..20 {
            crowd.push(scrape("127.0.0.2:0").await);
        }
        let mut stranger = scrape("127.0.0.3:0").await;
        // By now all requests have arrived.
        sleep(Duration::from_millis(200)).await;
        for _ in 0..=crowd.len() {
            begin.send(()).unwrap();
        }
        let mut answer = String::new();
        stranger.read_to_string(&mut answer).await.unwrap();
        let before: usize = answer.rsplit_once("\r\n").unwrap().1.parse().unwrap();
        assert!(before <= 2, "{before} answers were written before");
        stop.cancel();
        drop(crowd);
        server.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_body_does_not_arrive_times_out() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(tcp.local_addr().unwrap()).await.unwrap();
        let stop = CancellationToken::new();
        let probes = probes(Arc::new(Vec::new), Readiness::waiting_for([]));
        let server = tokio::spawn(serve(tcp, probes, stop.clone()));
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nslow").await.unwrap();
        let mut said = [0; 12];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"HTTP/1.1 408");
        drop(stream);
        stop.cancel();
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn the_liveness_probe_fails_and_names_the_parts_that_are_stuck() {
        let stuck = || vec!["the watch of pods".to_owned(), "work".to_owned()];
        let router = probes(Arc::new(stuck), Readiness::waiting_for([]));
        assert_eq!(get(&router, "/healthz").await, "500 the watch of pods\nwork\n");
        let router = probes(Arc::new(Vec::new), Readiness::waiting_for([]));
        assert_eq!(get(&router, "/healthz").await, "200 ok\n");
    }

    #[tokio::test]
    async fn readiness_follows_its_conditions() {
        let readiness = Readiness::waiting_for(["a", "b"]);
        let router = probes(Arc::new(Vec::new), readiness.clone());
        assert_eq!(get(&router, "/readyz").await, "503 a: not yet\nb: not yet\n");
        readiness.met("a");
        readiness.unmet("b", &"forbidden");
        assert_eq!(get(&router, "/readyz").await, "503 a: ok\nb: forbidden\n");
        readiness.met("b");
        readiness.wait_for(&["a", "b"]).await;
        assert_eq!(get(&router, "/readyz").await, "200 a: ok\nb: ok\n");
        readiness.unmet("a", &"gone");
        assert_eq!(get(&router, "/readyz").await, "503 a: gone\nb: ok\n");
    }
}
