//! How do events reach the API server? As `events.k8s.io/v1`, each under a name that follows from what it
//! says, so that telling it again after a crash tells nothing twice.

use crate::{
    api::names::{GROUP, VERSION},
    plan::{
        digest,
        events::{Event, Severity},
    },
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tracing::warn;

/// `reportingController`: KF's name for it.
const CONTROLLER: &str = "spark-application-controller";

/// Whom an event is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regarding<'a> {
    pub metadata: &'a ObjectMeta,
    /// What tells this event from one of the same words at another time: the run, or the object's version.
    pub occasion: &'a str,
}

/// Sends events.
#[derive(Clone)]
pub(super) struct Events {
    client: Client,
    /// `reportingInstance`: the operator's pod.
    instance: String,
}

impl Events {
    pub(super) fn new(client: Client, instance: String) -> Self {
        Self { client, instance }
    }

    /// Sends `event`. A failure is logged and nothing more: what becomes of applications never depends on
    /// events.
    pub(super) async fn send(&self, regarding: Regarding<'_>, event: &Event, now: Timestamp) {
        let namespace = regarding.metadata.namespace.as_deref().unwrap_or_default();
        let events = Api::<v1::Event>::namespaced(self.client.clone(), namespace);
        match events.create(&PostParams::default(), &self.object(regarding, event, now)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => warn!(reason = event.reason, %error, "event not sent"),
        }
    }

    fn object(&self, regarding: Regarding<'_>, event: &Event, now: Timestamp) -> v1::Event {
        let ObjectMeta { name, namespace, uid, resource_version, .. } = regarding.metadata;
        let name = name.clone().unwrap_or_default();
        let pod = event.pod.as_deref().unwrap_or_default();
        let said = [uid.as_deref().unwrap_or_default(), regarding.occasion, event.reason, pod, &event.note];
        v1::Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{}", digest::fingerprint(&said))),
                namespace: namespace.clone(),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(match event.severity {
                Severity::Normal => "Normal".to_owned(),
                Severity::Warning => "Warning".to_owned(),
            }),
            reason: Some(event.reason.to_owned()),
            action: Some(event.action.to_owned()),
            note: Some(event.note.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            regarding: Some(ObjectReference {
                api_version: Some(format!("{GROUP}/{VERSION}")),
                kind: Some("SparkApplication".to_owned()),
                name: Some(name),
                namespace: namespace.clone(),
                uid: uid.clone(),
                resource_version: resource_version.clone(),
                ..ObjectReference::default()
            }),
            related: event.pod.as_ref().map(|pod| ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(pod.clone()),
                namespace: namespace.clone(),
                ..ObjectReference::default()
            }),
            ..v1::Event::default()
        }
    }
}
