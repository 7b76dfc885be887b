//! Drives servers of Spark Connect in the same way as applications: watches SparkConnects and their objects, observes
//! the facts, decides what to do, acts, and records the result.

mod execute;
mod gateway;
mod index;
mod observe;
mod reconcile;

use super::{
    Cluster, ServerTime, Setup,
    kept::{Kept, KeptConnect},
    source::{self, Source},
};
use api::SparkConnect;
use connect::Policy;
use futures::{StreamExt, future};
pub use gateway::GatewaySetup;
use gateway::KnownGateway;
use index::ConnectIndex;
use kube::runtime::{
    reflector::{Store, store::Writer},
    watcher::Event,
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A SparkConnect as the watch delivers it.
type Watched = Kept<SparkConnect, KeptConnect>;

/// The settings for SparkConnects.
#[derive(Clone, Debug)]
pub struct ConnectSetup {
    /// The admin's settings; those about the gateway are in [`Self::gateway`].
    pub policy: Policy,
    /// The operator's gateway, if it has one.
    pub gateway: Option<GatewaySetup>,
}

/// Everything that the reconcile loop of SparkConnects uses and remembers.
pub(super) struct Context {
    pub source: Source<SparkConnect, KeptConnect>,
    policy: Policy,
    gateway: Option<KnownGateway>,
    parts: ConnectIndex,
    server_time: ServerTime,
}

/// Runs the reconcile loop of SparkConnects until `stop` is cancelled; `writer` fills the cache of [`Context::source`].
pub(super) async fn run(context: Arc<Context>, writer: Writer<Watched>, stop: CancellationToken) {
    let Source { cluster, queue, .. } = &context.source;
    let parts = context.parts.follow(&cluster.watching);
    let follow_parts = parts.for_each(async |(namespace, name)| queue.push(&namespace, &name));
    let keep_gateway = async {
        let Some(gateway) = &context.gateway else { return future::pending().await };
        let follow = gateway.follow(&context.source);
        let access = context.policy.default_access;
        future::join(follow, gateway.keep_policy(&context.source, access)).await;
    };
    let work = async {
        if stop.run_until_cancelled(context.synced()).await.is_some() {
            source::work(&context, &stop).await;
        }
    };
    tokio::select! {
        () = work => {}
        () = context.source.follow(writer, |event| context.on_event(event)) => {}
        () = follow_parts => {}
        () = keep_gateway => {}
    }
}

impl Context {
    pub(super) fn new(
        cluster: Cluster,
        setup: &Setup,
        connect: ConnectSetup,
        connects: Store<Watched>,
    ) -> Self {
        Self {
            source: Source::new(cluster, &setup.workloads.connects, connects),
            parts: ConnectIndex::new(connect.policy.exposure.url_format.is_some()),
            policy: connect.policy,
            gateway: connect.gateway.map(KnownGateway::new),
            server_time: Arc::clone(&setup.server_time),
        }
    }

    /// Waits until the caches are complete.
    async fn synced(&self) {
        self.source.cache.wait_until_ready().await.expect("the writer lives as long as `run`");
        self.parts.synced().await;
        if let Some(gateway) = &self.gateway {
            gateway.synced().await;
        }
    }

    /// Wakes the task that keeps the NetworkPolicy of the gateway, if SparkConnects have changed.
    fn on_event(&self, event: &Event<Watched>) {
        if !matches!(event, Event::Init | Event::InitApply(_))
            && let Some(gateway) = &self.gateway
        {
            gateway.news.notify_one();
        }
    }
}
