//! Lists and watches objects that any user of the cluster may have written: lists arrive in pages that fit into memory,
//! and each object is decoded separately. An object that cannot be read is logged, counted and, if no reconcile handles
//! its kind, reported by an event. Such an object does not delay the others.

use super::{Context, calls::PAGE, events::reference, namespaced_watches::merged};
use futures::{Stream, StreamExt, TryStreamExt, future};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::NamespaceScope,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use plan::namespaces::Namespaces;
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, sync::Arc};
use tokio::sync::Semaphore;
use tracing::warn;
use watches::{Watches, page_by_page};

/// An object that a watch reports, or the part of it that is kept.
pub(super) trait Readable:
    Resource<DynamicType: Clone> + Clone + Debug + DeserializeOwned + Send + 'static
{
    /// Why the object cannot be read, if it cannot.
    fn error(&self) -> Option<&str>;
}

/// The settings and records that all watches share: the namespaces, the duration of a request, the metric that counts
/// objects that cannot be read, and the list of the watches that exist.
#[derive(Clone)]
pub struct Watching {
    client: Client,
    /// The namespaces that the admin has chosen.
    pub(super) namespaces: Namespaces,
    /// The maximum duration of one watch request in seconds; the next request continues where it ended.
    seconds: u32,
    unreadable: Family<[(&'static str, String); 1], Counter>,
    /// Sends an event about each unreadable object, if no reconcile does.
    reports: Option<Arc<Context>>,
    watches: Watches,
    /// The permit to have a page of a list in memory, which all watches of the process share.
    page: Arc<Semaphore>,
}

impl Watching {
    /// Creates the metric in `registry`; each watch is recorded in `watches`. One request watches for at most `seconds`, and
    /// the next one continues where it ended.
    pub fn new(
        client: Client,
        namespaces: Namespaces,
        seconds: u32,
        watches: Watches,
        registry: &mut Registry,
    ) -> Self {
        let unreadable = Family::default();
        let help = "Objects in lists and watches that cannot be read, by kind";
        registry.register("spark_operator_unreadable_objects", help, unreadable.clone());
        let page = Arc::new(Semaphore::new(1));
        Self { client, namespaces, seconds, unreadable, reports: None, watches, page }
    }

    /// Returns a clone that also sends an event about each unreadable object.
    pub(super) fn reporting_to(&self, context: &Arc<Context>) -> Self {
        Self { reports: Some(Arc::clone(context)), ..self.clone() }
    }

    /// Yields all objects of the kind `of` that match the label selector `selector` in the namespaces that the operator
    /// may watch, then each change; never ends. If the namespaces are chosen by their names, the operator has
    /// permissions only in these namespaces, and watches each of them separately. Otherwise one watch covers all
    /// namespaces, and the caller ignores the namespaces that are not chosen.
    pub(super) fn events<O: Readable + Resource<Scope: NamespaceScope>>(
        &self,
        of: &O::DynamicType,
        selector: Option<&str>,
    ) -> impl Stream<Item = watcher::Result<Event<O>>> + Send + use<O> {
        let Some(named) = self.namespaces.named().cloned() else {
            return self.of_cluster(of, selector).left_stream();
        };
        let (watching, of, selector) = (self.clone(), of.clone(), selector.map(str::to_owned));
        let watch =
            move |namespace: &str| watching.of_namespace::<O>(namespace, &of, selector.as_deref()).boxed();
        merged(named, watch).right_stream()
    }

    /// Yields the same as [`Self::events`], without the failures, which it logs.
    pub(super) fn changes<O: Readable + Resource<Scope: NamespaceScope>>(
        &self,
        of: &O::DynamicType,
        selector: Option<&str>,
    ) -> impl Stream<Item = Event<O>> + Send + use<O> {
        let kind = O::kind(of).into_owned();
        self.events(of, selector).filter_map(move |event| {
            future::ready(event.inspect_err(|error| warn!(kind, %error, "the watch is retried")).ok())
        })
    }

    /// Like [`Self::events`], in the whole cluster.
    pub(super) fn of_cluster<O: Readable>(
        &self,
        of: &O::DynamicType,
        selector: Option<&str>,
    ) -> impl Stream<Item = watcher::Result<Event<O>>> + Send + use<O> {
        self.followed(Api::all_with(self.client::<O>(of, None), of), of, selector)
    }

    /// Like [`Self::events`], in `namespace`.
    pub(super) fn of_namespace<O: Readable + Resource<Scope: NamespaceScope>>(
        &self,
        namespace: &str,
        of: &O::DynamicType,
        selector: Option<&str>,
    ) -> impl Stream<Item = watcher::Result<Event<O>>> + Send + use<O> {
        let api = Api::<O>::all_with(self.client::<O>(of, Some(namespace)), of).constrain(namespace);
        self.followed(api, of, selector)
    }

    /// Returns the client of a watch of a kind in `namespace`, or in all namespaces: see [`Watches::begin`].
    fn client<K: Resource>(&self, of: &K::DynamicType, namespace: Option<&str>) -> Client {
        self.watches.begin(&self.client, K::url_path(of, namespace))
    }

    fn followed<O: Readable>(
        &self,
        api: Api<O>,
        of: &O::DynamicType,
        selector: Option<&str>,
    ) -> impl Stream<Item = watcher::Result<Event<O>>> + Send + use<O> {
        let config =
            watcher::Config { label_selector: selector.map(str::to_owned), ..watcher::Config::default() };
        let config = config.page_size(PAGE).timeout(self.seconds);
        let (watching, of) = (self.clone(), of.clone());
        let watch = page_by_page(watcher(api, config), Arc::clone(&self.page));
        watch.default_backoff().inspect_ok(move |event| {
            if let Event::Apply(object) | Event::InitApply(object) = event
                && let Some(error) = object.error()
            {
                watching.unreadable(object, &of, error);
            }
        })
    }

    fn unreadable<O: Readable>(&self, object: &O, of: &O::DynamicType, error: &str) {
        let kind = O::kind(of).into_owned();
        warn!(kind, namespace = object.namespace(), name = object.name_any(), error, "object cannot be read");
        self.unreadable.get_or_create(&[("kind", kind)]).inc();
        if let Some(reports) = &self.reports {
            reports.report(reference(object, of), error);
        }
    }
}
