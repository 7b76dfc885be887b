//! Sends events about objects that a watch could not read and that no reconcile reports: pods, Services and Ingresses.

use super::{events::Events, now};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;

/// How many objects may wait for their events. If a hostile user creates more unreadable objects, they are only logged.
const WAITING: usize = 64;

/// An object that cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub object: ObjectReference,
    pub error: String,
}

/// Returns the channel on which watches report unreadable objects.
pub(super) fn reports() -> (mpsc::Sender<Unreadable>, mpsc::Receiver<Unreadable>) {
    mpsc::channel(WAITING)
}

/// Sends an event about each reported object in a namespace of this operator (`is_ours`), until the senders of reports
/// are gone.
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
