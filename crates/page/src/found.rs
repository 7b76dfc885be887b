//! Reads one application with its pods and events, with the caller's rights.

use super::{entry::Session, reads, refusal::Refusal};
use api::{Lenient, SparkApplication, is_object_name, is_segment, names::label, spark_container_of};
use axum::http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ContainerState, Event, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{Resource, ResourceExt, api::ListParams};
use serde_json::Value;

/// The most pods and events that are shown of one application.
const MOST: usize = 500;

/// An application, and the text of all of it as the cluster has it.
pub(crate) struct Found {
    pub application: SparkApplication,
    pub whole: Value,
}

/// What is shown of a pod.
pub(crate) struct PodRow {
    pub name: String,
    pub role: String,
    pub phase: String,
    /// Why it waits or has ended.
    pub why: String,
    pub node: String,
    pub restarts: i32,
    pub requests: String,
    pub began: Option<Timestamp>,
    pub ended: Option<Timestamp>,
}

/// What is shown of an event.
pub(crate) struct EventRow {
    pub when: Option<Timestamp>,
    pub kind: String,
    pub reason: String,
    pub message: String,
    pub count: i32,
}

/// Checks that both can be names: they become parts of paths.
///
/// # Errors
///
/// If one cannot be a name, so that there is no such object.
pub(crate) fn named(namespace: &str, name: &str) -> Result<(), Refusal> {
    if is_segment(namespace) && is_object_name(name) {
        return Ok(());
    }
    Err(Refusal::not_found("There is no such object: that cannot be a name."))
}

/// Reads the application `name`.
///
/// # Errors
///
/// If it is gone, may not be read or cannot be read.
pub(crate) async fn application(session: &Session, namespace: &str, name: &str) -> Result<Found, Refusal> {
    named(namespace, name)?;
    let path = format!("{}/{name}", SparkApplication::url_path(&(), Some(namespace)));
    let object = reads::object(&session.caller.client, &path).await?;
    let (read, text) = Lenient::<SparkApplication>::parse(&object);
    match read.0 {
        Ok(application) => Ok(Found { application, whole: serde_json::from_str(&text).unwrap_or_default() }),
        Err(invalid) => {
            let words = format!("The application cannot be read: {}", invalid.error);
            Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, words))
        }
    }
}

/// Reads the pods of the application: the driver first, then executors by their numbers. Says whether there are more.
///
/// # Errors
///
/// If they may not be listed.
pub(crate) async fn pods(
    session: &Session,
    application: &SparkApplication,
) -> Result<(Vec<PodRow>, bool), Refusal> {
    let namespace = application.namespace().unwrap_or_default();
    let which = ListParams::default().labels(&format!("{}={}", label::APP_NAME, application.name_any()));
    let (mut pods, path) = (Vec::new(), Pod::url_path(&(), Some(&namespace)));
    let (_, is_cut) = reads::list(&session.caller.client, &path, which, MOST, |object| {
        if let Ok(pod) = Lenient::<Pod>::parse(object).0.0 {
            pods.push((order(&pod), of_pod(&pod)));
        }
    })
    .await?;
    pods.sort_by_key(|(order, _)| *order);
    Ok((pods.into_iter().map(|(_, pod)| pod).collect(), is_cut))
}

/// Returns the place of a pod among those of its application.
fn order(pod: &Pod) -> u64 {
    let number = pod.labels().get(label::SPARK_EXEC_ID).and_then(|number| number.parse::<u64>().ok());
    number.map_or(0, |number| number.saturating_add(1))
}

fn of_pod(pod: &Pod) -> PodRow {
    let status = pod.status.clone().unwrap_or_default();
    let container = spark_container_of(pod);
    let of_container = status.container_statuses.iter().flatten();
    let restarts = of_container.clone().map(|status| status.restart_count).sum();
    let state = of_container
        .filter(|status| container.is_some_and(|container| container.name == status.name))
        .find_map(|status| status.state.as_ref());
    let unplaced = status.conditions.iter().flatten().find(|condition| condition.status == "False");
    let why = why_of(state)
        .or(status.message)
        .or_else(|| unplaced.filter(|_| state.is_none()).and_then(|condition| condition.message.clone()));
    let requests = container.and_then(|container| container.resources.as_ref()?.requests.as_ref());
    let requests = requests.into_iter().flatten().map(|(name, amount)| format!("{name} {}", amount.0));
    let ended = state.and_then(|state| state.terminated.as_ref()?.finished_at.as_ref());
    PodRow {
        name: pod.name_any(),
        role: pod.labels().get(label::SPARK_ROLE).cloned().unwrap_or_default(),
        phase: status.phase.unwrap_or_default(),
        why: why.unwrap_or_default(),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        restarts,
        requests: requests.collect::<Vec<_>>().join(", "),
        began: status.start_time.map(|time| time.0),
        ended: ended.map(|time| time.0),
    }
}

fn why_of(state: Option<&ContainerState>) -> Option<String> {
    let state = state?;
    if let Some(ended) = &state.terminated {
        let reason = ended.reason.clone().unwrap_or_default();
        return Some(format!("{reason}, exit code {}", ended.exit_code));
    }
    let waiting = state.waiting.as_ref()?;
    let parts = [&waiting.reason, &waiting.message].into_iter().flatten();
    Some(parts.map(String::as_str).collect::<Vec<_>>().join(": "))
}

/// Reads the events of an object, latest first.
///
/// # Errors
///
/// If they may not be listed.
pub(crate) async fn events(session: &Session, of: &ObjectMeta) -> Result<Vec<EventRow>, Refusal> {
    let uid = of.uid.as_deref().unwrap_or_default();
    let which = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    let (mut events, path) = (Vec::new(), Event::url_path(&(), of.namespace.as_deref()));
    reads::list(&session.caller.client, &path, which, MOST, |object| {
        if let Ok(event) = Lenient::<Event>::parse(object).0.0 {
            events.push(of_event(&event));
        }
    })
    .await?;
    events.sort_by_key(|event| std::cmp::Reverse(event.when));
    Ok(events)
}

fn of_event(event: &Event) -> EventRow {
    let time = |time: Option<&Time>| time.map(|time| time.0);
    // Components that write events by `events.k8s.io` leave the older fields empty.
    let series = event.series.as_ref();
    let when = series
        .and_then(|series| series.last_observed_time.as_ref().map(|time| time.0))
        .or_else(|| time(event.last_timestamp.as_ref()))
        .or_else(|| event.event_time.as_ref().map(|time| time.0))
        .or_else(|| time(event.metadata.creation_timestamp.as_ref()));
    EventRow {
        when,
        kind: event.type_.clone().unwrap_or_default(),
        reason: event.reason.clone().unwrap_or_default(),
        message: event.message.clone().unwrap_or_default(),
        count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_pod_says_why_it_waits_or_has_ended() {
        let pod = |status: Value| {
            let spec = json!({"containers": [{"name": "spark-kubernetes-driver", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]});
            of_pod(
                &from_value(json!({"metadata": {"name": "pi-driver"}, "spec": spec, "status": status}))
                    .unwrap(),
            )
        };
        let container = |state: Value| {
            let status = json!({"name": "spark-kubernetes-driver", "state": state, "image": "", "imageID": "", "ready": true, "restartCount": 2});
            pod(json!({"containerStatuses": [status]}))
        };
        let waiting =
            pod(json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]}));
        assert_eq!((&*waiting.why, &*waiting.requests), ("0/3 nodes", "cpu 1, memory 2Gi"));
        let pulling = container(json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}));
        assert_eq!((&*pulling.why, pulling.restarts), ("ErrImagePull: no such image", 2));
        let ended = container(json!({"terminated": {"reason": "OOMKilled", "exitCode": 137}}));
        assert_eq!(ended.why, "OOMKilled, exit code 137");
    }

    #[test]
    fn a_name_that_would_lead_elsewhere_is_none() {
        assert!(named("team-a", "spark-pi.1").is_ok());
        for (namespace, name) in
            [("team-a", "../secrets"), ("team-a/pods", "x"), ("", "x"), ("a", "x?watch"), ("a", "%2e")]
        {
            assert_eq!(
                named(namespace, name).unwrap_err().status,
                StatusCode::NOT_FOUND,
                "{namespace} {name}"
            );
        }
    }
}
