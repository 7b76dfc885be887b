//! Keeps a caller's list of a kind up to date as long as somebody looks at it: read page by page, then watched.
//!
//! A [`List`] belongs to one caller and is filled by that caller's client, so it contains what RBAC shows to the caller and
//! nothing else. It ends, and gives its memory back, when nobody has looked at it for a minute, or with the caller.

use super::{Key, Reader, Refusal, Result, Row, Share, Shares, reduced};
use axum::http::StatusCode;
use futures::TryStreamExt;
use kube::{
    api::{ListParams, WatchParams},
    core::{Request, WatchEvent},
};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use spark_operator_client::patience::{GRACE, Patience, can_pass, in_time};
use std::{collections::BTreeMap, mem, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

/// The time for which a list is kept that nobody looks at.
pub(crate) const UNUSED: Duration = Duration::from_secs(60);
/// The longest time for which a page waits for a list that is not complete yet.
const FIRST: Duration = Duration::from_secs(10);
/// The pause before a list that is cut is read anew: it has no version from which a watch could continue.
const AGAIN: Duration = Duration::from_secs(20);
/// The length of one request of a watch, in seconds, and the time after which the watch looks whether it is still needed.
const WATCH: u32 = 240;
const LOOK: Duration = Duration::from_secs(10);
/// The most objects of a list. Of more, the first are shown, and it is said.
const MOST: usize = 50_000;

/// The bytes that the rows of all lists may have, which are most of the memory of the process: the soak test says how much
/// 200,000 rows take, and the chart's limit is 256 MiB. A list that is read anew takes room beside what it had. A party has at
/// most as much as it leaves free: a tenant with a few thousand applications has any number of tokens, each with lists of its own.
static ROOM: Shares = Shares::new(160 << 20);

/// The objects of a kind that a caller may see, in all namespaces or in one. It ends with the task that keeps it up to date.
pub(crate) struct List<R> {
    rows: Mutex<Rows<R>>,
    progress: watch::Receiver<Progress>,
    /// The time at which somebody has looked at it last.
    used: Mutex<Instant>,
}

/// Rows, and the room that they take.
struct Rows<R> {
    /// Each row has a place of its own, so that places of the tree that are free are small.
    by_key: BTreeMap<Key, Box<R>>,
    room: Share<'static>,
}

impl<R: Row> Rows<R> {
    fn new(party: &str) -> Self {
        Self { by_key: BTreeMap::new(), room: ROOM.empty(party) }
    }

    /// Keeps a row if there is room for it; else not even what the row was before. Returns whether there is.
    fn keep(&mut self, key: Key, row: R) -> bool {
        let (before, now) = (self.by_key.get(&key).map_or(0, |row| weight(&key, &**row)), weight(&key, &row));
        let is_new = before == 0;
        if now > before && (is_new && self.by_key.len() >= MOST || !self.room.grow(now - before)) {
            self.remove(&key);
            return false;
        }
        self.room.shrink(before.saturating_sub(now));
        self.by_key.insert(key, Box::new(row));
        true
    }

    fn remove(&mut self, key: &Key) {
        if let Some(row) = self.by_key.remove(key) {
            self.room.shrink(weight(key, &*row));
        }
    }
}

/// Returns the bytes that a row takes: its place is counted twice, for that of its key in the tree and for what the allocator adds.
fn weight<R: Row>((namespace, name): &Key, row: &R) -> usize {
    2 * size_of::<(Key, R)>() + namespace.len() + name.len() + row.length()
}

#[derive(Clone, Default)]
struct Progress {
    is_complete: bool,
    /// Whether there are more objects than are kept.
    is_cut: bool,
    /// The reason why it is not up to date.
    failure: Option<Refusal>,
}

impl<R: Row> List<R> {
    /// Begins to read the objects at `path` with the rights of a caller. Returns with the list the task that keeps it up to date
    /// until nobody looks at it any more, and that ends when it is dropped.
    pub(crate) fn begin(reader: Reader, path: String) -> (Arc<Self>, JoinSet<()>) {
        let (sender, progress) = watch::channel(Progress::default());
        let (rows, used) = (Mutex::new(Rows::new(&reader.party)), Mutex::new(Instant::now()));
        let list = Arc::new(Self { rows, progress, used });
        let mut task = JoinSet::new();
        task.spawn(Source { reader, path, list: Arc::clone(&list), progress: sender }.follow());
        (list, task)
    }

    /// Waits until the list is complete, for somebody who looks at it. Returns it.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or not in time.
    pub(crate) async fn complete(self: Arc<Self>) -> Result<Arc<Self>> {
        *self.used.lock() = Instant::now();
        let mut progress = self.progress.clone();
        let known = progress.wait_for(|progress| progress.is_complete || progress.failure.is_some());
        match timeout(FIRST, known).await {
            Ok(Ok(progress)) if progress.is_complete => Ok(self),
            Ok(Ok(progress)) => Err(progress.failure.clone().expect("it is known that it has failed")),
            _ => Err(Refusal::new(
                StatusCode::GATEWAY_TIMEOUT,
                "The list is still being read. This page shows it as soon as it is complete.",
            )),
        }
    }

    fn is_used(&self) -> bool {
        self.used.lock().elapsed() <= UNUSED
    }

    /// Returns what is to be said above the list: why it is not up to date, or that it is cut.
    pub(crate) fn trouble(&self) -> Option<String> {
        let progress = self.progress.borrow();
        let cut = || "There are too many to show all: choose a namespace.".to_owned();
        progress.failure.as_ref().map(|failure| failure.words.clone()).or_else(|| progress.is_cut.then(cut))
    }

    pub(crate) fn read<T>(&self, look: impl FnOnce(Vec<(&Key, &R)>) -> T) -> T {
        look(self.rows.lock().by_key.iter().map(|(key, row)| (key, &**row)).collect())
    }
}

/// Fills a list.
struct Source<R> {
    reader: Reader,
    path: String,
    list: Arc<List<R>>,
    progress: watch::Sender<Progress>,
}

impl<R: Row> Source<R> {
    async fn follow(self) {
        let mut patience = Patience::default();
        while self.list.is_used() {
            let failure = match self.listed().await {
                Ok(version) => {
                    patience.restore();
                    self.watched(version).await.err()
                }
                Err(error) => Some(error),
            };
            let Some(error) = failure else { continue };
            let is_final = !can_pass(&error);
            self.progress.send_modify(|progress| {
                // Rows that the caller may not see any more are not shown any more.
                progress.is_complete &= !is_final;
                progress.failure = Some(error.into());
            });
            if is_final {
                return;
            }
            patience.pause().await;
        }
    }

    /// Reads all objects. Returns the version from which a watch continues; an empty one if the list is cut.
    async fn listed(&self) -> Result<String, kube::Error> {
        let (mut rows, mut has_room) = (Rows::new(&self.reader.party), true);
        let read = self.reader.list(&self.path, ListParams::default(), MOST, |object| {
            let (key, _, row) = reduced::<R>(object);
            has_room &= rows.keep(key, row);
        });
        let (version, is_longer) = read.await?;
        let is_cut = is_longer || !has_room;
        // A tree that was filled in the order of its keys is half empty. One that is made of all of them is full.
        rows.by_key = mem::take(&mut rows.by_key).into_iter().collect();
        *self.list.rows.lock() = rows;
        self.progress.send_replace(Progress { is_complete: true, is_cut, failure: None });
        Ok(if is_cut { String::new() } else { version })
    }

    /// Carries changes into the list until nobody needs it any more, or until the watch fails. Without a version, waits for
    /// a while.
    async fn watched(&self, mut version: String) -> Result<(), kube::Error> {
        while !version.is_empty() {
            let parameters = WatchParams::default().timeout(WATCH);
            let request = Request::new(self.path.as_str())
                .watch(&parameters, &version)
                .map_err(kube::Error::BuildRequest)?;
            let mut events =
                pin!(in_time(GRACE, self.reader.client.request_events::<Box<RawValue>>(request)).await??);
            let begun = Instant::now();
            loop {
                if !self.list.is_used() {
                    return Ok(());
                }
                let event = match timeout(LOOK, events.try_next()).await {
                    Ok(event) => event?,
                    // A connection that has died says nothing for longer than a watch lasts.
                    Err(_) if begun.elapsed() > Duration::from_secs(WATCH.into()) + LOOK => None,
                    Err(_) => continue,
                };
                match event {
                    Some(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                        let (key, newest, row) = reduced::<R>(&object);
                        version = newest;
                        if !self.list.rows.lock().keep(key, row) {
                            self.progress.send_modify(|progress| progress.is_cut = true);
                        }
                    }
                    Some(WatchEvent::Deleted(object)) => {
                        let (key, newest, _) = reduced::<R>(&object);
                        version = newest;
                        self.list.rows.lock().remove(&key);
                    }
                    Some(WatchEvent::Bookmark(mark)) => version = mark.metadata.resource_version,
                    Some(WatchEvent::Error(status)) => return Err(kube::Error::Api(status)),
                    None => break,
                }
            }
        }
        sleep(AGAIN).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Application;
    use axum::body::{Body as Answer, Bytes};
    use futures::stream::pending;
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use serde_json::json;
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    fn reader(client: Client) -> Reader {
        Reader { client, party: "ada".into() }
    }

    /// Returns a client whose server has two pages of one application each, and a watch that says nothing.
    fn client(requests: Arc<AtomicUsize>) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            requests.fetch_add(1, Ordering::Relaxed);
            let query = request.uri().query().unwrap_or_default();
            let (name, next) = if query.contains("continue=") { ("b", "") } else { ("a", "more") };
            let body = if query.contains("watch=true") {
                Answer::from_stream(pending::<Result<Bytes, Infallible>>())
            } else {
                let item = json!({"metadata": {"name": name, "namespace": "team-a"}, "spec": {}});
                let metadata = json!({"resourceVersion": "7", "continue": next});
                Answer::from(json!({"metadata": metadata, "items": [item]}).to_string())
            };
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_read_page_by_page_and_ends_when_nobody_looks() {
        let requests = Arc::new(AtomicUsize::new(0));
        let reader = reader(client(Arc::clone(&requests)));
        let (list, _task) = List::<Application>::begin(reader, "/apis/x".to_owned());
        let list = list.complete().await.ok().unwrap();
        let names: Vec<_> = list.read(|rows| rows.iter().map(|(key, _)| key.1.to_string()).collect());
        assert_eq!(names, ["a", "b"]);
        assert_eq!(list.trouble(), None);
        let kept = Arc::downgrade(&list);
        drop(list);
        sleep(UNUSED / 2).await;
        assert!(kept.upgrade().unwrap().complete().await.is_ok());
        sleep(UNUSED / 2 + LOOK).await;
        assert!(kept.upgrade().is_some());
        sleep(UNUSED).await;
        assert!(kept.upgrade().is_none());
        assert_eq!(requests.load(Ordering::Relaxed), 3, "two pages and a watch");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_may_not_be_read_says_so_at_once() {
        let service = tower::service_fn(|_: Request<Body>| async {
            let status = json!({"status": "Failure", "code": 403, "message": "no", "reason": "Forbidden"});
            let answer = Response::builder().status(StatusCode::FORBIDDEN);
            Ok::<_, Infallible>(answer.body(Body::from(status.to_string().into_bytes())).unwrap())
        });
        let reader = reader(Client::new(service, "default"));
        let (list, mut task) = List::<Application>::begin(reader, "/apis/x".to_owned());
        let refusal = Arc::clone(&list).complete().await.err().unwrap();
        assert_eq!((refusal.status, &*refusal.words), (StatusCode::FORBIDDEN, "You lack a right: no"));
        assert!(task.join_next().await.is_some_and(|ended| ended.is_ok()));
    }

    /// A caller who is forgotten leaves no watch behind, and whoever waits for the list asks again.
    #[tokio::test(start_paused = true)]
    async fn a_list_whose_caller_is_forgotten_ends_at_once() {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let reader = reader(Client::new(service, "default"));
        let (list, task) = List::<Application>::begin(reader, "/apis/x".to_owned());
        let begun = Instant::now();
        drop(task);
        let refusal = Arc::clone(&list).complete().await.err().unwrap();
        assert_eq!((refusal.status, begun.elapsed()), (StatusCode::GATEWAY_TIMEOUT, Duration::ZERO));
        assert_eq!(Arc::strong_count(&list), 1);
    }

    /// Sixty people who looked at ten thousand applications each would have filled the memory of the page, and once, when each row
    /// counted the same, two with long rows.
    #[test]
    fn a_row_takes_room_by_its_text_until_it_is_gone() {
        static ROOM: Shares = Shares::new(100_000);
        let key = |name: &str| -> Key { ("team-a".into(), name.into()) };
        let row = |length: usize| Application { why: "x".repeat(length).into(), ..Application::default() };
        let [mut rows, mut others] =
            ["ada", "bob"].map(|party| Rows { by_key: BTreeMap::new(), room: ROOM.empty(party) });
        assert!(rows.keep(key("a"), row(30_000)) && !rows.keep(key("b"), row(30_000)), "half of all");
        assert!(rows.keep(key("a"), row(40_000)) && others.keep(key("a"), row(20_000)));
        assert!(!others.keep(key("b"), row(20_000)), "half of the rest");
        assert!(rows.keep(key("a"), row(0)) && others.keep(key("b"), row(20_000)));
        assert!(!rows.keep(key("a"), row(90_000)) && rows.by_key.is_empty(), "nor what it was before");
        assert!(!rows.keep(key("a"), row(45_000)));
        others.remove(&key("a"));
        others.remove(&key("b"));
        assert!(rows.keep(key("a"), row(45_000)));
    }
}
