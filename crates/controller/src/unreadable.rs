//! Sends events about objects that a watch could not read and that no reconcile reports: pods, Services and Ingresses.

use super::{Cluster, now};
use k8s_openapi::api::core::v1::ObjectReference;
use parking_lot::Mutex;
use plan::events::invalid;
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

    /// Sends an event about each reported object in a namespace of this operator; never ends.
    pub(super) async fn send_events(&self, cluster: &Cluster) {
        // Until then, a namespace that is chosen by its labels does not count as chosen.
        cluster.namespaces.synced().await;
        loop {
            match self.next() {
                Some((namespace, (object, error))) => {
                    if cluster.namespaces.include(&namespace) {
                        cluster.send_event_once(object, &invalid(&error), now()).await;
                    }
                }
                None => self.news.notified().await,
            }
        }
    }

    /// Takes the object whose event is the next, and returns it with its namespace.
    fn next(&self) -> Option<(String, (ObjectReference, String))> {
        self.waiting.lock().take_if(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_full_of_unreadable_objects_delays_another_ones_event_by_one() {
        let objects = UnreadableObjects::default();
        let report = |namespace: &str, name: String| {
            let reference = ObjectReference {
                namespace: Some(namespace.to_owned()),
                name: Some(name),
                ..ObjectReference::default()
            };
            objects.report(reference, "too many values");
        };
        for i in 0..1000 {
            report("team-a", format!("poison-{i}"));
        }
        report("team-b", "pod".to_owned());
        let order: Vec<_> = std::iter::from_fn(|| objects.next()).map(|(namespace, _)| namespace).collect();
        assert_eq!(order[..3], ["team-a", "team-b", "team-a"]);
        assert_eq!(order.len(), WAITING + 1);
    }
}
