//! Keeps a caller's list of a kind up to date while it is used: lists the objects page by page, then watches them.
//!
//! A [`List`] belongs to one caller and is filled by that caller's client, so it contains exactly what RBAC lets the
//! caller see. It ends, and frees its memory, when it was not used for a minute, or when the caller is forgotten.

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

/// The time for which a list is kept without being used.
pub(crate) const UNUSED: Duration = Duration::from_secs(60);
/// The timeout of a page that waits for a list that is not complete yet.
const FIRST: Duration = Duration::from_secs(10);
/// The pause before a list that cannot be watched is read again: a truncated list has no `resourceVersion` from which a
/// watch could continue, or the caller lacks the right to watch.
const AGAIN: Duration = Duration::from_secs(20);
/// The timeout of one watch request, in seconds, and the interval in which the watch checks whether the list is still
/// used.
const WATCH: u32 = 240;
const LOOK: Duration = Duration::from_secs(10);
/// The maximum number of objects of a list. If there are more, the page shows the first ones and says so.
const MOST: usize = 50_000;

/// The memory for the rows of all lists, in bytes. It is most of the memory of the process: the soak test measures how
/// much 200,000 rows take, and the chart's limit is 256 MiB. While a list is read again, its old and its new rows
/// count. A party may have at most as much as it leaves free: a tenant may have any number of tokens, each with lists
/// of its own.
static ROOM: Shares = Shares::new(160 << 20);

/// The objects of a kind that a caller may see, in all namespaces or in one. It ends with the task that keeps it up to
/// date.
pub(crate) struct List<R> {
    rows: Mutex<Rows<R>>,
    progress: watch::Receiver<Progress>,
    /// The time of the last use.
    used: Mutex<Instant>,
}

/// Rows, and the share of the memory that they take.
struct Rows<R> {
    /// Rows are boxed, so that free slots in the nodes of the tree are small.
    by_key: BTreeMap<Key, Box<R>>,
    room: Share<'static>,
}

impl<R: Row> Rows<R> {
    fn new(party: &str) -> Self {
        Self { by_key: BTreeMap::new(), room: ROOM.empty(party) }
    }

    /// Inserts or replaces a row if there is memory for it. Otherwise removes the old row of this key. Returns whether
    /// the row was kept.
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

/// Returns the bytes that a row counts: the size of key and row is doubled, for free slots of the tree and the
/// allocator's overhead.
fn weight<R: Row>((namespace, name): &Key, row: &R) -> usize {
    2 * size_of::<(Key, R)>() + namespace.len() + name.len() + row.length()
}

#[derive(Clone, Default)]
struct Progress {
    is_complete: bool,
    /// Whether there are more objects than were kept.
    is_cut: bool,
    /// The reason why the list is not up to date.
    failure: Option<Refusal>,
}

impl<R: Row> List<R> {
    /// Starts to read the objects at `path` with the rights of a caller. Returns the list and the task that keeps it up
    /// to date while it is used. Dropping the task ends it.
    pub(crate) fn begin(reader: Reader, path: String) -> (Arc<Self>, JoinSet<()>) {
        let (sender, progress) = watch::channel(Progress::default());
        let (rows, used) = (Mutex::new(Rows::new(&reader.party)), Mutex::new(Instant::now()));
        let list = Arc::new(Self { rows, progress, used });
        let mut task = JoinSet::new();
        task.spawn(Source { reader, path, list: Arc::clone(&list), progress: sender }.follow());
        (list, task)
    }

    /// Waits until the list is complete, and returns it. Counts as a use of the list.
    ///
    /// # Errors
    ///
    /// If the list cannot be read, or is not complete within [`FIRST`].
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

    /// Returns the warning above the list: why it is not up to date, or that it is truncated. `None` if all is well.
    pub(crate) fn trouble(&self) -> Option<String> {
        let progress = self.progress.borrow();
        let cut = || "There are too many to show all: choose a namespace.".to_owned();
        progress.failure.as_ref().map(|failure| failure.words.clone()).or_else(|| progress.is_cut.then(cut))
    }

    /// Calls `look` with the rows in the order of their keys. The list is locked meanwhile.
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
        let (mut patience, mut may_watch) = (Patience::default(), true);
        while self.list.is_used() {
            let failure = match self.listed().await {
                Ok(version) => {
                    patience.restore();
                    match self.watched(if may_watch { version } else { String::new() }).await {
                        // If the right to list is lost too, the next list says so.
                        Err(kube::Error::Api(status)) if status.code == 403 => {
                            may_watch = false;
                            None
                        }
                        ended => ended.err(),
                    }
                }
                Err(error) => Some(error),
            };
            let Some(error) = failure else { continue };
            let is_final = !can_pass(&error);
            self.progress.send_modify(|progress| {
                // After a final error, such as a lost right, the rows are no longer shown.
                progress.is_complete &= !is_final;
                progress.failure = Some(error.into());
            });
            if is_final {
                return;
            }
            patience.pause().await;
        }
    }

    /// Reads all objects. Returns the `resourceVersion` from which a watch continues; empty if the list is truncated.
    async fn listed(&self) -> Result<String, kube::Error> {
        let (mut rows, mut has_room) = (Rows::new(&self.reader.party), true);
        let read = self.reader.list(&self.path, ListParams::default(), MOST, |object| {
            let (key, _, row) = reduced::<R>(object);
            has_room &= rows.keep(key, row);
        });
        let (version, is_longer) = read.await?;
        let is_cut = is_longer || !has_room;
        // Inserting in the order of the keys leaves the nodes of the tree half empty. Building it from all rows fills
        // them.
        rows.by_key = mem::take(&mut rows.by_key).into_iter().collect();
        *self.list.rows.lock() = rows;
        self.progress.send_replace(Progress { is_complete: true, is_cut, failure: None });
        Ok(if is_cut { String::new() } else { version })
    }

    /// Applies changes to the list until it is no longer used, or until the watch fails. With an empty `version`, waits
    /// for [`AGAIN`] instead.
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
                    // A dead connection does not even end when the watch's timeout is over.
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

    fn begun(client: Client) -> (Arc<List<Application>>, JoinSet<()>) {
        let reader = Reader { client, party: "ada".into() };
        List::begin(reader, "/apis/x".to_owned())
    }

    /// Returns a client whose server has two pages of one application each, and a watch without events.
    fn client(requests: Arc<AtomicUsize>) -> Client {
        crate::tests::client(move |request| {
            requests.fetch_add(1, Ordering::Relaxed);
            let query = request.uri().query().unwrap_or_default();
            if query.contains("watch=true") {
                return (200, Answer::from_stream(pending::<Result<Bytes, Infallible>>()));
            }
            let (name, next) = if query.contains("continue=") { ("b", "") } else { ("a", "more") };
            let item = json!({"metadata": {"name": name, "namespace": "team-a"}, "spec": {}});
            let metadata = json!({"resourceVersion": "7", "continue": next});
            (200, Answer::from(json!({"metadata": metadata, "items": [item]}).to_string()))
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_read_page_by_page_and_ends_when_it_is_not_used() {
        let requests = Arc::new(AtomicUsize::new(0));
        let (list, _task) = begun(client(Arc::clone(&requests)));
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
    async fn a_forbidden_list_fails_immediately() {
        let status = json!({"status": "Failure", "code": 403, "message": "no", "reason": "Forbidden"});
        let (list, mut task) = begun(crate::tests::client(move |_| (403, status.to_string())));
        let refusal = Arc::clone(&list).complete().await.err().unwrap();
        assert_eq!((refusal.status, &*refusal.words), (StatusCode::FORBIDDEN, "You lack a right: no"));
        assert!(task.join_next().await.is_some_and(|ended| ended.is_ok()));
    }

    /// In an earlier version, each refresh of a page read the whole list again.
    #[tokio::test(start_paused = true)]
    async fn a_list_that_may_not_be_watched_is_read_again_after_a_pause() {
        let lists = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&lists);
        let (list, _task) = begun(crate::tests::client(move |request| {
            if request.uri().query().unwrap_or_default().contains("watch=true") {
                let status =
                    json!({"status": "Failure", "code": 403, "message": "no", "reason": "Forbidden"});
                return (403, status.to_string());
            }
            counter.fetch_add(1, Ordering::Relaxed);
            (200, json!({"metadata": {"resourceVersion": "7"}, "items": []}).to_string())
        }));
        for expected in [2, 3] {
            sleep(AGAIN / 2).await;
            assert!(Arc::clone(&list).complete().await.is_ok());
            assert_eq!((lists.load(Ordering::Relaxed), list.trouble()), (expected, None));
            sleep(AGAIN / 2).await;
        }
    }

    /// When a caller is forgotten, the task is dropped. No watch remains, and pages that wait for the list retry.
    #[tokio::test(start_paused = true)]
    async fn a_list_whose_task_is_dropped_ends_immediately() {
        let service = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let (list, task) = begun(Client::new(service, "default"));
        let begun = Instant::now();
        drop(task);
        let refusal = Arc::clone(&list).complete().await.err().unwrap();
        assert_eq!((refusal.status, begun.elapsed()), (StatusCode::GATEWAY_TIMEOUT, Duration::ZERO));
        assert_eq!(Arc::strong_count(&list), 1);
    }

    /// Without a limit, sixty users with ten thousand applications each would fill the memory of the page. If all rows
    /// counted the same, two users with long rows would.
    #[test]
    fn a_row_counts_with_the_size_of_its_text_until_it_is_removed() {
        static ROOM: Shares = Shares::new(100_000);
        let key = |name: &str| -> Key { ("team-a".into(), name.into()) };
        let row = |length: usize| Application { why: "x".repeat(length).into(), ..Application::default() };
        let [mut rows, mut others] =
            ["ada", "bob"].map(|party| Rows { by_key: BTreeMap::new(), room: ROOM.empty(party) });
        assert!(rows.keep(key("a"), row(30_000)) && !rows.keep(key("b"), row(30_000)), "half of all");
        assert!(rows.keep(key("a"), row(40_000)) && others.keep(key("a"), row(20_000)));
        assert!(!others.keep(key("b"), row(20_000)), "half of the rest");
        assert!(rows.keep(key("a"), row(0)) && others.keep(key("b"), row(20_000)));
        assert!(!rows.keep(key("a"), row(90_000)) && rows.by_key.is_empty(), "the old row is removed");
        assert!(!rows.keep(key("a"), row(45_000)));
        others.remove(&key("a"));
        others.remove(&key("b"));
        assert!(rows.keep(key("a"), row(45_000)));
    }
}
