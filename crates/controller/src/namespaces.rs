//! Determines which applications this operator drives: those in the namespaces that the admin has chosen by
//! `--namespaces` or `--namespace-selector`. Which namespaces have the selected labels may change at any time.

use super::{
    application_index::ApplicationIndex,
    key,
    watch::{Readable, Watching},
};
use api::Lenient;
use futures::{Stream, StreamExt, future, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, core::PartialObjectMeta, runtime::watcher::Event};
use plan::namespaces::Namespaces;
use std::sync::Arc;
use tracing::{info, warn};

/// The namespaces in which this operator drives applications.
pub(super) struct OurNamespaces {
    chosen: Namespaces,
    /// The namespaces that are chosen by their labels and not by their names, each under its own name.
    labelled: ApplicationIndex<()>,
}

impl Readable for Lenient<PartialObjectMeta<Namespace>> {
    fn error(&self) -> Option<&str> {
        self.0.as_ref().err().map(|invalid| &*invalid.error)
    }
}

impl OurNamespaces {
    pub(super) fn new(chosen: Namespaces) -> Self {
        Self { chosen, labelled: ApplicationIndex::default() }
    }

    /// Whether the namespace `name` is chosen.
    pub(super) fn include(&self, name: &str) -> bool {
        self.chosen.include(name, || None) || !self.labelled.of(&(String::new(), name.to_owned())).is_empty()
    }

    /// Waits until the labels of all namespaces are known, if namespaces are chosen by labels.
    pub(super) async fn synced(&self) {
        if self.chosen.depends_on_labels() {
            self.labelled.synced().await;
        }
    }

    /// Watches the labels of namespaces, if namespaces are chosen by labels; yields the namespaces that have become
    /// chosen, or are not chosen any more.
    pub(super) fn follow(self: Arc<Self>, watching: &Watching) -> impl Stream<Item = String> + Send + use<> {
        if !self.chosen.depends_on_labels() {
            return stream::pending().left_stream();
        }
        watching
            .of_cluster(&(), None)
            .filter_map(|event| {
                future::ready(
                    event.inspect_err(|error| warn!(%error, "the watch of namespaces is retried")).ok(),
                )
            })
            .flat_map(move |event| stream::iter(self.apply(event)))
            .right_stream()
    }

    /// Applies one event of the watch. Returns the namespaces that have become chosen, or are not chosen any more.
    fn apply(&self, event: Event<Lenient<PartialObjectMeta<Namespace>>>) -> Vec<String> {
        let labelled = |namespace: Lenient<PartialObjectMeta<Namespace>>| {
            let (name, labels) = (namespace.name_any(), || Some(namespace.labels().clone()));
            let is_labelled = !self.chosen.include(&name, || None) && self.chosen.include(&name, labels);
            is_labelled.then(|| (key(&namespace), ()))
        };
        // Only the name of a namespace is kept, and a namespace that leaves the list needs nothing.
        let changed = self.labelled.apply(event, key, labelled, |()| "", |_, ()| {});
        let changed: Vec<_> = changed.into_iter().map(|(_, namespace)| namespace).collect();
        for namespace in &changed {
            info!(namespace, is_ours = self.include(namespace), "namespace has changed its labels");
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application_index::State;
    use plan::namespaces::selector;
    use serde_json::{from_value, json};

    #[tokio::test]
    async fn a_namespace_that_gains_or_loses_the_label_is_reported() {
        let namespace = |name: &str, team: &str| -> Lenient<PartialObjectMeta<Namespace>> {
            from_value(json!({"metadata": {"name": name, "labels": {"team": team}}})).unwrap()
        };
        let chosen = Namespaces::new(["always".to_owned()], Some(selector("team=data").unwrap()));
        let ours = OurNamespaces::new(chosen);
        let apply = |event| ours.apply(event);
        assert_eq!(*ours.labelled.state.borrow(), State::Begins);
        assert!(apply(Event::Init).is_empty());
        assert!(apply(Event::InitApply(namespace("a", "data"))).is_empty());
        assert!(apply(Event::InitApply(namespace("b", "web"))).is_empty());
        assert_eq!(apply(Event::InitDone), ["a"]);
        assert_eq!(*ours.labelled.state.borrow(), State::Known);
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
