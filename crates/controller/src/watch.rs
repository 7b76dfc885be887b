//! Lists and watches objects that any user of the cluster may have written: lists arrive in pages that fit into memory,
//! and each object is decoded separately. An object that cannot be read is logged, counted and, if no reconcile handles
//! its kind, reported by an event. Such an object does not delay the others.

use super::{events::reference, namespaced_watches::merged, unreadable::UnreadableObjects};
use api::Lenient;
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use plan::namespaces::Namespaces;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, sync::Arc};
use tracing::warn;
use watches::Watches;

/// How many objects the API server is asked for at once. An object has up to 1.5 MB, which is etcd's limit, and a page is
/// in memory as text: kube's default of 500 objects would be a single answer of 750 MB.
pub(super) const PAGE: u32 = 20;

/// An object that a watch reports, or what is kept of it.
pub(super) trait Readable:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
    /// Why the object cannot be read, if it cannot.
    fn error(&self) -> Option<&str>;
}

impl<K> Readable for Lenient<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    fn error(&self) -> Option<&str> {
        self.0.as_ref().err().map(|invalid| &*invalid.error)
    }
}

/// The parts that all watches share: the metric that counts objects that cannot be read, and the record of which watches
/// there are.
#[derive(Clone, Debug)]
pub struct Watching {
    unreadable: Family<OfKind, Counter>,
    reports: Option<Arc<UnreadableObjects>>,
    watches: Watches,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

impl Watching {
    /// Creates the metric in `registry`; each watch is recorded in `watches`.
    pub fn new(registry: &mut Registry, watches: Watches) -> Self {
        let unreadable = Family::default();
        let help = "Objects of which a list or a watch has told and that cannot be read, by kind";
        registry.register("spark_operator_unreadable_objects", help, unreadable.clone());
        Self { unreadable, reports: None, watches }
    }

    /// Returns the same, which also reports each unreadable object to `reports`.
    pub(super) fn reporting_to(&self, reports: Arc<UnreadableObjects>) -> Self {
        Self { reports: Some(reports), ..self.clone() }
    }

    /// Returns the client of a watch of a kind in `namespace`, or in all namespaces: see [`Watches::begin`].
    fn client<K: Resource<DynamicType = ()>>(&self, client: &Client, namespace: Option<&str>) -> Client {
        self.watches.begin(client, K::url_path(&(), namespace))
    }

    fn unreadable<O: Readable>(&self, object: &O, error: &str) {
        let kind = O::kind(&()).into_owned();
        warn!(kind, namespace = object.namespace(), name = object.name_any(), error, "object cannot be read");
        self.unreadable.get_or_create(&OfKind { kind }).inc();
        if let Some(reports) = &self.reports {
            reports.report(reference(object), error);
        }
    }
}

/// Returns the configuration of a watch of all objects; the caller may add selectors.
pub(super) fn config(watch_seconds: u32) -> watcher::Config {
    watcher::Config::default().page_size(PAGE).timeout(watch_seconds)
}

/// Yields all objects in the namespaces that the operator may watch, then each change; never ends. If the namespaces
/// are chosen by their names, the operator has permissions only in these namespaces, and watches each of them
/// separately. Otherwise one watch covers all namespaces, and the caller ignores the namespaces that are not chosen.
pub(super) fn events<O: Readable + Resource<Scope = NamespaceResourceScope>>(
    client: &Client,
    namespaces: &Namespaces,
    config: watcher::Config,
    watching: &Watching,
) -> impl Stream<Item = watcher::Result<Event<O>>> + Send + use<O> {
    let Some(named) = namespaces.named().cloned() else {
        return of_cluster(client, config, watching).left_stream();
    };
    let (client, watching) = (client.clone(), watching.clone());
    let watch = move |namespace: &str| {
        let api = Api::namespaced(watching.client::<O>(&client, Some(namespace)), namespace);
        followed(api, config.clone(), &watching).boxed()
    };
    merged(named, watch).right_stream()
}

/// Yields all objects in the cluster, then each change; never ends.
pub(super) fn of_cluster<O: Readable>(
    client: &Client,
    config: watcher::Config,
    watching: &Watching,
) -> impl Stream<Item = watcher::Result<Event<O>>> + Send + use<O> {
    followed(Api::all(watching.client::<O>(client, None)), config, watching)
}

fn followed<O: Readable>(
    api: Api<O>,
    config: watcher::Config,
    watching: &Watching,
) -> impl Stream<Item = watcher::Result<Event<O>>> + Send + use<O> {
    let watching = watching.clone();
    watcher(api, config).default_backoff().inspect_ok(move |event| {
        if let Event::Apply(object) | Event::InitApply(object) = event
            && let Some(error) = object.error()
        {
            watching.unreadable(object, error);
        }
    })
}

/// Whether a watch cannot begin because the kind or the namespace does not exist, or because the operator has no
/// permission to watch.
pub(super) fn is_missing(error: &watcher::Error) -> bool {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    };
    // The status code is compared, not the reason: for an API group that does not exist at all, the API server answers
    // 404 with a plain text instead of a reason.
    status.is_some_and(|status| matches!(status.code, 403 | 404))
}
