//! The first page: the number of applications in each state, recent failures, the applications that have waited
//! longest, and the requested resources.

use super::{Application, Key, Session, address, duration, now, scope, state, table, word};
use api::{State, quantity::of_resource};
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{Resource, api::ListParams};
use maud::{Markup, html};
use std::{cmp::Reverse, collections::BTreeMap};

/// The age up to which a failure counts as new.
const LATELY: SignedDuration = SignedDuration::from_hours(24);
/// The maximum number of rows of the tables of waiting applications and of reasons for failures.
const MOST: usize = 12;
/// The maximum number of quotas that are read.
const MOST_QUOTAS: usize = 1_000;

/// The use of the quotas of each namespace, as text: `requests.cpu 3 of 10`.
type Quotas = BTreeMap<String, Vec<String>>;

pub(crate) async fn show(session: Session) -> Response {
    let quotas = quotas(&session).await;
    scope::show::<Application>(&session, "/", "Overview", |rows| content(&rows, &quotas, now())).await
}

/// Reads the quotas of CPU and memory. Empty if the caller may not list them.
async fn quotas(session: &Session) -> Quotas {
    let mut quotas = Quotas::new();
    let path = ResourceQuota::url_path(&(), scope::namespace(session));
    let read = session.caller.reader.list(&path, ListParams::default(), MOST_QUOTAS, |object| {
        let quota = serde_json::from_str::<ResourceQuota>(object.get()).unwrap_or_default();
        let status = quota.status.unwrap_or_default();
        let used = status.used.unwrap_or_default();
        for (key, hard) in status.hard.unwrap_or_default() {
            if ["cpu", "memory", "requests.cpu", "requests.memory"].contains(&&*key) {
                let used = used.get(&key).map_or("0", |used| used.0.as_str());
                let of = quotas.entry(quota.metadata.namespace.clone().unwrap_or_default()).or_default();
                of.push(format!("{key} {used} of {}", hard.0));
            }
        }
    });
    // The overview is useful without quotas, so an error is ignored.
    read.await.ok();
    quotas
}

fn content(rows: &[(&Key, &Application)], quotas: &Quotas, now: Timestamp) -> Markup {
    let mut states = BTreeMap::<Option<State>, usize>::new();
    let mut reasons = BTreeMap::<&str, usize>::new();
    let mut requested = BTreeMap::<(&str, &str), (usize, [i128; 2])>::new();
    let mut waiting = Vec::new();
    for (key, row) in rows {
        if let Some([cores, memory]) = row.requested.as_deref() {
            let (count, sum) = requested.entry((&*key.0, &*row.queue)).or_default();
            (*count, *sum) = (*count + 1, [sum[0].saturating_add(*cores), sum[1].saturating_add(*memory)]);
        }
        *states.entry(row.state).or_default() += 1;
        let has_failed = matches!(row.state, Some(State::Failed | State::SubmissionFailed));
        if has_failed && row.ended.or(row.submitted).is_some_and(|end| now.duration_since(end) < LATELY) {
            *reasons.entry(&*row.reason).or_default() += 1;
        }
        if matches!(row.state, Some(State::New | State::Submitted | State::PendingRerun)) {
            waiting.push((row.submitted.or(row.created).unwrap_or(now), key, row));
        }
    }
    waiting.sort_by_key(|(since, ..)| *since);
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| Reverse(*count));
    let waiting = waiting.iter().take(MOST).map(|(since, key, row)| {
        html! {
            th scope="row" { (link(key)) }
            td { (word(state(row.state))) }
            td.number { (duration(*since, now)) }
            td { (row.why) }
        }
    });
    let reasons = reasons.iter().take(MOST).map(|(reason, count)| {
        let of = [("state", "FAILED"), ("q", *reason)];
        let words = if reason.is_empty() { "without a reason" } else { *reason };
        html! {
            th scope="row" { a href=(address("/applications", of)) { (words) } }
            td.number { (count) }
        }
    });
    let requested = requested.iter().map(|((namespace, queue), (count, [cores, memory]))| {
        let of = [("namespace", *namespace), ("queue", *queue)];
        html! {
            th scope="row" { a href=(address("/applications", of)) { (namespace) } }
            td { (queue) }
            td.number { (count) }
            td.number { (of_resource("cpu", *cores)) }
            td.number { (of_resource("memory", *memory)) }
            td { (quotas.get(*namespace).map(|quotas| quotas.join(", ")).unwrap_or_default()) }
        }
    });
    let sums = ["Namespace", "Queue", "Applications", "Cores", "Memory", "Used of the namespace's quotas"];
    html! {
        @if rows.is_empty() { p { "There are no applications." } }
        ul.states {
            @for (of, count) in &states {
                @let of = state(*of);
                li { a href=(address("/applications", [("state", of.1)])) { strong { (count) } " " (word(of)) } }
            }
        }
        (table("Waiting longest", &["Application", "State", "For", "Why"], waiting))
        (table("Failed in the last day", &["Reason", "Applications"], reasons))
        (table("Requested at present", &sums, requested))
    }
}

/// Returns the link to an application.
pub(crate) fn link((namespace, name): &Key) -> Markup {
    html! { a href={ "/applications/" (namespace) "/" (name) } { (name) } " " small { (namespace) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::reduced;
    use serde_json::{json, value::to_raw_value};

    #[test]
    fn the_overview_counts_states_and_reasons_and_lists_waiting_applications() {
        let row = |name: &str, state: &str, ended: &str| {
            let spec = json!({
                "type": "Scala", "sparkVersion": "4.0.1", "mainApplicationFile": "local:///app.jar", "driver": {}, "executor": {},
                "batchSchedulerOptions": {"queue": "<data>"},
            });
            let status = json!({
                "applicationState": {"state": state, "errorMessage": "no <room>"}, "driverInfo": {}, "terminationTime": ended,
                "lastSubmissionAttemptTime": format!("{}T11:00:00Z", &ended[..10]), "runs": [{"ordinal": 1, "reason": "OOMKilled"}],
            });
            let metadata = json!({"name": name, "namespace": "team-a"});
            let object =
                to_raw_value(&json!({"metadata": metadata, "spec": spec, "status": status})).unwrap();
            let (key, _, row) = reduced::<Application>(&object);
            (key, row)
        };
        let rows = [
            row("old", "FAILED", "2026-11-01T11:59:00Z"),
            row("new", "FAILED", "2026-11-21T11:59:00Z"),
            row("pi", "SUBMITTED", "2026-11-21T10:59:00Z"),
        ];
        let rows: Vec<_> = rows.iter().map(|(key, row)| (key, row)).collect();
        let quotas = [("team-a".to_owned(), vec!["cpu 3 of <10>".to_owned()])].into();
        let text = content(&rows, &quotas, "2026-11-21T12:00:00Z".parse().unwrap()).into_string();
        for part in include_str!("../../../tests/data/page/overview.txt").lines() {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            content(&[], &Quotas::new(), Timestamp::UNIX_EPOCH)
                .into_string()
                .contains("There are no applications.")
        );
    }
}
