//! Sends events to the API server as `events.k8s.io/v1`. The name of an event follows from its content, so an event
//! that is sent again after a crash is not stored twice.

use super::{Cluster, calls::Calls};
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::Resource;
use plan::events::Event;
use serde_json::json;
use submission::digest;
use tracing::warn;

/// `reportingController`: the name that Kubeflow's operator uses.
const CONTROLLER: &str = "spark-application-controller";

/// Returns the `regarding` field of an event about `object`, which has the kind `of`, with the resourceVersion of `object`.
pub(super) fn reference<K: Resource>(object: &K, of: &K::DynamicType) -> ObjectReference {
    ObjectReference { resource_version: object.meta().resource_version.clone(), ..object.object_ref(of) }
}

impl Cluster {
    /// Sends an event about `object`. Two events with the same content are stored separately only if they have
    /// different values of `occasion`: for example the run, or the object's version. A failure is only logged, because
    /// the handling of applications never depends on events.
    pub(super) async fn send_event<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        occasion: &str,
        event: &Event,
        now: Timestamp,
    ) {
        self.send_event_about(reference(object, &()), occasion, event, now).await;
    }

    /// Like [`Self::send_event`], about the object to which `regarding` refers.
    pub(super) async fn send_event_about(
        &self,
        regarding: ObjectReference,
        occasion: &str,
        event: &Event,
        now: Timestamp,
    ) {
        let namespace = regarding.namespace.as_deref().unwrap_or_default();
        let name = regarding.name.as_deref().unwrap_or_default();
        let uid = regarding.uid.as_deref().unwrap_or_default();
        let pod = event.pod.as_deref().unwrap_or_default();
        let said = [uid, occasion, event.reason, pod, &event.note];
        let related = |pod| json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": namespace});
        let object = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": format!("{name}.{}", digest::fingerprint(&said)), "namespace": namespace},
            "eventTime": MicroTime(now),
            // The severities have the names of Kubernetes.
            "type": format!("{:?}", event.severity),
            "reason": event.reason,
            "action": event.action,
            "note": event.note,
            "reportingController": CONTROLLER,
            "reportingInstance": self.instance,
            "related": event.pod.as_ref().map(related),
            "regarding": regarding,
        });
        match Calls::of::<v1::Event>(&self.client, namespace).create(object.to_string()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => warn!(reason = event.reason, %error, "event not sent"),
        }
    }

    /// Sends an event that is stored once for each version of `object`.
    pub(super) async fn send_event_once(&self, object: ObjectReference, event: &Event, now: Timestamp) {
        let occasion = object.resource_version.clone().unwrap_or_default();
        self.send_event_about(object, &occasion, event, now).await;
    }
}
