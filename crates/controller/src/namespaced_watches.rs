//! Merges the watches of one kind in several namespaces into one stream of events, which looks like the stream of one
//! watch of all these namespaces.
//!
//! An operator that works in named namespaces has permissions only in these namespaces, so it cannot watch the whole
//! cluster. The receiver of the events needs one complete list of all namespaces, because each complete list replaces
//! everything that the receiver knows.

use futures::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream, FuturesUnordered},
};
use kube::runtime::watcher::{Error, Event, Result};
use std::collections::{BTreeSet, VecDeque};
use tracing::{info, warn};

type Watch<K> = BoxStream<'static, Result<Event<K>>>;
/// The namespace's position, the next event of its watch, and the rest of the watch.
type Next<K> = BoxFuture<'static, (usize, Option<Result<Event<K>>>, Watch<K>)>;

/// Merges the watches that `watch` begins for each of `namespaces`.
///
/// The first list is complete when each namespace has been listed. A namespace that does not exist, or in which the
/// operator has no permissions, does not delay the others: it counts as empty, and its objects are delivered as changes
/// once they can be listed. The caller gets the error only if no namespace can be listed.
pub(super) fn merged<K, F>(
    namespaces: BTreeSet<String>,
    watch: F,
) -> impl Stream<Item = Result<Event<K>>> + Send + use<K, F>
where
    K: Send + 'static,
    F: Fn(&str) -> Watch<K> + Send + 'static,
{
    let mut merge = Merge {
        watch,
        parts: Vec::new(),
        running: FuturesUnordered::new(),
        is_listing: true,
        next: VecDeque::from([Ok(Event::Init)]),
        held: VecDeque::new(),
    };
    for (i, namespace) in namespaces.into_iter().enumerate() {
        merge.follow(i, (merge.watch)(&namespace));
        merge.parts.push(Part { namespace, state: State::Listing, has_delivered: false });
    }
    stream::unfold(merge, async |mut merge| Some((merge.next().await?, merge)))
}

/// The watch of one namespace.
struct Part {
    namespace: String,
    state: State,
    /// Whether the stream has delivered an object of this namespace since its last `Init`.
    has_delivered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Listing,
    /// The namespace cannot be listed yet. The merged list does not wait for it.
    Missing,
    Listed,
}

struct Merge<K, F> {
    watch: F,
    parts: Vec<Part>,
    running: FuturesUnordered<Next<K>>,
    /// Whether `InitDone` is still to come.
    is_listing: bool,
    /// The events to deliver next.
    next: VecDeque<Result<Event<K>>>,
    /// The changes in namespaces that are already listed, held back until all namespaces are listed.
    held: VecDeque<Result<Event<K>>>,
}

impl<K: Send + 'static, F: Fn(&str) -> Watch<K>> Merge<K, F> {
    /// Adds a future to `running` that waits for the next event of `watch`, the watch of the namespace at position `i`.
    fn follow(&self, i: usize, watch: Watch<K>) {
        self.running.push(watch.into_future().map(move |(event, rest)| (i, event, rest)).boxed());
    }

    async fn next(&mut self) -> Option<Result<Event<K>>> {
        loop {
            if let Some(event) = self.next.pop_front() {
                return Some(event);
            }
            let (i, event, rest) = self.running.next().await?;
            self.take(i, event?);
            self.follow(i, rest);
            self.complete();
        }
    }

    fn take(&mut self, i: usize, event: Result<Event<K>>) {
        let part = &mut self.parts[i];
        match event {
            Ok(Event::Init) if part.has_delivered => self.begin_anew(i),
            Ok(Event::Init) if part.state == State::Listed => part.state = State::Listing,
            Ok(Event::Init) => {}
            Ok(Event::InitDone) => {
                if part.state == State::Missing {
                    info!(namespace = part.namespace, "the namespace can be listed now");
                }
                part.state = State::Listed;
            }
            Ok(Event::InitApply(object)) => {
                part.has_delivered = true;
                let event = if self.is_listing { Event::InitApply(object) } else { Event::Apply(object) };
                self.next.push_back(Ok(event));
            }
            Ok(change) => {
                part.has_delivered = true;
                let queue = if self.is_listing { &mut self.held } else { &mut self.next };
                queue.push_back(Ok(change));
            }
            Err(error) if part.state != State::Listed && is_missing(&error) => {
                if part.state == State::Listing {
                    warn!(namespace = part.namespace, %error, "not watched until the namespace can be listed");
                }
                part.state = State::Missing;
                if self.parts.iter().all(|part| part.state == State::Missing) {
                    self.next.push_back(Err(error));
                }
            }
            Err(error) => self.next.push_back(Err(error)),
        }
    }

    /// Begins a new merged list, because the watch of the namespace `cause` has begun a new list and objects that it
    /// has delivered before may be gone. Every other watch is dropped and replaced. The watch of `cause` continues, because it
    /// contains the backoff after its failure.
    fn begin_anew(&mut self, cause: usize) {
        self.is_listing = true;
        self.held.clear();
        self.next = VecDeque::from([Ok(Event::Init)]);
        self.running.clear();
        for i in 0..self.parts.len() {
            let part = &mut self.parts[i];
            if part.state != State::Missing {
                part.state = State::Listing;
            }
            part.has_delivered = false;
            if i != cause {
                let watch = (self.watch)(&part.namespace);
                self.follow(i, watch);
            }
        }
    }

    /// Ends the merged list once each namespace is listed or missing, and delivers the changes that were held back.
    fn complete(&mut self) {
        let is_in = |state| self.parts.iter().any(|part| part.state == state);
        if !self.is_listing || is_in(State::Listing) || !is_in(State::Listed) {
            return;
        }
        self.is_listing = false;
        self.next.push_back(Ok(Event::InitDone));
        self.next.append(&mut self.held);
    }
}

/// Whether a watch cannot begin because the kind or the namespace does not exist, or because the operator has no
/// permission to watch.
pub(super) fn is_missing(error: &Error) -> bool {
    // The status code is compared, not the reason: for an API group that does not exist at all, the API server answers
    // 404 with a plain text instead of a reason.
    let (Error::InitialListFailed(error) | Error::WatchStartFailed(error)) = error else { return false };
    matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 404))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::channel::mpsc;
    use kube::{core::Status, runtime::watcher};
    use parking_lot::Mutex;
    use std::{collections::BTreeMap, pin::Pin, sync::Arc};

    type Sender = mpsc::UnboundedSender<Result<Event<&'static str>>>;

    /// The merged watches of two namespaces. The test sends the events of the watch of each namespace.
    struct Merged {
        merged: Pin<Box<dyn Stream<Item = Result<Event<&'static str>>> + Send>>,
        /// The latest watch of each namespace, and how many there have been.
        watches: Arc<Mutex<BTreeMap<String, (Sender, usize)>>>,
    }

    impl Merged {
        fn of(namespaces: [&str; 2]) -> Self {
            let watches = Arc::new(Mutex::new(BTreeMap::<String, (Sender, usize)>::new()));
            let begun = Arc::clone(&watches);
            let watch = move |namespace: &str| {
                let (sender, receiver) = mpsc::unbounded();
                let mut begun = begun.lock();
                let number = begun.get(namespace).map_or(1, |(_, number)| number + 1);
                begun.insert(namespace.to_owned(), (sender, number));
                receiver.boxed()
            };
            let merged = merged(namespaces.map(str::to_owned).into(), watch);
            Self { merged: Box::pin(merged), watches }
        }

        /// Sends `events` on the watch of `namespace`, and returns the events of the merged watches.
        fn says(
            &mut self,
            namespace: &str,
            events: impl IntoIterator<Item = Event<&'static str>>,
        ) -> Vec<String> {
            for event in events {
                self.send(namespace, Ok(event));
            }
            self.heard()
        }

        fn fails(&mut self, namespace: &str, code: u16) -> Vec<String> {
            let status = Status { code, ..Status::failure("no", "Reason") };
            self.send(namespace, Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))));
            self.heard()
        }

        fn send(&self, namespace: &str, event: Result<Event<&'static str>>) {
            self.watches.lock()[namespace].0.unbounded_send(event).unwrap();
        }

        fn heard(&mut self) -> Vec<String> {
            let next = std::iter::from_fn(|| self.merged.next().now_or_never().flatten());
            next.map(|event| match event {
                Ok(Event::Init) => "begins".to_owned(),
                Ok(Event::InitApply(object)) => format!("lists {object}"),
                Ok(Event::InitDone) => "ends".to_owned(),
                Ok(Event::Apply(object)) => format!("changes {object}"),
                Ok(Event::Delete(object)) => format!("deletes {object}"),
                Err(_) => "fails".to_owned(),
            })
            .collect()
        }

        fn begun(&self) -> [usize; 2] {
            let watches = self.watches.lock();
            [&watches["a"], &watches["b"]].map(|(_, number)| *number)
        }
    }

    use Event::{Apply, Delete, Init, InitApply, InitDone};
    const NOTHING: [&str; 0] = [];

    #[test]
    fn one_list_of_all_namespaces_is_followed_by_the_changes_in_each() {
        let mut merged = Merged::of(["a", "b"]);
        assert_eq!(merged.says("a", [Init, InitApply("a1"), InitDone]), ["begins", "lists a1"]);
        assert_eq!(merged.says("a", [Apply("a2")]), NOTHING, "until the list of b is complete");
        assert_eq!(merged.says("b", [Init]), NOTHING);
        let rest = ["lists b1", "ends", "changes a2", "deletes b1"];
        assert_eq!(merged.says("b", [InitApply("b1"), InitDone, Delete("b1")]), rest);
        assert_eq!(merged.says("a", [Delete("a1")]), ["deletes a1"]);
        assert_eq!(merged.begun(), [1, 1]);
    }

    #[test]
    fn a_new_list_of_one_namespace_restarts_the_merged_list() {
        let mut merged = Merged::of(["a", "b"]);
        merged.says("a", [Init, InitApply("a1"), InitDone]);
        merged.says("b", [Init, InitApply("b1"), InitDone]);
        assert_eq!(merged.says("a", [Init]), ["begins"]);
        assert_eq!(merged.begun(), [1, 2], "the watch that has begun a new list continues");
        assert_eq!(merged.says("b", [Init, InitApply("b2"), InitDone]), ["lists b2"]);
        assert_eq!(merged.says("a", [InitDone]), ["ends"]);

        // No object of namespace `a` has been delivered, so none can be gone, and no new list is needed.
        assert_eq!(merged.says("a", [Init, InitApply("a2"), InitDone]), ["changes a2"]);
        assert_eq!(merged.begun(), [1, 2]);
    }

    #[test]
    fn an_interrupted_list_leaves_no_objects_behind() {
        let mut merged = Merged::of(["a", "b"]);
        assert_eq!(merged.says("b", [Init]), ["begins"]);
        assert_eq!(merged.says("a", [Init, InitApply("a1")]), ["lists a1"]);
        assert_eq!(merged.fails("a", 500), ["fails"]);
        assert_eq!(merged.says("a", [Init, InitApply("a2"), InitDone]), ["begins", "lists a2"]);
        assert_eq!(merged.says("b", [Init, InitDone]), ["ends"]);
        assert_eq!(merged.begun(), [1, 2]);
    }

    #[test]
    fn a_namespace_that_cannot_be_listed_delays_no_other() {
        let mut merged = Merged::of(["a", "b"]);
        assert_eq!(merged.fails("a", 403), ["begins"]);
        assert_eq!(merged.says("b", [Init, InitApply("b1"), InitDone]), ["lists b1", "ends"]);
        assert_eq!(merged.says("a", [Init]), NOTHING);
        assert_eq!(merged.fails("a", 403), NOTHING);
        assert_eq!(merged.says("b", [Apply("b2")]), ["changes b2"]);
        assert_eq!(merged.says("a", [Init, InitApply("a1"), InitDone]), ["changes a1"]);
        assert_eq!(merged.says("a", [Delete("a1")]), ["deletes a1"]);
    }

    #[test]
    fn a_missing_namespace_is_an_error_only_if_all_are_missing() {
        let mut merged = Merged::of(["a", "b"]);
        assert_eq!(merged.fails("a", 403), ["begins"]);
        assert_eq!(merged.fails("b", 404), ["fails"]);
        assert_eq!(merged.fails("b", 404), ["fails"]);
        assert_eq!(merged.says("b", [Init, InitApply("b1"), InitDone]), ["lists b1", "ends"]);
    }
}
