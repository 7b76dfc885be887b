//! Keeps what the reconcile loops of schedules and of SparkConnects have in common: the cache that the watch of their kind
//! feeds, the queue, what is remembered of each object, and how a reconcile begins and ends.

use super::{
    Cluster, Error, FRESH_FACTS,
    error::guarded,
    kept::{Keep, Kept, Text, Whole},
    queue::Queue,
    reconcile_memory::ReconcileMemory,
    status,
    workload::Workload,
};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::{
    Resource, ResourceExt,
    core::NamespaceResourceScope,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store, store::Writer},
        watcher::Event,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Debug, sync::Arc, time::Duration};
use tracing::{Instrument, debug, field, info_span, warn};

/// The objects of the kind `K`, of which the cache has `T`.
pub(super) struct Source<K, T>
where
    K: Resource<DynamicType = ()> + 'static,
    T: 'static,
{
    pub cluster: Cluster,
    pub queue: Arc<Queue>,
    /// The cache, fed by the watch.
    pub cache: Store<Kept<K, T>>,
    pub memory: ReconcileMemory,
}

impl<K, T> Source<K, T>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + 'static,
    T: Keep<K> + AsRef<Text>,
{
    pub(super) fn new(cluster: Cluster, workload: &Workload, cache: Store<Kept<K, T>>) -> Self {
        Self { cluster, queue: Queue::new(workload.clone()), cache, memory: ReconcileMemory::default() }
    }

    /// Keeps the cache, and queues the objects that change; never ends. Before an object is queued, `heard` is called with
    /// the event, which the cache has by then.
    pub(super) async fn follow(&self, writer: Writer<Kept<K, T>>, heard: impl Fn(&Event<Kept<K, T>>)) {
        let kind = K::kind(&());
        let events = self.cluster.watching.events::<Kept<K, T>>(&(), None);
        events
            .inspect_err(|error| warn!(%kind, %error, "the watch is retried"))
            .reflect(writer)
            .for_each(async |event| {
                if let Ok(event) = event {
                    heard(&event);
                    self.take_note(&event);
                }
            })
            .await;
    }

    /// Queues the object that the watch has reported. Once it has listed all, queues all of them, and forgets what is
    /// remembered of others: the watch does not report those that were deleted while no watch was running.
    fn take_note(&self, event: &Event<Kept<K, T>>) {
        match event {
            Event::Init => self.memory.list_begins(),
            // The cache has it once the list is complete.
            Event::InitApply(_) => {}
            Event::InitDone => {
                let uids = self.cache.state().iter().filter_map(|object| object.uid()).collect();
                self.memory.list_ends(&uids);
                self.queue.add_all(&self.cache);
            }
            Event::Apply(object) => {
                // Not for this process's own status write: the reconcile that wrote it has already acted on it. Listed
                // objects are queued all the same, because a write may have been undone before the list.
                if !self.memory.is_echo(object) {
                    self.queue.add(&ObjectRef::from_obj(object));
                }
            }
            Event::Delete(object) => {
                self.memory.forget(&object.uid().unwrap_or_default());
                self.queue.add(&ObjectRef::from_obj(object));
            }
        }
    }

    /// Has `reconcile` work on an object as the cache has it. Returns after which time to work on it again if nothing
    /// changes before; none to wait for a change. An object that is about to go is left to Kubernetes, which deletes what
    /// belongs to it.
    pub(super) async fn look<F>(
        &self,
        namespace: &str,
        name: &str,
        reconcile: impl FnOnce(Whole<K>, Timestamp) -> F,
    ) -> Option<Duration>
    where
        F: Future<Output = Result<Option<Duration>, Error>>,
    {
        let Some(watched) = self.cache.get(&ObjectRef::new(name).within(namespace)) else {
            self.queue.workload.remove(namespace, name);
            return None;
        };
        let watched = &*watched;
        let (now, kind, uid) = (super::now(), K::kind(&()), watched.uid().unwrap_or_default());
        let span =
            info_span!("reconcile", kind = &*kind, namespace, name = field::Empty, state = field::Empty);
        // Not in the macro above: the JSON log layer overwrites a field `name` that is set there.
        span.record("name", name);
        let look = async {
            if !self.cluster.namespaces.include(namespace) {
                // Another operator may drive the object now, so the version that this process has written last may be
                // outdated when it is this one's turn again.
                self.memory.forget(&uid);
                return Ok(None);
            }
            let Some(whole) = self.cluster.reader.whole(watched, now).await? else { return Ok(None) };
            if whole.object.meta().deletion_timestamp.is_some() {
                self.memory.forget(&uid);
                return Ok(None);
            }
            if self.memory.have_newer(&whole.object) {
                debug!("the cache has not seen our last write yet");
                return Ok(Some(FRESH_FACTS));
            }
            let wake = reconcile(whole, now).await?;
            // Of an object that was deleted meanwhile, nothing is remembered any more.
            if let Some(note) = self.memory.lock().get_mut(&uid) {
                note.failures = 0;
            }
            Ok::<_, Error>(wake)
        };
        let looked = guarded(watched, &self.queue.workload, &self.cluster.events, now, look);
        looked.instrument(span).await.unwrap_or_else(|error| Some(self.memory.again(watched, &error)))
    }

    /// Writes `status` in place of `before`. Returns the object as it is then, and whether the watch has reported a later
    /// version meanwhile.
    ///
    /// # Errors
    ///
    /// If the status cannot be written: see [`status::write`].
    pub(super) async fn write<S: Serialize>(
        &self,
        object: &K,
        before: &Option<S>,
        status: &S,
    ) -> Result<(K, bool), Error> {
        let uid = object.uid().unwrap_or_default();
        self.memory.begin_write(&uid);
        let written = status::write(&self.cluster.client, object, before, status).await;
        let is_outdated = self.memory.end_write(&uid, written.as_ref().ok());
        Ok((written?, is_outdated))
    }
}
