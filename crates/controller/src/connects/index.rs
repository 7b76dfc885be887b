//! Caches the pods and the other objects of SparkConnects, by SparkConnect. One watch of each kind updates the cache.

use super::super::{
    Key,
    application_index::ApplicationIndex,
    kept::{Keep, Kept},
    key,
    watch::Watching,
};
use api::{Lenient, ObjectKind, Role, SparkConnect, names::label};
use connect::ServerPod;
use futures::{Stream, StreamExt, stream};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, core::PartialObjectMeta, runtime::watcher::Event};
use pods::PodSummary;
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

/// The kind of servers and executors.
pub(super) const POD: ObjectKind = ObjectKind::new("v1", "Pod");

/// The part of a pod, or of another object of a SparkConnect, that is kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    /// The label `sparkoperator.k8s.io/connect-name`.
    connect: Option<String>,
    /// The resourceVersion; empty for a pod, of which not all changes matter.
    pub version: String,
    /// The pod; for another object, its metadata in the form of a pod.
    pub pod: ServerPod,
    /// Whether it is a Service with a selector.
    pub has_selector: bool,
}

impl Part {
    pub(super) fn of_metadata(meta: &ObjectMeta) -> Self {
        Self {
            connect: meta.labels.as_ref().and_then(|labels| labels.get(label::CONNECT_NAME).cloned()),
            version: meta.resource_version.clone().unwrap_or_default(),
            pod: ServerPod::of(&Pod { metadata: meta.clone(), ..Pod::default() }),
            has_selector: false,
        }
    }
}

impl Keep<Pod> for Part {
    /// A pod that cannot be read has a record without its state.
    fn of(pod: &Lenient<Pod>, _: &str) -> Self {
        let mut part = Self { version: String::new(), ..Self::of_metadata(pod.meta()) };
        if let Ok(read) = &pod.0 {
            part.pod = ServerPod::of(read);
        }
        // Of an executor only the phase matters: other changes of it cause no reconcile.
        if part.pod.summary.role == Some(Role::Executor) {
            let PodSummary { name, uid, role, controller, phase, .. } = part.pod.summary;
            let summary = PodSummary { name, uid, role, controller, phase, ..PodSummary::default() };
            part.pod = ServerPod { summary, ..ServerPod::default() };
        }
        part
    }
}

impl Keep<PartialObjectMeta> for Part {
    fn of(object: &Lenient<PartialObjectMeta>, text: &str) -> Self {
        let whole: Value = serde_json::from_str(text).unwrap_or_default();
        Self { has_selector: whole["spec"]["selector"].is_object(), ..Self::of_metadata(object.meta()) }
    }
}

/// The pods and objects of all SparkConnects that the API server has reported.
pub(super) struct ConnectIndex(Vec<Arc<Kind>>);

/// All parts of one kind.
struct Kind {
    kind: ObjectKind,
    parts: ApplicationIndex<Part>,
}

impl ConnectIndex {
    /// Creates an index of all kinds; of Ingresses only if servers may have some.
    pub(super) fn new(has_ingresses: bool) -> Self {
        let kind = |kind| Arc::new(Kind { kind, parts: ApplicationIndex::default() });
        let kinds = [
            POD,
            ObjectKind::CONFIG_MAP,
            ObjectKind::ENDPOINT_SLICE,
            ObjectKind::NETWORK_POLICY,
            ObjectKind::SERVICE,
        ];
        Self(kinds.into_iter().chain(has_ingresses.then_some(ObjectKind::INGRESS)).map(kind).collect())
    }

    /// Waits until everything that existed at the start is known.
    pub(super) async fn synced(&self) {
        for kind in &self.0 {
            kind.parts.synced().await;
        }
    }

    /// Returns the pods and objects whose label names this SparkConnect, also pods that do not belong to it.
    pub(super) fn of(&self, namespace: &str, connect: &str) -> Vec<(ObjectKind, Part)> {
        let key = (namespace.to_owned(), connect.to_owned());
        let parts = |kind: &Arc<Kind>| {
            let parts = kind.parts.of(&key).into_values();
            parts.map(|part| (kind.kind.clone(), part)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(parts).collect()
    }

    /// Follows all kinds; yields namespace and name of each SparkConnect of which an object has changed.
    pub(super) fn follow(&self, watching: &Watching) -> impl Stream<Item = Key> + Send + use<> {
        let selector = Some(label::CONNECT_NAME);
        stream::select_all(self.0.iter().map(|kind| {
            let of = Arc::clone(kind);
            if kind.kind == POD {
                let events = watching.changes::<Kept<Pod, Part>>(&(), selector);
                events.flat_map(move |event| stream::iter(of.apply(event))).boxed()
            } else {
                let events =
                    watching.changes::<Kept<PartialObjectMeta, Part>>(&kind.kind.resource(), selector);
                events.flat_map(move |event| stream::iter(of.apply(event))).boxed()
            }
        }))
    }
}

impl Kind {
    /// Applies one event of the watch. Returns the SparkConnects of which an object has changed. An object other than a
    /// pod is kept only if a SparkConnect controls it: `Context::look_for` looks up the names of all objects before
    /// anything is created.
    fn apply<K: Resource>(&self, event: Event<Kept<K, Part>>) -> BTreeSet<Key> {
        let keyed = |object: Kept<K, Part>| {
            let namespace = object.meta().namespace.clone()?;
            let (part, kind) = (object.kept, SparkConnect::kind(&()));
            let controller = part.pod.summary.controller.as_ref();
            let belongs = self.kind == POD || controller.is_some_and(|owner| owner.kind == kind);
            Some(((namespace, part.connect.clone().filter(|_| belongs)?), part))
        };
        self.parts.apply(event, key, keyed, |part| &part.pod.summary.uid, |_, _| {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn metadata(owner: &str) -> Value {
        json!({
            "name": "pi-server", "namespace": "team-a", "uid": "u", "resourceVersion": "7",
            "labels": {"sparkoperator.k8s.io/connect-name": "pi", "spark-role": "executor"},
            "ownerReferences": [{"apiVersion": "v1", "kind": owner, "name": "pi", "uid": "c", "controller": true}],
        })
    }

    #[test]
    fn the_selector_of_a_service_is_kept_and_foreign_objects_are_not() {
        let index = ConnectIndex::new(false);
        let services = &index.0[4];
        let object = |owner: &str, spec: Value| -> Kept<PartialObjectMeta, Part> {
            serde_json::from_str(&json!({"metadata": metadata(owner), "spec": spec}).to_string()).unwrap()
        };
        let changed = services.apply(Event::Apply(object("SparkConnect", json!({"selector": {"a": "b"}}))));
        assert_eq!(changed, BTreeSet::from([("team-a".to_owned(), "pi".to_owned())]));
        let found = index.of("team-a", "pi");
        assert!(matches!(&found[..], [(kind, part)] if *kind == ObjectKind::SERVICE && part.has_selector));
        services.apply(Event::Apply(object("SparkConnect", json!({"ports": []}))));
        assert!(!index.of("team-a", "pi")[0].1.has_selector);
        let foreign = object("SparkApplication", Value::Null);
        assert_eq!(services.apply(Event::Apply(foreign)).len(), 1, "the SparkConnect has lost its object");
        assert!(index.of("team-a", "pi").is_empty());
    }

    #[test]
    fn an_executor_update_without_a_phase_change_causes_no_reconcile() {
        let index = ConnectIndex::new(false);
        let executor = |phase: &str, reason: &str| -> Kept<Pod, Part> {
            let status = json!({"phase": phase, "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": reason},
            ]});
            from_value(json!({"metadata": metadata("Pod"), "status": status})).unwrap()
        };
        for (phase, reason, expected) in
            [("Pending", "Unschedulable", 1), ("Pending", "SchedulerError", 0), ("Running", "", 1)]
        {
            let changed = index.0[0].apply(Event::Apply(executor(phase, reason))).len();
            assert_eq!(changed, expected, "{phase} {reason}");
        }
    }
}
