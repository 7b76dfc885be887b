//! Determines which applications this operator drives: those in the namespaces that the admin has chosen by
//! `--namespaces` or `--namespace-selector`. Which namespaces have the selected labels may change at any time.

use super::watch::Watching;
use api::Lenient;
use futures::{Stream, StreamExt, future};
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, core::PartialObjectMeta, runtime::watcher};
use parking_lot::RwLock;
use plan::namespaces::{Labels, Namespaces};
use std::{collections::BTreeMap, mem, sync::Arc};
use tokio::sync::watch as state;
use tracing::{info, warn};

/// The namespaces in which this operator drives applications.
pub(super) struct OurNamespaces {
    chosen: Namespaces,
    /// The labels of every namespace; empty if no namespace is chosen by its labels.
    labels: RwLock<BTreeMap<String, Labels>>,
    synced: state::Sender<bool>,
}

impl OurNamespaces {
    pub(super) fn new(chosen: Namespaces) -> Self {
        let synced = state::Sender::new(!chosen.depends_on_labels());
        Self { chosen, labels: RwLock::default(), synced }
    }

    /// Whether the namespace `name` is chosen.
    pub(super) fn include(&self, name: &str) -> bool {
        let labels = || self.labels.read().get(name).cloned();
        self.chosen.include(name, labels)
    }

    /// Waits until the labels of all namespaces are known, if namespaces are chosen by labels.
    pub(super) async fn synced(&self) {
        // The sender lives as long as `self`, so this wait cannot fail.
        drop(self.synced.subscribe().wait_for(|synced| *synced).await);
    }

    /// Watches the labels of namespaces, if namespaces are chosen by labels; yields the namespaces that have become
    /// chosen, or are not chosen any more.
    pub(super) fn follow(self: Arc<Self>, watching: &Watching) -> impl Stream<Item = String> + Send + use<> {
        if !self.chosen.depends_on_labels() {
            return futures::stream::pending().left_stream();
        }
        let mut listed = BTreeMap::new();
        watching
            .of_cluster()
            .filter_map(|event| {
                future::ready(
                    event.inspect_err(|error| warn!(%error, "the watch of namespaces is retried")).ok(),
                )
            })
            .flat_map(move |event| futures::stream::iter(self.apply(event, &mut listed)))
            .right_stream()
    }

    /// Applies one event of the watch; `listed` collects a list that is not complete yet. Returns the namespaces that
    /// have become chosen, or are not chosen any more.
    fn apply(
        &self,
        event: watcher::Event<Lenient<PartialObjectMeta<Namespace>>>,
        listed: &mut BTreeMap<String, Labels>,
    ) -> Vec<String> {
        let mut labels = self.labels.write();
        let before = match event {
            watcher::Event::Init => {
                listed.clear();
                return Vec::new();
            }
            watcher::Event::InitApply(namespace) => {
                listed.insert(namespace.name_any(), namespace.labels().clone());
                return Vec::new();
            }
            watcher::Event::InitDone => {
                self.synced.send_replace(true);
                mem::replace(&mut *labels, mem::take(listed))
            }
            watcher::Event::Apply(namespace) => {
                let before = labels.clone();
                labels.insert(namespace.name_any(), namespace.labels().clone());
                before
            }
            watcher::Event::Delete(namespace) => {
                let before = labels.clone();
                labels.remove(&namespace.name_any());
                before
            }
        };
        let is_ours =
            |of: &BTreeMap<String, Labels>, name: &str| self.chosen.include(name, || of.get(name).cloned());
        let names = before.keys().chain(labels.keys().filter(|name| !before.contains_key(*name)));
        let changed: Vec<_> =
            names.filter(|name| is_ours(&before, name) != is_ours(&labels, name)).cloned().collect();
        for namespace in &changed {
            info!(namespace, is_ours = is_ours(&labels, namespace), "namespace has changed its labels");
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};
    use watcher::Event;

    #[tokio::test]
    async fn a_namespace_that_gains_or_loses_the_label_is_named() {
        let namespace = |name: &str, team: &str| -> Lenient<PartialObjectMeta<Namespace>> {
            from_value(json!({"metadata": {"name": name, "labels": {"team": team}}})).unwrap()
        };
        let chosen = Namespaces::new(["always".to_owned()], Some("team=data".parse().unwrap()));
        let ours = OurNamespaces::new(chosen);
        let mut listed = BTreeMap::new();
        let mut apply = |event| ours.apply(event, &mut listed);
        assert!(!*ours.synced.borrow());
        assert!(apply(Event::Init).is_empty());
        assert!(apply(Event::InitApply(namespace("a", "data"))).is_empty());
        assert!(apply(Event::InitApply(namespace("b", "web"))).is_empty());
        assert_eq!(apply(Event::InitDone), ["a"]);
        assert!(*ours.synced.borrow());
        assert_eq!(["a", "b", "c", "always"].map(|name| ours.include(name)), [true, false, false, true]);

        assert_eq!(apply(Event::Apply(namespace("b", "data"))), ["b"]);
        assert!(apply(Event::Apply(namespace("b", "data"))).is_empty());
        assert!(apply(Event::Apply(namespace("always", "web"))).is_empty());
        assert_eq!(apply(Event::Apply(namespace("a", "web"))), ["a"]);
        assert_eq!(apply(Event::Delete(namespace("b", "data"))), ["b"]);
        assert!(apply(Event::Init).is_empty() && apply(Event::InitApply(namespace("c", "data"))).is_empty());
        assert_eq!(apply(Event::InitDone), ["c"]);
    }
}
