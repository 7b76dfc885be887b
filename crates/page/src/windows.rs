//! Windows into the web UIs of drivers: a window gives one caller access to the UI of one driver, by a port-forward of
//! the API server with the caller's rights.
//!
//! A window has an unguessable key. Whoever has the key can see that UI and nothing else, for as long as the window is
//! open: see docs/design/decisions/0015-page-without-rights.md.

use super::{
    Caller, CallerId, LARGEST, Reader, Refusal, Result, Secrets, Share, Shares, callers::displaced,
    reads::collected,
};
use axum::{
    body::Bytes,
    http::{Method, Request, StatusCode, header::HOST, response::Parts},
};
use http_body_util::Empty;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use std::{borrow::Cow, collections::HashMap, fmt::Display, sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

/// The maximum number of windows. The drivers of one namespace may have at most as many as are free. If there are more,
/// the least recently used one is closed.
const MOST: usize = 256;
/// The time after which an unused window is closed. An open page of the UI may send no requests while it is read.
const UNUSED: Duration = Duration::from_secs(30 * 60);
/// The maximum lifetime of a window: that of a cookie.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// The maximum number of drivers' answers in memory, of all windows together. The API server's answers have a limit of
/// their own, so a slow driver does not delay them. Shared by namespace, because a tenant decides how slowly a driver
/// answers, and may have any number of tokens.
static IN_MEMORY: Shares = Shares::new(8);
/// The maximum numbers of requests to drivers in flight, and of idle connections that are kept for later requests. The
/// buffers of each may hold a megabyte that a driver has sent. Shared by namespace, too.
static UNDER_WAY: Shares = Shares::new(64);
static IDLE: Shares = Shares::new(64);
/// The maximum number of requests in flight of one window: a browser sends six at once. A slow driver leaves some for
/// the other drivers of its namespace.
const OF_ONE: usize = 6;
/// The timeout for an answer of a driver.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time for which a connection to a driver is reused. Each new connection needs the caller's token, so a window
/// stops working at most this long after the token has expired or the right to forward ports was taken away.
const REUSED: Duration = Duration::from_secs(60);
/// The request header whose value Spark puts before all paths in its pages.
const CONTEXT: &str = "x-forwarded-context";

/// A connection to a driver.
struct Connection {
    requests: SendRequest<Empty<Bytes>>,
    begun: Instant,
}

/// The port of a driver, or of a server of Spark Connect.
pub(crate) struct Driver {
    pub namespace: String,
    /// The plural of the kind of the object that the driver belongs to, such as `sparkapplications`, and its name.
    pub resource: Cow<'static, str>,
    pub name: String,
    pub pod: String,
    pub uid: String,
    pub port: u16,
}

pub(crate) struct Window {
    pub key: String,
    pub driver: Driver,
    pub reader: Reader,
    /// The path that the driver puts before all paths, if it is not that of the window: `spark.ui.proxyBase`. Taken
    /// from the driver's pages.
    pub base: Mutex<Option<String>>,
    room: Semaphore,
    caller: CallerId,
    idle: Mutex<Vec<(Connection, Share<'static>)>>,
    opened: Instant,
    used: Mutex<Instant>,
}

/// All windows by their keys.
#[derive(Default)]
pub(crate) struct Windows(Mutex<HashMap<String, Arc<Window>>>);

impl Windows {
    /// Returns the caller's window into the UI of the driver: the open one, or a new one.
    pub(crate) fn open(&self, secrets: &Secrets, caller: &Caller, driver: Driver) -> Arc<Window> {
        let mut open = self.0.lock();
        open.retain(|_, window| window.is_open());
        let is_same = |window: &&Arc<Window>| window.caller == caller.id && window.driver.uid == driver.uid;
        if let Some(window) = open.values().find(is_same) {
            *window.used.lock() = Instant::now();
            return Arc::clone(window);
        }
        let is_beside = |window: &Arc<Window>| window.driver.namespace == driver.namespace;
        if let Some(oldest) = displaced(&open, MOST, is_beside, |window| *window.used.lock()) {
            open.remove(&oldest);
        }
        let window = Arc::new(Window {
            key: secrets.unguessable(),
            driver,
            reader: caller.reader.clone(),
            base: Mutex::default(),
            room: Semaphore::new(OF_ONE),
            caller: caller.id,
            idle: Mutex::default(),
            opened: Instant::now(),
            used: Mutex::new(Instant::now()),
        });
        open.insert(window.key.clone(), Arc::clone(&window));
        window
    }

    /// Returns the window with this key. `None` if it was closed or never existed.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Window>> {
        let window = self.0.lock().get(key).filter(|window| window.is_open()).map(Arc::clone)?;
        *window.used.lock() = Instant::now();
        Some(window)
    }

    /// Closes the windows of a caller who has logged out.
    pub(crate) fn close(&self, caller: &CallerId) {
        self.0.lock().retain(|_, window| window.caller != *caller);
    }
}

impl Window {
    /// Returns the path prefix of the window. It contains no segment that Spark's scripts interpret (`proxy`,
    /// `history`).
    pub(crate) fn context(&self) -> String {
        format!("/spark/{}", self.key)
    }

    fn is_open(&self) -> bool {
        self.opened.elapsed() < LONGEST && self.used.lock().elapsed() < UNUSED
    }

    /// Sends a request for `target`, a path with a query, to the driver.
    ///
    /// # Errors
    ///
    /// If the driver does not answer, or if the caller may not forward its port.
    pub(crate) async fn ask(&self, method: Method, target: &str) -> Result<(Parts, Bytes)> {
        let asked = async {
            let _room = self.room.acquire().await.expect("nobody closes it");
            let _place = UNDER_WAY.next(&self.driver.namespace).await;
            self.answer(method, target).await
        };
        timeout(PATIENCE, asked).await.unwrap_or_else(|late| Err(self.silence(late)))
    }

    async fn answer(&self, method: Method, target: &str) -> Result<(Parts, Bytes)> {
        let mut connection = self.connection().await?;
        let request = Request::builder().method(method).uri(target).header(HOST, "localhost");
        let request = request.header(CONTEXT, self.context()).body(Empty::new());
        let request = request.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
        let answer = connection.requests.send_request(request).await.map_err(|error| self.silence(error))?;
        let (head, body) = answer.into_parts();
        let room = IN_MEMORY.next(&self.driver.namespace);
        let body = collected(body, room).await.map_err(|error| self.silence(error))?;
        let body = body.ok_or_else(|| {
            let words = format!("The driver's answer has more than {} MiB.", LARGEST >> 20);
            Refusal::new(StatusCode::BAD_GATEWAY, words)
        })?;
        self.idle.lock().extend(IDLE.one(&self.driver.namespace).map(|place| (connection, place)));
        Ok((head, body))
    }

    /// Returns a connection to the driver that is free, or a new one.
    async fn connection(&self) -> Result<Connection> {
        loop {
            let idle = self.idle.lock().pop();
            let Some((mut idle, _place)) = idle else { break };
            if idle.begun.elapsed() < REUSED && idle.requests.ready().await.is_ok() {
                return Ok(idle);
            }
        }
        let Driver { namespace, pod, port, .. } = &self.driver;
        let pods = Api::<Pod>::namespaced(self.reader.client.clone(), namespace);
        let (begun, mut forwarder) = (Instant::now(), pods.portforward(pod, &[*port]).await?);
        self.check().await?;
        let stream = forwarder.take_stream(*port).ok_or_else(|| self.silence("no stream"))?;
        let (requests, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| self.silence(error))?;
        tokio::spawn(async move {
            // The request that waits for an answer reports the error.
            connection.await.ok();
            forwarder.abort();
        });
        Ok(Connection { requests, begun })
    }

    /// Checks that the pod of this name is still the driver. Must be called after the port was forwarded: if the pod is
    /// still the driver then, the port cannot be that of a successor with the same name.
    ///
    /// # Errors
    ///
    /// If the pod is gone, was replaced, or may not be read.
    async fn check(&self) -> Result<()> {
        let Driver { namespace, name, pod, uid, .. } = &self.driver;
        let (found, _) = self.reader.object::<Pod>(namespace, pod).await?;
        if found.uid().as_ref() == Some(uid) {
            return Ok(());
        }
        let words = format!("The driver of {name} was replaced by that of another run: load the page again.");
        Err(Refusal::new(StatusCode::GONE, words))
    }

    /// Returns the refusal for a driver that does not answer. The page around the frame shows whether the driver has
    /// ended.
    fn silence(&self, error: impl Display) -> Refusal {
        let Driver { name, port, .. } = &self.driver;
        let words = format!(
            "The driver of {name} does not answer on port {port} ({error}). Spark's UI begins with the \
             SparkContext, which a program creates first: try again in a moment."
        );
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callers::Callers;
    use kube::Client;
    use serde_json::json;

    fn driver(uid: &str) -> Driver {
        let [namespace, name, pod, uid] = ["team-a", "pi", "pi-driver", uid].map(str::to_owned);
        Driver { namespace, resource: "sparkapplications".into(), name, pod, uid, port: 4040 }
    }

    /// Returns a client whose server accepts every caller, and has a driver with the uid `one`.
    fn client() -> Client {
        crate::tests::client(|_| (200, json!({"metadata": {"name": "pi-driver", "uid": "one"}}).to_string()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_belongs_to_one_caller_and_driver_and_closes_when_unused() {
        let (windows, secrets, callers) = (Windows::default(), Secrets::new(), Callers::default());
        let one = callers.caller([1; 32], client).await.unwrap();
        let other = callers.caller([2; 32], client).await.unwrap();
        let key = |caller: &Caller, uid: &str| windows.open(&secrets, caller, driver(uid)).key.clone();
        let first = key(&one, "one");
        assert_eq!(key(&one, "one"), first);
        assert!(key(&one, "two") != first && key(&other, "one") != first);
        assert!(windows.get(&first).is_some() && windows.get("guess").is_none());
        windows.close(&other.id);
        assert!(windows.get(&first).is_some());
        tokio::time::advance(UNUSED).await;
        assert!(windows.get(&first).is_none());
    }

    /// Without shares, a user who looks at 256 drivers would close the windows of everybody else.
    #[tokio::test(start_paused = true)]
    async fn windows_into_one_namespace_close_none_of_another() {
        let (windows, secrets, callers) = (Windows::default(), Secrets::new(), Callers::default());
        let caller = callers.caller([1; 32], client).await.unwrap();
        let other = Driver { namespace: "team-b".to_owned(), ..driver("other") };
        let other = windows.open(&secrets, &caller, other).key.clone();
        tokio::time::advance(Duration::from_secs(1)).await;
        let open = |number: usize| windows.open(&secrets, &caller, driver(&number.to_string())).key.clone();
        let first = open(0);
        tokio::time::advance(Duration::from_secs(1)).await;
        (1..2 * MOST).for_each(|number| drop(open(number)));
        assert!(windows.get(&other).is_some() && windows.get(&first).is_none());
        assert_eq!(windows.0.lock().len(), 1 + MOST / 2);
    }

    /// When a run is retried, its driver has the same name. An earlier version then showed the new driver in the old
    /// window.
    #[tokio::test(start_paused = true)]
    async fn a_window_does_not_show_the_driver_of_the_next_run() {
        let (windows, secrets, callers) = (Windows::default(), Secrets::new(), Callers::default());
        let caller = callers.caller([1; 32], client).await.unwrap();
        windows.open(&secrets, &caller, driver("one")).check().await.unwrap();
        let refusal = windows.open(&secrets, &caller, driver("before")).check().await.unwrap_err();
        assert_eq!(refusal.status, StatusCode::GONE);
    }
}
