//! Determines which applications this operator drives: those in the namespaces that the admin has chosen by
//! `--namespaces` or `--namespace-selector`. Which namespaces have the selected labels may change at any time.

use super::watch::Watching;
use api::Lenient;
use futures::{Stream, StreamExt, future};
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, core::PartialObjectMeta, runtime::watcher};
use parking_lot::RwLock;
use plan::namespaces::Namespaces;
use std::{collections::BTreeSet, mem, sync::Arc};
use tokio::sync::SetOnce;
use tracing::{info, warn};

/// The namespaces in which this operator drives applications.
pub(super) struct OurNamespaces {
    chosen: Namespaces,
    /// The namespaces that are chosen by their labels, and not by their names.
    labelled: RwLock<BTreeSet<String>>,
    synced: SetOnce<()>,
}

impl OurNamespaces {
    pub(super) fn new(chosen: Namespaces) -> Self {
        let synced = SetOnce::new_with((!chosen.depends_on_labels()).then_some(()));
        Self { chosen, labelled: RwLock::default(), synced }
    }

    /// Whether the namespace `name` is chosen.
    pub(super) fn include(&self, name: &str) -> bool {
        self.chosen.include(name, || None) || self.labelled.read().contains(name)
    }

    /// Waits until the labels of all namespaces are known, if namespaces are chosen by labels.
    pub(super) async fn synced(&self) {
        self.synced.wait().await;
    }

    /// Watches the labels of namespaces, if namespaces are chosen by labels; yields the namespaces that have become
    /// chosen, or are not chosen any more.
    pub(super) fn follow(self: Arc<Self>, watching: &Watching) -> impl Stream<Item = String> + Send + use<> {
        if !self.chosen.depends_on_labels() {
            return futures::stream::pending().left_stream();
        }
        let mut listed = BTreeSet::new();
        watching
            .of_cluster(&(), None)
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
        listed: &mut BTreeSet<String>,
    ) -> Vec<String> {
        let is_labelled = |namespace: &Lenient<PartialObjectMeta<Namespace>>| {
            let name = namespace.name_any();
            let labels = || Some(namespace.labels().clone());
            !self.chosen.include(&name, || None) && self.chosen.include(&name, labels)
        };
        let mut labelled = self.labelled.write();
        let before = labelled.clone();
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(namespace) => {
                listed.extend(is_labelled(&namespace).then(|| namespace.name_any()));
            }
            watcher::Event::InitDone => {
                *labelled = mem::take(listed);
                // Later lists are no news.
                self.synced.set(()).ok();
            }
            watcher::Event::Apply(namespace) if is_labelled(&namespace) => {
                labelled.insert(namespace.name_any());
            }
            watcher::Event::Apply(namespace) | watcher::Event::Delete(namespace) => {
                labelled.remove(&namespace.name_any());
            }
        }
        let changed: Vec<_> = before.symmetric_difference(&labelled).cloned().collect();
        for namespace in &changed {
            info!(namespace, is_ours = labelled.contains(namespace), "namespace has changed its labels");
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::namespaces::selector;
    use serde_json::{from_value, json};
    use watcher::Event;

    #[tokio::test]
    async fn a_namespace_that_gains_or_loses_the_label_is_named() {
        let namespace = |name: &str, team: &str| -> Lenient<PartialObjectMeta<Namespace>> {
            from_value(json!({"metadata": {"name": name, "labels": {"team": team}}})).unwrap()
        };
        let chosen = Namespaces::new(["always".to_owned()], Some(selector("team=data").unwrap()));
        let ours = OurNamespaces::new(chosen);
        let mut listed = BTreeSet::new();
        let mut apply = |event| ours.apply(event, &mut listed);
        assert!(!ours.synced.initialized());
        assert!(apply(Event::Init).is_empty());
        assert!(apply(Event::InitApply(namespace("a", "data"))).is_empty());
        assert!(apply(Event::InitApply(namespace("b", "web"))).is_empty());
        assert_eq!(apply(Event::InitDone), ["a"]);
        assert!(ours.synced.initialized());
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
