//! Shows the pods and events of an application or a server, read with the caller's rights. Each object is reduced to
//! its table row before the next one is parsed: hundreds of objects of etcd's maximum size would fill the memory.

use super::{Bar, Result, Session, ago, log_of, now, table, trouble};
use api::{Identity, Lenient, excerpt::beginning, names::label, spark_container_of};
use futures::future::join;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, ResourceExt, api::ListParams};
use maud::{Markup, html};
use pods::PodSummary;
use serde::de::DeserializeOwned;
use spark_operator_client::{
    printable::lines,
    summary::{self, Tone},
};
use std::cmp::Reverse;

/// The maximum numbers of pods and of events that are shown for one object.
const MOST: usize = 500;
/// The maximum size of a text of a pod or an event that is shown, in bytes. Texts by the components of Kubernetes have
/// at most 4 KiB.
const LONGEST: usize = 4 << 10;
/// The maximum length of a pod's name beside its bar, in bytes: its end is shown, by which executors differ.
const LONGEST_NAME: usize = 24;

/// A pod as it is shown: the number of an executor, the bar if the pod has started, and the cells of the row.
type PodShown = (Option<u64>, Option<Bar>, Markup);
/// An event as it is shown: the time of its last occurrence, and the cells of the row.
type EventShown = (Option<Timestamp>, Markup);

/// Reads the pods of an object, which have its name in this `label`, and its events. Returns the bars of the pods, and
/// the tables of both.
pub(crate) async fn pods_and_events(session: &Session, of: &ObjectMeta, label: &str) -> (Vec<Bar>, Markup) {
    let of_pods = format!("{label}={}", of.name.as_deref().unwrap_or_default());
    let of_events = format!("involvedObject.uid={}", of.uid.as_deref().unwrap_or_default());
    let (pods, events) = join(
        list(session, of, ListParams::default().labels(&of_pods), pod),
        list(session, of, ListParams::default().fields(&of_events), event),
    )
    .await;
    let (mut pods, lack) = match pods {
        Ok((pods, is_cut)) => (pods, is_cut.then(|| "There are more pods.".to_owned())),
        Err(refusal) => (Vec::new(), Some(refusal.words)),
    };
    // The driver, which has no number, is first.
    pods.sort_by_key(|(number, ..)| *number);
    let (bars, rows): (Vec<_>, Vec<_>) = pods.into_iter().map(|(_, bar, row)| (bar, row)).unzip();
    let titles = ["Pod", "Role", "Phase", "Node", "Restarts", "Requests", "Began"];
    let shown = html! {
        h2 { "Pods" }
        (trouble(lack.as_deref()))
        @if rows.is_empty() { p { "There are no pods." } }
        (table("Driver and executors", &titles, rows))
        h2 { "Events" }
        @match events {
            Ok((events, _)) => (table_of_events(events)),
            Err(refusal) => (trouble(Some(&refusal.words))),
        }
    };
    (bars.into_iter().flatten().collect(), shown)
}

fn table_of_events(mut events: Vec<EventShown>) -> Markup {
    if events.is_empty() {
        let words = "There are no events any more: the cluster keeps them for an hour. Conditions and runs are kept for longer: see above.";
        return html! { p { (words) } };
    }
    events.sort_by_key(|(last, _)| Reverse(*last));
    table("Latest first", &["When", "Type", "Reason", "Message"], events.into_iter().map(|(_, row)| row))
}

/// Lists the objects of a kind in the namespace of an object. Returns what `shown` makes of those that can be parsed,
/// and whether there are more.
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

/// Returns the beginning of a text that a tenant may have written, without control characters.
fn text(text: Option<&str>) -> String {
    beginning(lines(text.unwrap_or_default()), LONGEST)
}

/// Returns an event as it is shown.
fn event(event: &Event) -> EventShown {
    let (last, times) = (summary::last_seen(event).map(|time| time.0), summary::times_seen(event));
    let kind = text(event.type_.as_deref());
    let row = html! {
        td.number { (ago(last)) @if times > 1 { " (×" (times) ")" } }
        td { span class=[(kind == "Warning").then_some("bad")] { (kind) } }
        td { (text(event.reason.as_deref())) }
        td { (text(event.message.as_deref())) }
    };
    (last, row)
}

/// Returns a pod as it is shown.
fn pod(pod: &Pod) -> PodShown {
    let summary = PodSummary::of(pod);
    let (status, spec) = (pod.status.as_ref(), pod.spec.as_ref());
    let statuses = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let restarts = statuses.iter().map(|status| status.restart_count).fold(0, i32::saturating_add);
    let how = summary.ended.as_ref().map(|ended| format!("{}, exit code {}", ended.reason, ended.exit_code));
    let finished = statuses.iter().filter_map(|status| status.state.as_ref()?.terminated.as_ref());
    let finished = finished.filter_map(|terminated| terminated.finished_at.as_ref());
    let ended = finished.map(|time| time.0).max().filter(|_| how.is_some());
    let why = how.or_else(|| summary.message.clone()).or_else(|| summary.waiting_for());
    let (phase, why) = (text(status.and_then(|status| status.phase.as_deref())), text(why.as_deref()));
    let container = spark_container_of(pod).and_then(|container| container.resources.as_ref());
    let requests = container.and_then(|resources| resources.requests.as_ref()).into_iter().flatten();
    let requests: Vec<_> = requests.map(|(name, amount)| format!("{name} {}", amount.0)).collect();
    let began = status.and_then(|status| status.start_time.as_ref()).map(|time| time.0);

    let (name, log) = (&summary.name, log_of(pod.own_namespace(), &summary.name));
    let row = html! {
        th scope="row" { @if began.is_some() { a href=(log) { (name) } } @else { (name) } }
        td { (text(pod.labels().get(label::SPARK_ROLE).map(String::as_str))) }
        td { (phase) @if !why.is_empty() { br; small { (why) } } }
        td { (text(spec.and_then(|spec| spec.node_name.as_deref()))) }
        td.number {
            (restarts)
            @if restarts > 0 { " " a href={ (log) "?previous=true" } { "previous log" } }
        }
        td { (text(Some(&requests.join(", ")))) }
        td.number { (ago(began)) }
    };
    let tone = match phase.as_str() {
        "Running" => Tone::Busy,
        "Succeeded" => Tone::Good,
        "Failed" => Tone::Bad,
        _ => Tone::Wait,
    };
    let bar = began.map(|from| Bar {
        name: name.get(name.len().saturating_sub(LONGEST_NAME)..).unwrap_or(name).to_owned(),
        title: format!("{name}: {phase} {why}"),
        tone,
        from,
        to: ended.unwrap_or_else(now).max(from),
    });
    (summary.executor_id, bar, row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    #[test]
    fn a_pod_shows_why_it_waits_or_has_ended() {
        let shown = |status: Value| {
            let spec = json!({"containers": [{"name": "spark-kubernetes-driver", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]});
            let shown = json!({"metadata": {"name": "pi-driver"}, "spec": spec, "status": status});
            let (_, bar, row) = pod(&from_value(shown).unwrap());
            (bar, row.into_string())
        };
        let container = |state: Value| {
            let status = json!({"name": "spark-kubernetes-driver", "state": state, "image": "", "imageID": "", "ready": true, "restartCount": 2});
            shown(
                json!({"phase": "Pending", "startTime": "2026-11-21T11:00:00Z", "containerStatuses": [status]}),
            )
        };
        let unplaced = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"});
        let (bar, waiting) = shown(json!({"phase": "Pending", "conditions": [unplaced]}));
        assert!(
            bar.is_none()
                && waiting.contains("<td>Pending<br><small>Unschedulable: 0/3 nodes</small></td>")
                && waiting.contains("<td>cpu 1, memory 2Gi</td>"),
            "{waiting}"
        );
        let (_, pulling) =
            container(json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}));
        assert!(
            pulling.contains("ErrImagePull: no such image") && pulling.contains("2 <a href="),
            "{pulling}"
        );
        let (bar, ended) = container(
            json!({"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-21T11:30:00Z"}}),
        );
        assert!(ended.contains("<small>OOMKilled, exit code 137</small>"), "{ended}");
        assert_eq!(bar.unwrap().to.to_string(), "2026-11-21T11:30:00Z");
    }

    #[test]
    fn missing_events_are_explained_and_untrusted_text_is_escaped() {
        assert!(table_of_events(Vec::new()).into_string().contains("the cluster keeps them for an hour"));
        let told = json!({
            "metadata": {}, "involvedObject": {}, "type": "Warning", "reason": "<b>", "message": "a\nb", "count": 3,
        });
        let text = table_of_events(vec![event(&from_value(told).unwrap())]).into_string();
        assert!(
            text.contains("<span class=\"bad\">Warning</span></td><td>&lt;b&gt;</td><td>a\nb</td>"),
            "{text}"
        );
    }

    /// Without the limit, 500 events could have a megabyte of text each.
    #[test]
    fn a_long_text_is_truncated_and_direction_overrides_are_replaced() {
        let message = format!("\u{202e}a\n{}", "x".repeat(1 << 20));
        let told = json!({"metadata": {}, "involvedObject": {}, "message": message});
        let (last, row) = event(&from_value(told).unwrap());
        let row = row.into_string();
        assert!(last.is_none() && row.contains("<td>\u{fffd}a\nxx") && row.len() < LONGEST + 200, "{row}");
    }
}
