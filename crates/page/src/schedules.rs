//! The list of schedules, with their last and next times.

use super::{
    callers::Caller,
    entry::Session,
    layout::{ago, page, table, trouble},
    query::Query,
    rows::{Key, Schedule},
    scope,
};
use axum::{extract::RawQuery, response::Response};
use maud::{Markup, html};

const PATH: &str = "/schedules";
/// The most rows that are shown. More are found by their namespace.
const ROWS: usize = 500;

pub(crate) async fn show(session: Session, RawQuery(query): RawQuery) -> Response {
    let query = Query::of(query.unwrap_or_default().as_bytes());
    let namespace = query.given("namespace");
    match scope::list(&session, PATH, namespace, Caller::schedules).await {
        Ok(list) => {
            let table = list.read(|rows| {
                let is_here = |key: &Key| namespace.is_none_or(|namespace| *key.0 == *namespace);
                schedules(rows.iter().filter(|(key, _)| is_here(key)).take(ROWS))
            });
            let content = html! {
                (trouble(list.trouble().as_deref()))
                form action=(PATH) role="search" {
                    label for="namespace" { "Namespace" } " "
                    input #namespace name="namespace" value=(query.get("namespace"));
                    " " button { "Show" }
                }
                (table)
            };
            page(Some(&session.visitor), "Schedules", Some(list.version()), &content)
        }
        Err(instead) => instead,
    }
}

fn schedules<'r>(rows: impl Iterator<Item = (&'r Key, &'r Schedule)>) -> Markup {
    let titles = ["Name", "Namespace", "When", "Last", "Last application", "Next", "State"];
    table(
        "Schedules",
        &titles,
        &html! {
            @for (key, row) in rows { tr {
                th scope="row" { a href={ "/schedules/" (key.0) "/" (key.1) } { (key.1) } }
                td { (key.0) }
                td { code { (row.when.as_deref().unwrap_or_default()) } " " small { (row.zone) } }
                td.number { (ago(row.last)) }
                td { (row.last_name) }
                td.number { (ago(row.next)) }
                td { (state(row)) @if !row.why.is_empty() { br; small { (row.why) } } }
            } }
        },
    )
}

/// Returns how the schedule is: a word, and a colour that means the same.
fn state(row: &Schedule) -> Markup {
    let (tone, word) = match row {
        Schedule { when: None, .. } => ("bad", "UNREADABLE"),
        Schedule { is_suspended: true, .. } => ("wait", "SUSPENDED"),
        Schedule { why, .. } if !why.is_empty() => ("bad", "FAILED VALIDATION"),
        Schedule { .. } => ("good", "SCHEDULED"),
    };
    html! { span class={ "state " (tone) } { (word) } }
}
