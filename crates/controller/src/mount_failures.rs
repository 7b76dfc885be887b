//! Finds out why the volumes of pods cannot be mounted. The kubelet reports the reason only by events with the reason
//! FailedMount. These events are watched only while a pod waits for its volumes: the API server keeps no events in
//! memory, and reads each list of events from etcd.

use super::{
    ApplicationRef,
    kept::{Keep, Kept},
    watch::{self, Watching},
};
use api::{
    Lenient,
    excerpt::{self, LONGEST_EXPLANATION},
};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{Client, ResourceExt, runtime::watcher};
use parking_lot::Mutex;
use plan::namespaces::Namespaces;
use std::{
    collections::{BTreeMap, HashMap},
    mem,
    pin::pin,
    time::Duration,
};
use tokio::{
    sync::{Notify, watch as state},
    time::{Instant, interval, timeout},
};
use tracing::warn;

/// How long a pod counts as waiting for its volumes after the last call of [`MountFailures::of`] for the pod. While a
/// pod waits, reconciles call it at least every five minutes.
const WAITS: Duration = Duration::from_secs(600);
/// How often the pods that do not wait any more are forgotten.
const TIDY: Duration = Duration::from_secs(60);
/// How long [`MountFailures::of`] waits for the first list of events. A status without the reason is better than no
/// status.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of pods in one namespace whose reasons are kept: a user who may create events in a namespace can create
/// any number of them.
const MOST: usize = 1_000;

/// The reasons why volumes cannot be mounted, by namespace and uid of the pod.
type Failures = BTreeMap<String, HashMap<String, Failure>>;

/// The latest message of the kubelet about a pod's volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    /// The name of the event.
    event: String,
    last: Option<Timestamp>,
    message: String,
}

#[derive(Debug)]
pub(super) struct MountFailures {
    known: Mutex<Known>,
    /// Notified by each call of `of`.
    asked: Notify,
    is_listed: state::Sender<bool>,
}

#[derive(Debug, Default)]
struct Known {
    failures: Failures,
    /// For each pod that waits for its volumes, by uid: its application, and the time of the last call of `of`.
    waiting: HashMap<String, (ApplicationRef, Instant)>,
}

impl Default for MountFailures {
    fn default() -> Self {
        Self { known: Mutex::default(), asked: Notify::new(), is_listed: state::Sender::new(false) }
    }
}

impl MountFailures {
    /// Returns why the volumes of a pod of `application` cannot be mounted, if a reason is known. From then on, each
    /// change of the reason causes a reconcile of the application.
    pub(super) async fn of(&self, application: &ApplicationRef, pod_uid: &str) -> Option<String> {
        self.known.lock().waiting.insert(pod_uid.to_owned(), (application.clone(), Instant::now()));
        self.asked.notify_one();
        // A timeout is ignored: as long as the events cannot be listed, no reason is known. The wait has no other
        // failure, because the sender lives as long as `self`.
        let mut is_listed = self.is_listed.subscribe();
        drop(timeout(PATIENCE, is_listed.wait_for(|listed| *listed)).await);
        let known = self.known.lock();
        let failures = known.failures.get(application.namespace.as_deref().unwrap_or_default())?;
        failures.get(pod_uid).map(|failure| failure.message.clone())
    }

    /// Watches the events as long as a pod waits for its volumes. Calls `wake` with the application of each pod whose
    /// reason has changed.
    pub(super) async fn follow(
        &self,
        client: &Client,
        namespaces: &Namespaces,
        watch_seconds: u32,
        watching: &Watching,
        wake: impl Fn(ApplicationRef),
    ) {
        let config = watch::config(watch_seconds).fields("involvedObject.kind=Pod,reason=FailedMount");
        loop {
            self.asked.notified().await;
            let mut events = pin!(watch::events(client, namespaces, config.clone(), watching));
            let mut listed = Failures::new();
            let mut tidy = interval(TIDY);
            loop {
                tokio::select! {
                    Some(event) = events.next() => match event {
                        Ok(event) => self.apply(event, &mut listed).into_iter().for_each(&wake),
                        Err(error) => {
                            warn!(%error, "the watch of FailedMount events is retried");
                            // Ends the wait of all calls of `of`, because the list may never arrive.
                            self.is_listed.send_replace(true);
                        }
                    },
                    _ = tidy.tick() => if !self.is_awaited() { break },
                }
            }
        }
    }

    /// Forgets the pods that do not wait any more, and everything if no pod waits. Returns whether a pod waits.
    fn is_awaited(&self) -> bool {
        let mut known = self.known.lock();
        known.waiting.retain(|_, (_, asked)| asked.elapsed() < WAITS);
        let is_awaited = !known.waiting.is_empty();
        if !is_awaited {
            *known = Known::default();
            self.is_listed.send_replace(false);
        }
        is_awaited
    }

    /// Applies one event of the watch; `listed` collects a list that is not complete yet. Returns the applications with
    /// a pod whose reason has changed.
    fn apply(&self, event: watcher::Event<KeptEvent>, listed: &mut Failures) -> Vec<ApplicationRef> {
        let mut known = self.known.lock();
        let changed: Vec<String> = match event {
            watcher::Event::Init => {
                listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(event) => {
                note(listed, &event);
                Vec::new()
            }
            watcher::Event::InitDone => {
                let before = mem::replace(&mut known.failures, mem::take(listed));
                self.is_listed.send_replace(true);
                let message = |failures: &Failures, namespace: &str, uid: &str| {
                    failures.get(namespace).and_then(|of| of.get(uid)).map(|failure| failure.message.clone())
                };
                let differs = |(uid, (application, _)): &(&String, &(ApplicationRef, Instant))| {
                    let namespace = application.namespace.as_deref().unwrap_or_default();
                    message(&before, namespace, uid) != message(&known.failures, namespace, uid)
                };
                known.waiting.iter().filter(differs).map(|(uid, _)| uid.clone()).collect()
            }
            watcher::Event::Apply(event) => note(&mut known.failures, &event).into_iter().collect(),
            // The API server deletes events when they are old. Their message is still true until the pod is gone, so no
            // application is reconciled.
            watcher::Event::Delete(event) => {
                forget(&mut known.failures, &event);
                Vec::new()
            }
        };
        changed.iter().filter_map(|uid| Some(known.waiting.get(uid)?.0.clone())).collect()
    }
}

/// An event as the watch reads it: the uid of its pod, and what it says.
type KeptEvent = Kept<Event, Option<(String, Failure)>>;

impl Keep<Event> for Option<(String, Failure)> {
    fn of(event: &Lenient<Event>, _: Box<str>) -> Self {
        let event = event.0.as_ref().ok()?;
        let message = excerpt::beginning(event.message.clone().unwrap_or_default(), LONGEST_EXPLANATION);
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        Some((event.involved_object.uid.clone()?, Failure { event: event.name_any(), last, message }))
    }
}

/// Records the message of an event. Returns the uid of the pod if the message is new.
fn note(failures: &mut Failures, event: &KeptEvent) -> Option<String> {
    let (uid, failure) = event.kept.as_ref()?;
    let of_namespace = failures.entry(event.namespace()?).or_default();
    let before = of_namespace.get(uid);
    if before.is_some_and(|before| before.last > failure.last)
        || before.is_none() && of_namespace.len() >= MOST
    {
        return None;
    }
    let is_news = before.is_none_or(|before| before.message != failure.message);
    of_namespace.insert(uid.clone(), failure.clone());
    is_news.then(|| uid.clone())
}

/// Forgets the message of an event that is gone.
fn forget(failures: &mut Failures, event: &KeptEvent) {
    let (Some(namespace), Some((uid, gone))) = (event.namespace(), &event.kept) else { return };
    let Some(of_namespace) = failures.get_mut(&namespace) else { return };
    if of_namespace.get(uid).is_some_and(|failure| failure.event == gone.event) {
        of_namespace.remove(uid);
    }
    if of_namespace.is_empty() {
        failures.remove(&namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use prometheus_client::registry::Registry;
    use serde_json::json;
    use std::{slice::from_ref, sync::Arc};
    use tokio::time::sleep;
    use tokio_util::task::AbortOnDropHandle;
    use watches::Watches;

    fn event(name: &str, pod_uid: &str, second: u32, message: &str) -> KeptEvent {
        let event = json!({
            "metadata": {"name": name, "namespace": "team-a"},
            "involvedObject": {"kind": "Pod", "namespace": "team-a", "name": "pi-driver", "uid": pod_uid},
            "reason": "FailedMount",
            "lastTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
            "message": message,
        });
        serde_json::from_str(&event.to_string()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken_by_each_new_reason_and_by_no_other_pods() {
        let failures = MountFailures::default();
        let mut listed = Failures::new();
        let pi = ApplicationRef::new("pi").within("team-a");
        assert_eq!(failures.of(&pi, "pod-1").await, None, "nothing is known where nothing can be listed");

        let mut apply = |event| failures.apply(event, &mut listed);
        assert_eq!(apply(watcher::Event::Init), []);
        assert_eq!(apply(watcher::Event::InitApply(event("a", "pod-1", 1, "no such Secret"))), []);
        assert_eq!(apply(watcher::Event::InitApply(event("b", "pod-2", 1, "of nobody who waits"))), []);
        assert_eq!(apply(watcher::Event::InitDone), from_ref(&pi));
        assert_eq!(apply(watcher::Event::Apply(event("a", "pod-1", 2, "no such Secret"))), []);
        assert_eq!(apply(watcher::Event::Apply(event("c", "pod-1", 3, "no such ConfigMap"))), from_ref(&pi));
        assert_eq!(apply(watcher::Event::Apply(event("a", "pod-1", 2, "no such Secret"))), [], "older");
        assert_eq!(apply(watcher::Event::Apply(event("d", "pod-2", 4, "still of nobody"))), []);
        assert_eq!(failures.of(&pi, "pod-1").await.as_deref(), Some("no such ConfigMap"));

        apply(watcher::Event::Delete(event("a", "pod-1", 2, "no such Secret")));
        assert!(failures.of(&pi, "pod-1").await.is_some(), "another event of the pod is gone");
        apply(watcher::Event::Delete(event("c", "pod-1", 3, "no such ConfigMap")));
        assert_eq!(failures.of(&pi, "pod-1").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn when_nobody_has_asked_for_long_everything_is_forgotten() {
        let failures = MountFailures::default();
        let pi = ApplicationRef::new("pi").within("team-a");
        failures.of(&pi, "pod-1").await;
        failures.apply(watcher::Event::Apply(event("a", "pod-1", 1, "why")), &mut Failures::new());
        assert!(failures.is_awaited());
        tokio::time::advance(WAITS).await;
        assert!(!failures.is_awaited());
        assert!(failures.known.lock().failures.is_empty() && !*failures.is_listed.borrow());
    }

    /// An API server whose lists are empty and whose watches end after a minute.
    async fn answer(request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        if request.uri().query().is_some_and(|query| query.contains("watch=")) {
            sleep(Duration::from_secs(60)).await;
            return Ok(Response::new(Body::empty()));
        }
        let list = json!({"kind": "EventList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []});
        Ok(Response::new(list.to_string().into_bytes().into()))
    }

    /// A driver whose image is pulled slowly is enough to begin the watch. The liveness probe asks for silent watches.
    #[tokio::test(start_paused = true)]
    async fn its_watch_is_alive_while_a_pod_waits_and_none_when_no_pod_has_waited_for_long() {
        let (failures, watches) = (Arc::new(MountFailures::default()), Watches::default());
        let following = Arc::clone(&failures);
        let watching = Watching::new(&mut Registry::default(), watches.clone());
        let _follow = AbortOnDropHandle::new(tokio::spawn(async move {
            let client = Client::new(tower::service_fn(answer), "default");
            following.follow(&client, &Namespaces::default(), 60, &watching, |_| ()).await;
        }));
        failures.of(&ApplicationRef::new("pi").within("team-a"), "pod-1").await;
        sleep(Duration::from_secs(90)).await;
        let silent = |minutes: u64| watches.silent(Duration::from_secs(60 * minutes));
        let [(path, _)] = &silent(0)[..] else { panic!("{watches:?}") };
        assert_eq!(path, "/api/v1/events");
        for _ in 0..6 {
            assert_eq!(silent(5), []);
            sleep(Duration::from_secs(300)).await;
        }
        assert_eq!(silent(0), [], "it has ended");
    }

    #[test]
    fn of_one_namespace_so_many_are_kept() {
        let mut failures = Failures::new();
        for pod in 0..MOST + 5 {
            note(&mut failures, &event("a", &format!("pod-{pod}"), 1, "why"));
        }
        assert_eq!(failures["team-a"].len(), MOST);
        assert!(note(&mut failures, &event("a", "pod-0", 2, "news")).is_some(), "who is known is told of");
    }
}
