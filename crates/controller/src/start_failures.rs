//! Finds out why pods that have a node do not start: because of a volume or their network. Kubernetes reports this only
//! by events. They are listed when a decision depends on them, for all pods of a namespace together.

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
use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::OnceCell,
    time::{Instant, timeout},
};
use tracing::warn;

/// The reasons of the events that are listed: a volume cannot be mounted, a volume cannot be attached (it may still be
/// attached to another node), the network cannot be set up (it may have no address left). The most frequent reason
/// comes first, in case the API server is too slow for all lists.
const REASONS: [&str; 3] = ["FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"];
/// The time for which the lists are reused: a thousand drivers of a namespace that do not start are reconciled one after the
/// other, and each needs the reason.
const RECENT: Duration = Duration::from_secs(10);
/// The timeout of the lists. A status without the reason is better than no status.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum number of events with one reason that are read: a user who may create events in a namespace can create
/// any number of them.
const MOST: usize = 1_000;

/// The latest lists of each namespace: when they were begun, and the reasons and messages by the uids of the pods.
pub(super) type StartFailures = Mutex<HashMap<String, (Instant, Arc<OnceCell<HashMap<String, String>>>)>>;

/// An event as it is read: when it was sent last, the uid of the pod, the reason, and the message.
type Failure = (Option<Timestamp>, String, String, String);

impl Cluster {
    /// Returns why a pod does not start, if it has had a node for long and a reason is known: `FailedMount: …`.
    pub(super) async fn start_failure(
        &self,
        namespace: &str,
        pod: &PodSummary,
        now: Timestamp,
    ) -> Option<String> {
        let is_late = driver::silence(pod, now).is_some_and(|waited| waited >= driver::SILENCE);
        if is_late { self.known_failure(namespace, &pod.uid).await } else { None }
    }

    async fn known_failure(&self, namespace: &str, pod_uid: &str) -> Option<String> {
        let failures = {
            let mut lists = self.start_failures.lock();
            lists.retain(|_, (begun, _)| begun.elapsed() < RECENT);
            let list = lists.entry(namespace.to_owned());
            Arc::clone(&list.or_insert_with(|| (Instant::now(), Arc::default())).1)
        };
        let failures = failures.get_or_init(|| self.failures(namespace)).await;
        failures.get(pod_uid).cloned()
    }

    /// Lists the events in `namespace`. Returns the latest message of each reason for each pod, by the uids of the
    /// pods.
    async fn failures(&self, namespace: &str) -> HashMap<String, String> {
        let mut found = Vec::<Failure>::new();
        let listed = timeout(PATIENCE, async {
            for reason in REASONS {
                let most = found.len() + MOST;
                let read = |event: Kept<Event, Failure>| {
                    found.push(event.kept);
                    if found.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                };
                let events = Calls::of::<Event>(&self.client, namespace);
                let of_pods =
                    ListParams::default().fields(&format!("involvedObject.kind=Pod,reason={reason}"));
                events.list(&self.lists, Request::list, of_pods, read).await?;
            }
            Ok::<_, kube::Error>(())
        });
        match listed.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(namespace, %error, "events about pods that do not start cannot be listed")
            }
            Err(_) => warn!(namespace, "the list of events about pods that do not start takes too long"),
        }
        found.sort();
        let mut latest = HashMap::<String, BTreeMap<String, String>>::new();
        for (_, pod_uid, reason, message) in found {
            latest.entry(pod_uid).or_default().insert(reason, message);
        }
        let told = |(reason, message): (&String, &String)| format!("{reason}: {message}");
        let all = |known: &BTreeMap<String, String>| known.iter().map(told).collect::<Vec<_>>().join("; ");
        latest.iter().map(|(pod_uid, known)| (pod_uid.clone(), excerpt::explanation(all(known)))).collect()
    }
}

impl Keep<Event> for Failure {
    /// An event that cannot be read counts as one about no pod.
    fn of(event: &Lenient<Event>, _: &str) -> Self {
        let Ok(event) = &event.0 else { return Self::default() };
        let message = excerpt::explanation(event.message.clone().unwrap_or_default());
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        let pod_uid = event.involved_object.uid.clone().unwrap_or_default();
        (last, pod_uid, event.reason.clone().unwrap_or_default(), message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setup, tests::api_server};
    use kube::runtime::reflector;
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn event(pod_uid: &str, second: u32, reason: &str, message: &str) -> Value {
        json!({
            "metadata": {"name": format!("{pod_uid}.{second}"), "namespace": "team-a"},
            "involvedObject": {"kind": "Pod", "namespace": "team-a", "name": "pi-driver", "uid": pod_uid},
            "lastTimestamp": format!("2026-01-01T00:00:{second:02}Z"), "reason": reason, "message": message,
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

    /// The kubelet repeats that it waits for a volume, and only the event of another component says why.
    #[tokio::test(start_paused = true)]
    async fn the_latest_event_of_each_reason_counts_and_a_list_is_reused_for_a_while() {
        let (failures, lists) = failures(|_, query| {
            let mount = |pod_uid, second, message| event(pod_uid, second, "FailedMount", message);
            Some(if query.contains("FailedAttachVolume") {
                page(&[event("pod-2", 1, "FailedAttachVolume", "in use")], "")
            } else if query.contains("FailedCreatePodSandBox") {
                page(&[event("pod-4", 1, "FailedCreatePodSandBox", "no address")], "")
            } else if query.contains("continue=") {
                page(&[mount("pod-1", 2, "no such ConfigMap"), mount("pod-2", 2, "waits")], "")
            } else {
                let (first, newest) = (mount("pod-1", 1, "no such Secret"), mount("pod-3", 3, "newest"));
                page(&[first, newest, mount("pod-3", 2, "older")], "more")
            })
        });
        let known = futures::future::join4(
            failures.known_failure("team-a", "pod-1"),
            failures.known_failure("team-a", "pod-3"),
            failures.known_failure("team-a", "pod-4"),
            failures.known_failure("team-a", "pod-5"),
        );
        let expected =
            ["FailedMount: no such ConfigMap", "FailedMount: newest", "FailedCreatePodSandBox: no address"];
        let [first, second, third] = expected.map(|text| Some(text.to_owned()));
        assert_eq!(known.await, (first, second, third, None));
        assert_eq!(lists.load(Ordering::Relaxed), 4, "two pages about volumes that cannot be mounted");
        tokio::time::advance(RECENT).await;
        let both = failures.known_failure("team-a", "pod-2").await;
        assert_eq!(both.as_deref(), Some("FailedAttachVolume: in use; FailedMount: waits"));
        assert_eq!(lists.load(Ordering::Relaxed), 8);
        assert_eq!(failures.start_failures.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_list_and_one_without_an_answer_are_given_up() {
        let (endless, lists) = failures(|page_number, _| {
            Some(page(&vec![event(&page_number.to_string(), 1, "FailedMount", "why"); 20], "more"))
        });
        assert_eq!(endless.known_failure("team-a", "0").await.as_deref(), Some("FailedMount: why"));
        assert_eq!(lists.load(Ordering::Relaxed), REASONS.len() * MOST / 20);
        let (slow, _) = failures(|_, query| {
            query.contains("FailedMount").then(|| page(&[event("pod-1", 1, "FailedMount", "why")], ""))
        });
        assert_eq!(slow.known_failure("team-a", "pod-1").await.as_deref(), Some("FailedMount: why"));
        let (silent, _) = failures(|_, _| None);
        assert_eq!(silent.known_failure("team-a", "0").await, None);
    }
}
