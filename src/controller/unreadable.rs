//! Reports objects that a watch could not read and that no reconcile handles: pods, Services and Ingresses.

use super::{events::Events, now};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;

/// How many objects may wait for their events. What a hostile user makes beyond that stands in the log alone.
const WAITING: usize = 64;

/// An object that cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub object: ObjectReference,
    pub error: String,
}

/// Where watches report such objects, and where they are read.
pub(super) fn reports() -> (mpsc::Sender<Unreadable>, mpsc::Receiver<Unreadable>) {
    mpsc::channel(WAITING)
}

/// Sends an event about each of them that is in a namespace of ours, until nobody reports any more.
pub(super) async fn send_events(
    mut reported: mpsc::Receiver<Unreadable>,
    events: &Events,
    is_ours: impl Fn(&str) -> bool,
) {
    while let Some(Unreadable { object, error }) = reported.recv().await {
        if is_ours(object.namespace.as_deref().unwrap_or_default()) {
            events.unreadable(object, &error, now()).await;
        }
    }
}
