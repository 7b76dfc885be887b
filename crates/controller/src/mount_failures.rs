//! Finds out why the volumes of pods cannot be mounted. The kubelet reports the reason only by events with the reason
//! FailedMount. They are listed when a decision depends on them, for all pods of a namespace together.

use super::{
    Cluster,
    calls::Calls,
    kept::{Keep, Kept},
};
use api::{Lenient, excerpt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::{api::ListParams, core::Request};
use parking_lot::Mutex;
use plan::driver;
use pods::PodSummary;
use std::{collections::HashMap, ops::ControlFlow, sync::Arc, time::Duration};
use tokio::{
    sync::OnceCell,
    time::{Instant, timeout},
};
use tracing::warn;

/// How long a list is reused: a thousand drivers of a namespace that wait for their volumes are reconciled one after
/// the other, and each needs the reason.
const RECENT: Duration = Duration::from_secs(10);
/// The timeout of a list. A status without the reason is better than no status.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum number of events that are read: a user who may create events in a namespace can create any number of
/// them.
const MOST: usize = 1_000;

/// The latest list of each namespace: when it was begun, and the reasons by the uids of the pods.
pub(super) type MountFailures = Mutex<HashMap<String, (Instant, Arc<OnceCell<HashMap<String, String>>>)>>;

/// An event as it is read: when the kubelet has sent it last, the uid of the pod, and the message.
type Failure = (Option<Timestamp>, String, String);

impl Cluster {
    /// Returns why the volumes of a pod cannot be mounted, if it has waited for them for long and a reason is known.
    pub(super) async fn mount_failure(
        &self,
        namespace: &str,
        pod: &PodSummary,
        now: Timestamp,
    ) -> Option<String> {
        let is_late = driver::mounting(pod, now).is_some_and(|waited| waited >= driver::MOUNTING);
        if is_late { self.known_failure(namespace, &pod.uid).await } else { None }
    }

    async fn known_failure(&self, namespace: &str, pod_uid: &str) -> Option<String> {
        let failures = {
            let mut lists = self.mount_failures.lock();
            lists.retain(|_, (begun, _)| begun.elapsed() < RECENT);
            let list = lists.entry(namespace.to_owned());
            Arc::clone(&list.or_insert_with(|| (Instant::now(), Arc::default())).1)
        };
        let failures = failures.get_or_init(|| self.failures(namespace)).await;
        failures.get(pod_uid).cloned()
    }

    /// Lists the reasons in `namespace`, by the uids of the pods: for each pod the latest.
    async fn failures(&self, namespace: &str) -> HashMap<String, String> {
        let mut found = Vec::<Failure>::new();
        let read = |event: Kept<Event, Failure>| {
            found.push(event.kept);
            if found.len() < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let events = Calls::of::<Event>(&self.client, namespace);
        let about_volumes = ListParams::default().fields("involvedObject.kind=Pod,reason=FailedMount");
        match timeout(PATIENCE, events.list(&self.lists, Request::list, about_volumes, read)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(namespace, %error, "events about volumes cannot be listed"),
            Err(_) => warn!(namespace, "the list of events about volumes takes too long"),
        }
        found.sort();
        found.into_iter().map(|(_, pod_uid, message)| (pod_uid, message)).collect()
    }
}

impl Keep<Event> for Failure {
    /// An event that cannot be read counts as one about no pod.
    fn of(event: &Lenient<Event>, _: &str) -> Self {
        let Ok(event) = &event.0 else { return Self::default() };
        let message = excerpt::explanation(event.message.clone().unwrap_or_default());
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        (last, event.involved_object.uid.clone().unwrap_or_default(), message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setup, tests::api_server};
    use kube::runtime::reflector;
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn event(pod_uid: &str, second: u32, message: &str) -> Value {
        json!({
            "metadata": {"name": format!("{pod_uid}.{second}"), "namespace": "team-a"},
            "involvedObject": {"kind": "Pod", "namespace": "team-a", "name": "pi-driver", "uid": pod_uid},
            "lastTimestamp": format!("2026-01-01T00:00:{second:02}Z"), "message": message,
        })
    }

    /// Returns a cluster whose API server answers each list with `answer`, given how many it has answered.
    fn failures(
        answer: impl Fn(usize, &str) -> Option<Value> + Clone + Send + 'static,
    ) -> (Cluster, Arc<AtomicUsize>) {
        let lists = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&lists);
        let client = api_server(move |request| {
            let answer =
                answer(counted.fetch_add(1, Ordering::Relaxed), request.uri().query().unwrap_or_default());
            async move {
                let Some(answer) = answer else { return std::future::pending().await };
                (200, answer)
            }
        });
        let setup = Setup::of_tests(client, "team-a");
        (Cluster::new(&setup, reflector::store().0), lists)
    }

    fn page(items: &[Value], rest: &str) -> Value {
        json!({"kind": "EventList", "apiVersion": "v1", "metadata": {"resourceVersion": "1", "continue": rest}, "items": items})
    }

    #[tokio::test(start_paused = true)]
    async fn the_latest_reason_counts_and_a_list_is_reused_for_a_while() {
        let (failures, lists) = failures(|_, query| {
            let is_second = query.contains("continue=");
            Some(if is_second {
                page(&[event("pod-1", 2, "no such ConfigMap"), event("pod-2", 1, "of another")], "")
            } else {
                page(
                    &[
                        event("pod-1", 1, "no such Secret"),
                        event("pod-3", 3, "newest"),
                        event("pod-3", 2, "older"),
                    ],
                    "more",
                )
            })
        });
        let known = futures::future::join3(
            failures.known_failure("team-a", "pod-1"),
            failures.known_failure("team-a", "pod-3"),
            failures.known_failure("team-a", "pod-4"),
        );
        assert_eq!(known.await, (Some("no such ConfigMap".to_owned()), Some("newest".to_owned()), None));
        assert_eq!(lists.load(Ordering::Relaxed), 2, "two pages");
        tokio::time::advance(RECENT).await;
        failures.known_failure("team-a", "pod-2").await.unwrap();
        assert_eq!(lists.load(Ordering::Relaxed), 4);
        assert_eq!(failures.mount_failures.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_list_and_one_without_an_answer_are_given_up() {
        let (endless, lists) = failures(|page_number, _| {
            Some(page(&vec![event(&page_number.to_string(), 1, "why"); 20], "more"))
        });
        assert_eq!(endless.known_failure("team-a", "0").await.as_deref(), Some("why"));
        assert_eq!(lists.load(Ordering::Relaxed), MOST / 20);
        let (silent, _) = failures(|_, _| None);
        assert_eq!(silent.known_failure("team-a", "0").await, None);
    }
}
