//! Sends events about objects that a watch could not read and that no reconcile reports: pods, Services and Ingresses.

use super::{Context, now};
use k8s_openapi::api::core::v1::ObjectReference;
use plan::events::invalid;

/// The maximum number of objects that wait for their events. If a hostile user creates more unreadable objects, the
/// last ones are only logged.
pub(super) const WAITING: usize = 64;

impl Context {
    /// Sends an event about an object and why it cannot be read, if the object is in a namespace of this operator. The events
    /// are sent in the background, one after the other, and the namespaces take turns.
    pub(super) fn report(&self, object: ObjectReference, error: &str) {
        let (cluster, reports, event) = (self.source.cluster.clone(), self.reports.clone(), invalid(error));
        self.background.start(async move {
            let namespace = object.namespace.clone().unwrap_or_default();
            let Some(_turn) = reports.turn(None, &namespace).await else { return };
            // Before the labels are known, a namespace that is chosen by its labels does not count as chosen.
            cluster.namespaces.synced().await;
            if cluster.namespaces.include(&namespace) {
                cluster.send_event_once(object, &event, now()).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, Setup, namespaces::OurNamespaces, tests::api_server};
    use kube::runtime::reflector;
    use parking_lot::Mutex;
    use plan::namespaces::Namespaces;
    use serde_json::json;
    use std::{future::ready, sync::Arc};

    #[tokio::test]
    async fn a_namespace_of_unreadable_objects_delays_others_by_one_event() {
        let sent = Arc::<Mutex<Vec<String>>>::default();
        let sending = Arc::clone(&sent);
        let client = api_server(move |request| {
            sending.lock().extend(request.uri().path().split('/').nth(5).map(str::to_owned));
            ready((201, json!({})))
        });
        let setup = Setup::of_tests(client, "team-a");
        let mut cluster = Cluster::new(&setup, reflector::store().0);
        let both = Namespaces::new(["team-a", "team-b"].map(str::to_owned), None);
        cluster.namespaces = Arc::new(OurNamespaces::new(both));
        let context = Context::new(cluster, setup);
        let report = |namespace: &str, name: String| {
            let reference = ObjectReference {
                namespace: Some(namespace.to_owned()),
                name: Some(name),
                ..ObjectReference::default()
            };
            context.report(reference, "too many values");
        };
        for i in 0..1000 {
            report("team-a", format!("poison-{i}"));
        }
        report("team-b", "pod".to_owned());
        context.background.tasks.close();
        context.background.tasks.wait().await;
        let sent = sent.lock();
        assert_eq!(sent[..4], ["team-a", "team-a", "team-b", "team-a"]);
        assert_eq!(sent.len(), WAITING + 1);
    }
}
