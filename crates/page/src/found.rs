//! Reads the pods and events of an application or a server, with the caller's rights.

use super::{Refusal, Session, reads};
use api::{Lenient, names::label, spark_container_of};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, ResourceExt, api::ListParams};
use pods::PodSummary;
use serde::de::DeserializeOwned;
use spark_operator_client::summary::last_seen;
use std::cmp::Reverse;

/// The most pods and events that are shown of one object.
const MOST: usize = 500;

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

/// Reads the pods of an object, whose name they have in this label: the driver first, then executors by their numbers. Says
/// whether there are more.
///
/// # Errors
///
/// If they may not be listed.
pub(crate) async fn pods(
    session: &Session,
    of: &ObjectMeta,
    label: &str,
) -> Result<(Vec<PodRow>, bool), Refusal> {
    let name = of.name.as_deref().unwrap_or_default();
    let which = ListParams::default().labels(&format!("{label}={name}"));
    let (mut pods, is_cut) = list::<Pod>(session, of.namespace.as_deref(), which).await?;
    pods.sort_by_cached_key(|pod| PodSummary::of(pod).executor_id);
    Ok((pods.iter().map(row).collect(), is_cut))
}

/// Reads the events of an object, latest first.
///
/// # Errors
///
/// If they may not be listed.
pub(crate) async fn events(session: &Session, of: &ObjectMeta) -> Result<Vec<Event>, Refusal> {
    let uid = of.uid.as_deref().unwrap_or_default();
    let which = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    let (mut events, _) = list::<Event>(session, of.namespace.as_deref(), which).await?;
    events.sort_by_cached_key(|event| Reverse(last_seen(event)));
    Ok(events)
}

/// Returns the objects that can be read, and whether there are more.
async fn list<K: Resource<DynamicType = ()> + DeserializeOwned + Send>(
    session: &Session,
    namespace: Option<&str>,
    which: ListParams,
) -> Result<(Vec<K>, bool), Refusal> {
    let mut found = Vec::new();
    let path = K::url_path(&(), namespace);
    let (_, is_cut) = reads::list(&session.caller.client, &path, which, MOST, |object| {
        found.extend(Lenient::<K>::parse(object).0.0.ok());
    })
    .await?;
    Ok((found, is_cut))
}

fn row(pod: &Pod) -> PodRow {
    let summary = PodSummary::of(pod);
    let status = pod.status.clone().unwrap_or_default();
    let statuses = status.container_statuses.unwrap_or_default();
    let finished = statuses.iter().filter_map(|status| status.state.as_ref()?.terminated.as_ref());
    let finished = finished.filter_map(|terminated| terminated.finished_at.as_ref());
    let has_ended = summary.ended.is_some();
    let how = summary.ended.as_ref().map(|ended| format!("{}, exit code {}", ended.reason, ended.exit_code));
    let why = how.or_else(|| summary.message.clone()).or_else(|| summary.waiting_for());
    let container = spark_container_of(pod).and_then(|container| container.resources.as_ref());
    let requests = container.and_then(|resources| resources.requests.as_ref()).into_iter().flatten();
    let requests: Vec<_> = requests.map(|(name, amount)| format!("{name} {}", amount.0)).collect();
    PodRow {
        role: pod.labels().get(label::SPARK_ROLE).cloned().unwrap_or_default(),
        phase: status.phase.unwrap_or_default(),
        why: why.unwrap_or_default(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        restarts: statuses.iter().map(|status| status.restart_count).sum(),
        requests: requests.join(", "),
        began: status.start_time.map(|time| time.0),
        ended: finished.map(|time| time.0).max().filter(|_| has_ended),
        name: summary.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn a_pod_says_why_it_waits_or_has_ended() {
        let pod = |status: Value| {
            let spec = json!({"containers": [{"name": "spark-kubernetes-driver", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]});
            row(&from_value(json!({"metadata": {"name": "pi-driver"}, "spec": spec, "status": status}))
                .unwrap())
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
}
