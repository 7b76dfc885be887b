//! The first page: how many applications are in each state, what has failed, and what waits longest.

use super::{
    callers::Caller,
    entry::Session,
    layout::{ago, duration, state, table},
    now,
    query::address,
    rows::{Application, Key},
    scope,
};
use api::State;
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use std::{cmp::Reverse, collections::BTreeMap};

/// The age up to which a failure counts as new.
const LATELY: SignedDuration = SignedDuration::from_hours(24);
/// The most rows of each table.
const MOST: usize = 12;

pub(crate) async fn show(session: Session) -> Response {
    scope::show(&session, "/", "Overview", Caller::applications, |rows| content(&rows, now())).await
}

fn content(rows: &[(&Key, &Application)], now: Timestamp) -> Markup {
    let mut states = BTreeMap::<Option<State>, usize>::new();
    let mut reasons = BTreeMap::<&str, usize>::new();
    let mut waiting = Vec::new();
    for (key, row) in rows {
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
    html! {
        @if rows.is_empty() { p { "There are no applications." } }
        ul.states {
            @for (of, count) in &states {
                @let name = of.map_or("UNREADABLE", api::summary::state_name);
                li { a href=(address("/applications", [("state", name)].into_iter())) { strong { (count) } " " (state(*of)) } }
            }
        }
        @if !waiting.is_empty() {
            (table("Waiting longest", &["Application", "State", "For", "Why"], &html! {
                @for (since, key, row) in waiting.iter().take(MOST) { tr {
                    th scope="row" { (link(key)) }
                    td { (state(row.state)) }
                    td.number { (duration(*since, now)) }
                    td { (row.why) }
                } }
            }))
        }
        @if !reasons.is_empty() {
            (table("Failed in the last day", &["Reason", "Applications"], &html! {
                @for (reason, count) in reasons.iter().take(MOST) { tr {
                    @let words = if reason.is_empty() { "without a reason" } else { *reason };
                    th scope="row" { a href=(address("/applications", [("state", "FAILED"), ("q", *reason)].into_iter())) { (words) } }
                    td.number { (count) }
                } }
            }))
        }
    }
}

/// Returns the link to an application.
pub(crate) fn link((namespace, name): &Key) -> Markup {
    html! { a href={ "/applications/" (namespace) "/" (name) } { (name) } " " small { (namespace) } }
}

/// Returns when an application was submitted and how long it took, as two cells.
pub(crate) fn times(row: &Application, now: Timestamp) -> Markup {
    let ended = row.ended.filter(|ended| row.submitted.is_none_or(|submitted| *ended >= submitted));
    html! {
        td.number { (ago(row.submitted)) }
        td.number { @if let Some(submitted) = row.submitted { (duration(submitted, ended.unwrap_or(now))) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::application;
    use serde_json::{json, value::to_raw_value};

    #[test]
    fn an_overview_counts_states_and_reasons_and_names_what_waits() {
        let row = |name: &str, state: &str, ended: &str| {
            let spec = json!({"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}});
            let status = json!({
                "applicationState": {"state": state, "errorMessage": "no <room>"}, "driverInfo": {}, "terminationTime": ended,
                "lastSubmissionAttemptTime": "2026-11-21T11:00:00Z", "runs": [{"ordinal": 1, "reason": "OOMKilled"}],
            });
            let metadata = json!({"name": name, "namespace": "team-a"});
            let object =
                to_raw_value(&json!({"metadata": metadata, "spec": spec, "status": status})).unwrap();
            let reduced = application(&object);
            (reduced.key, reduced.row)
        };
        let rows = [
            row("old", "FAILED", "2026-11-01T11:59:00Z"),
            row("new", "FAILED", "2026-11-21T11:59:00Z"),
            row("pi", "SUBMITTED", "2026-11-01T11:59:00Z"),
        ];
        let rows: Vec<_> = rows.iter().map(|(key, row)| (key, row)).collect();
        let text = content(&rows, "2026-11-21T12:00:00Z".parse().unwrap()).into_string();
        for part in [
            r#"<a href="/applications?state=FAILED"><strong>2</strong> <span class="state bad">FAILED</span></a>"#,
            r#"<td class="number">1h</td><td>no &lt;room&gt;</td>"#,
            r#"<a href="/applications?state=FAILED&amp;q=OOMKilled">OOMKilled</a></th><td class="number">1</td>"#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(content(&[], Timestamp::UNIX_EPOCH).into_string().contains("There are no applications."));
    }
}
