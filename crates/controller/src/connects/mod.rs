//! Drives servers of Spark Connect in the same way as applications: watches SparkConnects and what belongs to them, observes
//! the facts, decides what to do, acts, and records the result.

mod execute;
mod gateway;
mod index;
mod observe;

use super::{
    Cluster, Error, FRESH_FACTS, Setup,
    calls::{self, only},
    error::guarded,
    kept::{Kept, KeptConnect},
    mount_failures::MountFailures,
    queue::Queue,
    reconcile_memory::ReconcileMemory,
    status,
};
use api::{ObjectKey, SparkConnect};
use connect::{Action, Plan, Policy};
use execute::Applied;
use futures::StreamExt;
pub use gateway::GatewaySetup;
use gateway::KnownGateway;
use index::ConnectIndex;
use jiff::Timestamp;
use kube::{
    ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store, store::Writer},
        watcher,
    },
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    future,
    sync::Arc,
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use tracing::{Span, debug, field, info, instrument, warn};

/// A SparkConnect as the watch delivers it.
type Watched = Kept<SparkConnect, KeptConnect>;

/// What the operator needs to drive SparkConnects.
#[derive(Clone, Debug)]
pub struct ConnectSetup {
    /// The admin's settings; [`Self::gateway`] has those about the gateway.
    pub policy: Policy,
    /// The operator's gateway, if it has one.
    pub gateway: Option<GatewaySetup>,
}

/// Everything that the reconcile loop of SparkConnects uses and remembers.
pub(super) struct Context {
    cluster: Cluster,
    policy: Policy,
    gateway: Option<KnownGateway>,
    parts: ConnectIndex,
    mount_failures: MountFailures,
    pub queue: Arc<Queue>,
    /// The cache of SparkConnects, fed by the watch.
    pub connects: Store<Watched>,
    memory: ReconcileMemory,
    known: Mutex<HashMap<String, Known>>,
}

/// What is remembered of one SparkConnect, by its uid.
#[derive(Default)]
struct Known {
    /// Why the API server has refused the server's pod.
    refusal: Option<String>,
    applied: BTreeMap<ObjectKey, Applied>,
}

/// Runs the reconcile loop of SparkConnects until `stop` is cancelled; `writer` fills the cache of [`Context::connects`].
pub(super) async fn run(context: Arc<Context>, writer: Writer<Watched>, stop: CancellationToken) {
    let Context { cluster, queue, connects, .. } = &*context;
    let parts = context.parts.follow(&cluster.watching);
    let follow_parts = parts.for_each(async |(namespace, name)| queue.push(&namespace, &name));
    let follow_gateway = async {
        match &context.gateway {
            Some(gateway) => gateway.follow(&cluster.watching, queue, connects).await,
            None => future::pending().await,
        }
    };
    let work = async {
        if stop.run_until_cancelled(context.synced()).await.is_none() {
            return;
        }
        let keep_policy = async {
            match &context.gateway {
                Some(gateway) => {
                    gateway.keep_policy(&cluster.client, connects, context.policy.default_access).await;
                }
                None => future::pending().await,
            }
        };
        let working = Arc::clone(&context);
        let look = move |namespace, name| look(Arc::clone(&working), namespace, name);
        tokio::select! {
            () = queue.work(&stop, look) => {}
            () = keep_policy => {}
        }
    };
    tokio::select! {
        () = work => {}
        () = follow(&context, writer) => {}
        () = follow_parts => {}
        () = follow_gateway => {}
    }
}

/// Keeps the cache, and queues the SparkConnects that change; never ends.
async fn follow(context: &Context, writer: Writer<Watched>) {
    let connects = context.cluster.watching.events(&(), None);
    connects
        .inspect(|event| match event {
            Ok(watcher::Event::Delete(connect)) => context.forget(connect),
            Ok(_) => {}
            Err(error) => warn!(%error, "the watch of SparkConnects is retried"),
        })
        .reflect(writer)
        // After `reflect`, so that the cache contains what the watch has reported when `take_note` reads the cache.
        .for_each(async |event| event.map_or_else(|_| (), |event| context.take_note(&event)))
        .await;
}

/// Works on one SparkConnect as the cache contains it. Returns after which time to work on it again if nothing changes
/// before; none to wait for a change.
async fn look(context: Arc<Context>, namespace: String, name: String) -> Option<Duration> {
    let Some(watched) = context.connects.get(&ObjectRef::new(&name).within(&namespace)) else {
        context.queue.workload.remove(&namespace, &name);
        return None;
    };
    reconcile(&watched, &context).await.unwrap_or_else(|error| Some(context.memory.again(&*watched, &error)))
}

#[instrument(skip_all, fields(
    kind = "SparkConnect",
    namespace = watched.namespace(),
    name = field::Empty,
    state = field::Empty,
))]
async fn reconcile(watched: &Watched, context: &Context) -> Result<Option<Duration>, Error> {
    let now = super::now();
    // Not in the attribute above: the JSON log layer overwrites a field `name` that is set there.
    Span::current().record("name", watched.name_any());
    let look = async {
        if !context.cluster.namespaces.include(&watched.namespace().unwrap_or_default()) {
            // Another operator may drive it by now; this one has nothing to undo.
            context.forget(watched);
            return Ok(None);
        }
        let Some(whole) = context.cluster.reader.whole(watched, now).await? else { return Ok(None) };
        context.reconcile(&whole.object, now).await
    };
    guarded(watched, &context.queue.workload, &context.cluster.events, now, look).await
}

impl Context {
    pub(super) fn new(
        cluster: Cluster,
        setup: &Setup,
        connect: ConnectSetup,
        connects: Store<Watched>,
    ) -> Self {
        Self {
            mount_failures: MountFailures::new(cluster.client.clone()),
            cluster,
            policy: connect.policy,
            gateway: connect.gateway.map(KnownGateway::new),
            parts: ConnectIndex::default(),
            queue: Queue::new(setup.workloads.connects.clone()),
            connects,
            memory: ReconcileMemory::default(),
            known: Mutex::default(),
        }
    }

    /// Waits until the caches are complete.
    async fn synced(&self) {
        self.connects.wait_until_ready().await.expect("the writer lives as long as `run`");
        self.parts.synced().await;
        if let Some(gateway) = &self.gateway {
            gateway.synced().await;
        }
    }

    /// Brings one SparkConnect a step further. Returns the time until the next reconcile if nothing changes before; none to
    /// wait for a change.
    async fn reconcile(&self, connect: &SparkConnect, now: Timestamp) -> Result<Option<Duration>, Error> {
        let (client, uid) = (&self.cluster.client, connect.uid().unwrap_or_default());
        let state = connect.state();
        Span::current().record("state", state.as_str());
        if connect.metadata.deletion_timestamp.is_some() {
            // Kubernetes deletes what belongs to it, because it is the owner.
            self.forget(connect);
            return Ok(None);
        }
        if self.memory.have_newer(connect) {
            debug!("the cache has not seen our last write yet");
            return Ok(Some(FRESH_FACTS));
        }

        let policy = Policy { gateway: self.gateway.as_ref().map(KnownGateway::now), ..self.policy.clone() };
        let mut seen = self.observe(connect, now).await?;
        let mut plan = connect::next(connect, &seen.facts, now, &policy);
        if self.look_for(connect, &plan.wanted, &mut seen).await? {
            plan = connect::next(connect, &seen.facts, now, &policy);
        }
        if !seen.left.is_empty() {
            for (key, of_object) in seen.left {
                info!(object = %key, "deleted: a SparkConnect of this name has left it");
                self.delete(connect, &key, &only(Some(of_object))).await?;
            }
            return Ok(Some(FRESH_FACTS));
        }
        let Plan { actions, wanted, status, events, mut wake } = plan;
        let is_about_server =
            |action: &Action| matches!(action, Action::CreateServer(_) | Action::DeleteServer { .. });
        // A decision on a stale copy may end sessions, or start a server that nobody wants any more.
        if actions.iter().any(is_about_server)
            && !calls::is_current(client, connect, "GET of the SparkConnect").await?
        {
            return Ok(Some(FRESH_FACTS));
        }
        // A server that starts needs its ConfigMap.
        let is_creation = |action: &Action| matches!(action, Action::CreateServer(_));
        let (creations, others): (Vec<_>, Vec<_>) = actions.into_iter().partition(is_creation);
        for action in others {
            self.execute(connect, action).await?;
        }
        self.apply(connect, wanted, &seen.versions, now).await?;
        for action in creations {
            self.execute(connect, action).await?;
        }
        if connect.status.clone().unwrap_or_default() != status {
            self.memory.begin_write(&uid);
            let written = status::write(client, connect, &connect.status, &status).await;
            let is_outdated = self.memory.end_write(&uid, written.as_ref().ok());
            written?;
            if status.state != state {
                info!(from = state.as_str(), to = status.state.as_str(), "state changed");
            }
            // What follows from the new status is decided when the watches have reported what was made.
            let next = if is_outdated { Duration::ZERO } else { FRESH_FACTS };
            wake = Some(wake.map_or(next, |wake| wake.min(next)));
        }
        // Each version of the status is decided on once, and each event tells of a change of it.
        let occasion = connect.resource_version().unwrap_or_default();
        for event in &events {
            self.cluster.events.send(connect, &occasion, event, now).await;
        }
        self.memory.with(&uid, |note| note.failures = 0);
        Ok(wake)
    }

    /// Gives access to what is remembered of a SparkConnect.
    fn known<T>(&self, uid: &str, with: impl FnOnce(&mut Known) -> T) -> T {
        with(self.known.lock().entry(uid.to_owned()).or_default())
    }

    /// Queues the SparkConnect that the watch has reported. Once it has listed all, queues all of them, and forgets what is
    /// remembered of others: the watch does not report those that were deleted while no watch was running.
    fn take_note(&self, event: &watcher::Event<Watched>) {
        match event {
            watcher::Event::Init => return self.memory.list_begins(),
            // The cache has it once the list is complete.
            watcher::Event::InitApply(_) => return,
            watcher::Event::InitDone => {
                let connects = self.connects.state();
                let uids = connects.iter().filter_map(|connect| connect.uid()).collect();
                self.memory.list_ends(&uids);
                self.known.lock().retain(|uid, _| uids.contains(uid));
                if let Some(gateway) = &self.gateway {
                    gateway.forget_others(&uids);
                }
                self.queue.add_all(&self.connects);
            }
            watcher::Event::Apply(connect) => {
                if !self.memory.is_echo(connect) {
                    self.queue.add(&ObjectRef::from_obj(connect));
                }
            }
            watcher::Event::Delete(connect) => self.queue.add(&ObjectRef::from_obj(connect)),
        }
        if let Some(gateway) = &self.gateway {
            gateway.news.notify_one();
        }
    }

    fn forget(&self, connect: &impl ResourceExt) {
        let uid = connect.uid().unwrap_or_default();
        self.memory.forget(&uid);
        self.known.lock().remove(&uid);
        if let Some(gateway) = &self.gateway {
            gateway.forget(&uid);
        }
    }
}
