//! The parts that all reconcile loops share: the cache that the watch of their kind fills, the queue, the notes about
//! each object, and the steps before and after a reconcile.

use super::{
    Cluster, Error, FRESH_FACTS, Key, calls,
    events::reference,
    kept::{Keep, Kept, Reconciled},
    queue::Queue,
    reconcile_memory::ReconcileMemory,
    workload::Workload,
};
use api::Identity;
use futures::{StreamExt, future};
use jiff::Timestamp;
use kube::{
    Resource, ResourceExt,
    runtime::{
        reflector::{ObjectRef, Store, store::Writer},
        watcher::Event,
    },
};
use plan::events;
use serde::Serialize;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, field, info_span};
use work::caught;

/// The parts of a reconcile loop that differ between the kinds.
pub(super) trait Reconciler: Send + Sync + 'static {
    type Kind: Reconciled;
    type Part: Keep<Self::Kind> + Sync;

    fn source(&self) -> &Source<Self::Kind, Self::Part>;

    /// Observes an object, decides, acts, and records the result. Returns the time until the next reconcile if nothing
    /// changes before; `None` to wait for a change.
    fn reconcile(
        &self,
        object: &Self::Kind,
        now: Timestamp,
    ) -> impl Future<Output = Result<Option<Duration>, Error>> + Send;

    /// Runs before an object is read from the cache, also if no object with this key exists any more. Returns the pause
    /// before the next attempt if something could not be done.
    fn prepare(&self, _key: &Key) -> impl Future<Output = Option<Duration>> + Send {
        future::ready(None)
    }

    /// Returns how long an object has to wait before it is read; `None` if it need not wait.
    fn delay(&self, _watched: &Kept<Self::Kind, Self::Part>) -> Option<Duration> {
        None
    }

    /// Stops driving an object in a namespace that is not this operator's. Its note is removed: another operator may
    /// drive the object now, so the version that this process wrote last may be outdated when the namespace is this
    /// operator's again.
    fn release(
        &self,
        watched: &Kept<Self::Kind, Self::Part>,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        self.source().memory.forget(watched.own_uid());
        future::ready(Ok(()))
    }

    /// Handles an object that is being deleted. By default its note is removed, and Kubernetes deletes the objects that
    /// it owns. Returns the pause before the next attempt if something could not be done.
    fn end(&self, object: &Self::Kind) -> impl Future<Output = Option<Duration>> + Send {
        self.source().memory.forget(object.own_uid());
        future::ready(None)
    }
}

/// The cache, the queue and the notes of the objects of the kind `K`; `T` is the part of an object that the cache has.
/// Cheap to clone: all clones share their data.
#[derive(Clone)]
pub(super) struct Source<K: Reconciled, T: 'static> {
    pub cluster: Cluster,
    pub queue: Arc<Queue>,
    /// The cache, fed by the watch.
    pub cache: Store<Kept<K, T>>,
    pub memory: ReconcileMemory,
}

impl<K: Reconciled, T: Keep<K>> Source<K, T> {
    pub(super) fn new(cluster: Cluster, workload: &Workload, cache: Store<Kept<K, T>>) -> Self {
        Self { cluster, queue: Queue::new(workload.clone()), cache, memory: ReconcileMemory::default() }
    }

    /// Updates the cache and queues the objects that change; never ends. `on_event` is called with each event after the
    /// cache has it and before its object is queued.
    pub(super) async fn follow(&self, mut writer: Writer<Kept<K, T>>, on_event: impl Fn(&Event<Kept<K, T>>)) {
        let mut changes = pin!(self.cluster.watching.changes::<Kept<K, T>>(&(), None));
        while let Some(event) = changes.next().await {
            writer.apply_watcher_event(&event);
            on_event(&event);
            self.queue_changed(&event);
        }
    }

    /// Queues all objects of the cache, or those in `namespace` if one is given.
    pub(super) fn queue_all(&self, namespace: Option<&str>) {
        for object in self.cache.state() {
            if namespace.is_none() || object.meta().namespace.as_deref() == namespace {
                self.queue.add(&*object);
            }
        }
    }

    /// Queues the object of an event. When a list is complete, queues all objects, and removes the notes about objects
    /// that are not in the list: a watch does not report objects that were deleted while no watch was running.
    fn queue_changed(&self, event: &Event<Kept<K, T>>) {
        match event {
            Event::Init => self.memory.list_begins(),
            // The cache has it once the list is complete.
            Event::InitApply(_) => {}
            Event::InitDone => {
                let uids = self.cache.state().iter().filter_map(|object| object.uid()).collect();
                self.memory.list_ends(&uids);
                self.queue_all(None);
            }
            Event::Apply(object) => self.queue.add(object),
            Event::Delete(object) => {
                self.memory.forget(object.own_uid());
                self.queue.add(object);
            }
        }
    }

    /// Replaces the status `before` of `object` by `status`. Older copies of the object are not reconciled any more:
    /// see [`ReconcileMemory::have_newer`]. When the watch has reported the write, the object is reconciled again.
    ///
    /// # Errors
    ///
    /// If the status cannot be written: see [`calls::write_status`].
    pub(super) async fn write(
        &self,
        object: &K,
        before: &impl Serialize,
        status: &impl Serialize,
    ) -> Result<(), Error> {
        let written = calls::write_status(&self.cluster.client, object, before, status).await?;
        self.memory.with(object.own_uid(), |note| note.wrote(&written));
        Ok(())
    }
}

/// Reconciles the objects in the queue until `stop` is cancelled.
pub(super) async fn work<R: Reconciler>(of: &Arc<R>, stop: &CancellationToken) {
    let working = Arc::clone(of);
    let each = move |key: Key| {
        let of = Arc::clone(&working);
        async move { reconcile_key(&*of, &key).await }
    };
    of.source().queue.work(stop, each).await;
}

/// Reconciles an object as the cache has it; an object that is too large for the cache is fetched. Returns the time
/// until the next reconcile if nothing changes before; `None` to wait for a change.
pub(super) async fn reconcile_key<R: Reconciler>(of: &R, key: &Key) -> Option<Duration> {
    let again = of.prepare(key).await;
    let (namespace, name) = key;
    let Source { cluster, queue, cache, memory } = of.source();
    let Some(watched) = cache.get(&ObjectRef::new(name).within(namespace)) else { return again };
    let watched = &*watched;
    let (now, kind, uid) = (super::now(), R::Kind::kind(&()), watched.own_uid());
    let span = info_span!(
        "reconcile",
        kind = &*kind,
        namespace,
        name = field::Empty,
        state = field::Empty,
        submission_id = field::Empty,
    );
    // Not in the macro above: the JSON log layer overwrites a field `name` that is set there.
    span.record("name", name);
    let look = async {
        if !cluster.namespaces.include(namespace) {
            return of.release(watched).await.map(|()| None);
        }
        if let Some(pause) = of.delay(watched) {
            return Ok(Some(pause));
        }
        memory.begin(uid);
        let Some((object, _turn)) = cluster.whole(watched, now).await? else { return Ok(None) };
        if object.meta().deletion_timestamp.is_some() {
            return Ok(of.end(&object).await);
        }
        if memory.have_newer(&object) {
            debug!("the cache has not seen our last write yet");
            return Ok(Some(FRESH_FACTS));
        }
        let wake = of.reconcile(&object, now).await?;
        memory.with(uid, |note| note.failures = 0);
        Ok::<_, Error>(wake)
    };
    let guarded = async {
        let began = Instant::now();
        let looked = match caught(look).await {
            Ok(looked) => looked,
            Err(bug) => {
                queue.workload.panics.inc();
                let event = events::panicked(bug.to_string());
                cluster.send_event_once(reference(watched, &()), &event, now).await;
                Err(bug.into())
            }
        };
        queue.workload.ended(began, &looked);
        looked
    };
    let wake = guarded.instrument(span).await.unwrap_or_else(|error| Some(memory.again(watched, &error)));
    wake.into_iter().chain(again).min()
}
