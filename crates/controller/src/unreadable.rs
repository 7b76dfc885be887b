//! Sends events about objects that a watch could not read and that no reconcile reports: pods, Services and Ingresses.

use super::{events::Events, now};
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;
use work::Lines;

/// How many objects of a namespace may wait for their events. If a hostile user creates more unreadable objects, they are
/// only logged.
const WAITING: usize = 16;

/// The objects that could not be read and wait for their events; the namespaces take turns.
#[derive(Debug, Default)]
pub(super) struct UnreadableObjects {
    waiting: Mutex<Lines<String, VecDeque<(ObjectReference, String)>>>,
    news: Notify,
}

impl UnreadableObjects {
    /// Reports an object and why it cannot be read.
    pub(super) fn report(&self, object: ObjectReference, error: &str) {
        let namespace = object.namespace.clone().unwrap_or_default();
        let mut waiting = self.waiting.lock();
        if waiting.waiting_in(&namespace) < WAITING {
            waiting.line(&namespace).push_back((object, error.to_owned()));
            self.news.notify_one();
        }
    }

    /// Sends an event about each reported object in a namespace of this operator (`is_ours`); never ends.
    pub(super) async fn send_events(&self, events: &Events, is_ours: impl Fn(&str) -> bool) {
        loop {
            let next = self.waiting.lock().take_if(|_| true);
            match next {
                Some((namespace, (object, error))) => {
                    if is_ours(&namespace) {
                        events.unreadable(object, &error, now()).await;
                    }
                }
                None => self.news.notified().await,
            }
        }
    }
}
