//! Reads the pods and events of an application or a server, with the caller's rights. Each is reduced to what is shown of it
//! before the next one is looked at: hundreds of objects that are as large as etcd allows would fill the memory.

use super::{Result, Session};
use api::{Lenient, excerpt::beginning, names::label, printable::lines, spark_container_of};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, ResourceExt, api::ListParams};
use pods::PodSummary;
use serde::de::DeserializeOwned;
use spark_operator_client::summary;
use std::cmp::Reverse;

/// The most pods and events that are shown of one object.
const MOST: usize = 500;
/// The most bytes of a text of a pod or an event that are shown. What the components of Kubernetes write has at most 4 KiB.
const LONGEST: usize = 4 << 10;

/// A pod as it is shown.
pub(crate) struct PodRow {
    pub name: String,
    pub role: String,
    pub phase: String,
    /// The reason why it waits or has ended.
    pub why: String,
    pub node: String,
    pub restarts: i32,
    pub requests: String,
    pub began: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

/// An event as it is shown.
pub(crate) struct EventRow {
    pub kind: String,
    pub reason: String,
    pub message: String,
    /// When it was seen last, and how often.
    pub last: Option<Timestamp>,
    pub times: i32,
}

/// Reads the pods of an object, whose name they have in this label: the driver first, then executors by their numbers. Says
/// whether there are more.
///
/// # Errors
///
/// If they may not be listed.
pub(crate) async fn pods(session: &Session, of: &ObjectMeta, label: &str) -> Result<(Vec<PodRow>, bool)> {
    let name = of.name.as_deref().unwrap_or_default();
    let which = ListParams::default().labels(&format!("{label}={name}"));
    let (mut pods, is_cut) = list(session, of, which, row).await?;
    pods.sort_by_key(|(number, _)| *number);
    Ok((pods.into_iter().map(|(_, pod)| pod).collect(), is_cut))
}

/// Reads the events of an object, latest first.
///
/// # Errors
///
/// If they may not be listed.
pub(crate) async fn events(session: &Session, of: &ObjectMeta) -> Result<Vec<EventRow>> {
    let uid = of.uid.as_deref().unwrap_or_default();
    let which = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    let (mut events, _) = list(session, of, which, event_row).await?;
    events.sort_by_key(|event| Reverse(event.last));
    Ok(events)
}

/// Returns what is shown of the objects that can be read in the namespace of an object, and whether there are more.
async fn list<K: Resource<DynamicType = ()> + DeserializeOwned, T>(
    session: &Session,
    of: &ObjectMeta,
    which: ListParams,
    shown: fn(&K) -> T,
) -> Result<(Vec<T>, bool)> {
    let mut found = Vec::new();
    let path = K::url_path(&(), of.namespace.as_deref());
    let (_, is_cut) = session
        .caller
        .reader
        .list(&path, which, MOST, |object| {
            found.extend(Lenient::<K>::parse(object).0.0.ok().as_ref().map(shown));
        })
        .await?;
    Ok((found, is_cut))
}

/// Returns the beginning of a text of a tenant.
fn text(text: Option<&str>) -> String {
    beginning(lines(text.unwrap_or_default()), LONGEST)
}

/// Returns what is shown of an event.
pub(crate) fn event_row(event: &Event) -> EventRow {
    EventRow {
        kind: text(event.type_.as_deref()),
        reason: text(event.reason.as_deref()),
        message: text(event.message.as_deref()),
        last: summary::last_seen(event).map(|time| time.0),
        times: summary::times_seen(event),
    }
}

/// Returns what is shown of a pod, and the number of an executor.
fn row(pod: &Pod) -> (Option<u64>, PodRow) {
    let summary = PodSummary::of(pod);
    let (status, spec) = (pod.status.as_ref(), pod.spec.as_ref());
    let statuses = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let finished = statuses.iter().filter_map(|status| status.state.as_ref()?.terminated.as_ref());
    let finished = finished.filter_map(|terminated| terminated.finished_at.as_ref());
    let how = summary.ended.as_ref().map(|ended| format!("{}, exit code {}", ended.reason, ended.exit_code));
    let ended = finished.map(|time| time.0).max().filter(|_| how.is_some());
    let why = how.or_else(|| summary.message.clone()).or_else(|| summary.waiting_for());
    let container = spark_container_of(pod).and_then(|container| container.resources.as_ref());
    let requests = container.and_then(|resources| resources.requests.as_ref()).into_iter().flatten();
    let requests: Vec<_> = requests.map(|(name, amount)| format!("{name} {}", amount.0)).collect();
    let row = PodRow {
        role: text(pod.labels().get(label::SPARK_ROLE).map(String::as_str)),
        phase: text(status.and_then(|status| status.phase.as_deref())),
        why: text(why.as_deref()),
        node: text(spec.and_then(|spec| spec.node_name.as_deref())),
        restarts: statuses.iter().map(|status| status.restart_count).fold(0, i32::saturating_add),
        requests: text(Some(&requests.join(", "))),
        began: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
        ended,
        name: summary.name,
    };
    (summary.executor_id, row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn a_pod_says_why_it_waits_or_has_ended() {
        let pod = |status: Value| {
            let spec = json!({"containers": [{"name": "spark-kubernetes-driver", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]});
            let pod = json!({"metadata": {"name": "pi-driver"}, "spec": spec, "status": status});
            row(&from_value(pod).unwrap()).1
        };
        let container = |state: Value| {
            let status = json!({"name": "spark-kubernetes-driver", "state": state, "image": "", "imageID": "", "ready": true, "restartCount": 2});
            pod(json!({"phase": "Pending", "containerStatuses": [status]}))
        };
        let unplaced = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"});
        let waiting = pod(json!({"phase": "Pending", "conditions": [unplaced]}));
        assert_eq!((&*waiting.why, &*waiting.requests), ("Unschedulable: 0/3 nodes", "cpu 1, memory 2Gi"));
        let pulling = container(json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}));
        assert_eq!((&*pulling.why, pulling.restarts), ("ErrImagePull: no such image", 2));
        let ended = container(
            json!({"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-21T11:30:00Z"}}),
        );
        assert_eq!((&*ended.why, ended.ended.is_some()), ("OOMKilled, exit code 137", true));
    }

    /// Once, the objects of one page were in memory all together: 500 events, each of up to a megabyte.
    #[test]
    fn a_long_text_is_cut_and_turns_no_words_around() {
        let message = format!("\u{202e}a\n{}", "x".repeat(1 << 20));
        let event = event_row(
            &from_value(json!({"metadata": {}, "involvedObject": {}, "message": message})).unwrap(),
        );
        assert!(event.message.starts_with("\u{fffd}a\nxx") && event.message.len() <= LONGEST);
        assert_eq!((&*event.kind, event.last, event.times), ("", None, 1));
    }
}
