//! The list of applications, filtered, sorted and divided into pages by the server, so that it can have ten thousand
//! rows. The filter is in the URL, which can be sent to a colleague.

use super::{Application, Key, Query, Session, ago, link, now, scope, state, wide, word};
use api::{ApplicationType, State};
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use spark_operator_client::summary;
use std::cmp::Ordering;

/// The number of rows of one page.
const ROWS: usize = 100;
const PATH: &str = "/applications";

type Row<'r> = (&'r Key, &'r Application);
/// A column: its name in the URL and the table, and the comparison of two applications by it.
type Column = (&'static str, fn(&Row<'_>, &Row<'_>, Timestamp) -> Ordering);

const SUBMITTED: Column = ("submitted", |(_, a), (_, b), _| a.submitted.cmp(&b.submitted));
const COLUMNS: [Column; 10] = [
    ("name", |(a, _), (b, _), _| a.1.cmp(&b.1)),
    ("namespace", |(a, _), (b, _), _| a.cmp(b)),
    ("state", |(_, a), (_, b), _| state(a.state).1.cmp(state(b.state).1)),
    ("type", |(_, a), (_, b), _| a.language.cmp(&b.language)),
    ("owner", |(_, a), (_, b), _| a.owner.cmp(&b.owner)),
    ("attempts", |(_, a), (_, b), _| a.attempts.cmp(&b.attempts)),
    ("executors", |(_, a), (_, b), _| (a.running, a.wanted, a.failed).cmp(&(b.running, b.wanted, b.failed))),
    SUBMITTED,
    ("took", |(_, a), (_, b), now| a.took(now).cmp(&b.took(now))),
    ("queue", |(_, a), (_, b), _| a.queue.cmp(&b.queue)),
];

/// Whether the row matches all parameters of the query: the exact values, the search text (`q`), the minimum numbers,
/// the minimum duration (`took`) and the maximum age (`submitted`).
fn is_wanted(query: &Query, (key, row): &Row<'_>, now: Timestamp) -> bool {
    let exact = [
        ("name", &*key.1),
        ("namespace", &*key.0),
        ("state", state(row.state).1),
        ("type", row.language.as_str()),
        ("owner", &*row.owner),
        ("queue", &*row.queue),
    ];
    let has = |text: &str| {
        [&*key.1, &*key.0, &*row.owner, &*row.queue, &*row.reason, &*row.why]
            .iter()
            .any(|of| of.contains(text))
    };
    let numbers = [
        ("attempts", row.attempts),
        ("wanted", row.wanted),
        ("running", row.running.into()),
        ("failed", row.failed.into()),
    ];
    let is_large = |number: i32, least: &str| least.parse().is_ok_and(|least: i32| number >= least);
    let age = row.submitted.map(|submitted| now.duration_since(submitted));
    // Durations are written as `90m` or `1h30m`.
    let lasts = |name, time: Option<SignedDuration>, is: fn(&SignedDuration, &SignedDuration) -> bool| {
        let is = |limit: &str| time.zip(limit.parse().ok()).is_some_and(|(time, limit)| is(&time, &limit));
        query.given(name).is_none_or(is)
    };
    exact.iter().all(|(name, value)| query.given(name).is_none_or(|wanted| wanted == *value))
        && numbers.iter().all(|(name, number)| query.given(name).is_none_or(|least| is_large(*number, least)))
        && lasts("took", row.took(now), SignedDuration::ge)
        && lasts("submitted", age, SignedDuration::le)
        && query.given("q").is_none_or(has)
}

/// Returns the rows that match the query, in its order.
fn wanted<'r>(query: &Query, rows: impl Iterator<Item = Row<'r>>, now: Timestamp) -> Vec<Row<'r>> {
    let mut rows: Vec<_> = rows.filter(|row| is_wanted(query, row, now)).collect();
    let ((_, compare), is_descending) = order(query);
    rows.sort_by(|a, b| compare(a, b, now));
    if is_descending {
        rows.reverse();
    }
    rows
}

/// Returns the column that the list is sorted by, and whether the order is descending. By default, the application that
/// was submitted last is first.
fn order(query: &Query) -> (Column, bool) {
    let column = COLUMNS.into_iter().find(|(word, _)| *word == query.get("sort")).unwrap_or(SUBMITTED);
    (column, query.given("order").map_or(column.0 == SUBMITTED.0, |order| order == "down"))
}

pub(crate) async fn show(session: Session) -> Response {
    let query = &session.query;
    scope::show::<Application>(&session, PATH, "Applications", |rows| {
        let now = now();
        let table = table(query, &wanted(query, rows.into_iter(), now), now);
        html! { (filter(query)) (table) }
    })
    .await
}

fn filter(query: &Query) -> Markup {
    let limited = |name: &str, title: &str, pattern: Option<&str>| {
        html! {
            span {
                label for=(name) { (title) } " "
                input id=(name) name=(name) value=(query.get(name)) pattern=[pattern] title=[pattern.map(|_| title)] size="12";
            }
        }
    };
    let field = |name, title| limited(name, title, None);
    let least = |name, title| limited(name, title, Some(r"\d+"));
    let time = |name, title| limited(name, title, Some(r"(\d+h)?\s*(\d+m)?\s*(\d+s)?"));
    let choice = |name: &str, title: &str, words: &[&str]| {
        html! {
            span {
                label for=(name) { (title) } " "
                select id=(name) name=(name) {
                    option value="" { "all" }
                    @for word in words { option value=(word) selected[query.get(name) == *word] { (word) } }
                }
            }
        }
    };
    html! {
        form action=(PATH) role="search" {
            (field("q", "Search")) (field("namespace", "Namespace"))
            (choice("state", "State", &State::ALL.map(summary::state_name)))
            (choice("type", "Type", &ApplicationType::ALL.map(ApplicationType::as_str)))
            (field("owner", "Owner or schedule")) (field("queue", "Queue"))
            details #more {
                summary { "More" }
                p.links {
                    (field("name", "Name")) (least("attempts", "Attempts, at least"))
                    (least("wanted", "Executors wanted, at least")) (least("running", "Running, at least"))
                    (least("failed", "Failed, at least")) (time("submitted", "Submitted within (2h)"))
                    (time("took", "Took at least (90m)"))
                }
            }
            @for name in ["sort", "order"] {
                @if let Some(value) = query.given(name) { input type="hidden" name=(name) value=(value); }
            }
            button { "Show" } " " a href=(PATH) { "All" }
        }
    }
}

fn table(query: &Query, rows: &[Row<'_>], now: Timestamp) -> Markup {
    let pages = rows.len().div_ceil(ROWS).max(1);
    let number = query.get("page").parse::<usize>().unwrap_or(1).clamp(1, pages);
    let ((column, _), is_descending) = order(query);
    let header = |of: &str| {
        let is_sorted = of == column;
        let next = if is_sorted && !is_descending { "down" } else { "up" };
        let direction = if is_descending { "descending" } else { "ascending" };
        html! {
            th scope="col" aria-sort=[is_sorted.then_some(direction)] {
                a href=(query.with("sort", of).with("order", next).address(PATH)) {
                    (of) @if is_sorted { @if is_descending { " ↓" } @else { " ↑" } }
                }
            }
        }
    };
    let page = |number: usize| query.with("page", &number.to_string()).address(PATH);
    let of_pages = if pages > 1 { format!(", page {number} of {pages}") } else { String::new() };
    let headers = html! { @for (word, _) in COLUMNS { (header(word)) } };
    let cells = |(key, row): &Row<'_>| {
        html! {
            th scope="row" { (link(key)) }
            td { (key.0) }
            td { (word(state(row.state))) @if !row.why.is_empty() { br; small { (row.why) } } }
            td { (row.language.as_str()) }
            td { (row.owner) }
            td.number { (row.attempts) }
            td.number {
                (row.running) " of " (row.wanted)
                @if row.failed > 0 { ", " span.bad { (row.failed) " failed" } }
            }
            td.number { (ago(row.submitted)) }
            td.number { @if let Some(took) = row.took(now) { (summary::short(took.as_secs())) } }
            td { (row.queue) }
        }
    };
    let shown = rows.iter().skip((number - 1) * ROWS).take(ROWS).map(cells);
    html! {
        (wide(&format!("{} applications{of_pages}", rows.len()), &headers, shown))
        @if pages > 1 {
            nav aria-label="Pages of the list" {
                @if number > 1 { a rel="prev" href=(page(number - 1)) { "← Previous" } " " }
                @if number < pages { a rel="next" href=(page(number + 1)) { "Next →" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::reduced;
    use serde_json::{json, value::to_raw_value};

    fn row(number: u32, state: &str) -> (Key, Application) {
        let language = if number == 2 { "Python" } else { "Scala" };
        let spec = json!({"type": language, "sparkVersion": "4.0.1", "driver": {}, "executor": {"instances": number}});
        let status = json!({
            "applicationState": {"state": state}, "driverInfo": {},
            "lastSubmissionAttemptTime": format!("2026-11-21T11:{number:02}:00Z"),
        });
        let metadata = json!({"name": format!("pi-{number}"), "namespace": "team-a"});
        let object = json!({"metadata": metadata, "spec": spec, "status": status});
        let (key, _, row) = reduced(&to_raw_value(&object).unwrap());
        (key, row)
    }

    fn names(rows: &[(Key, Application)], query: &str) -> Vec<String> {
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let rows = rows.iter().map(|(key, row)| (key, row));
        wanted(&Query::of(query.as_bytes()), rows, now).iter().map(|(key, _)| key.1.to_string()).collect()
    }

    #[test]
    fn the_query_filters_and_sorts() {
        let rows = [row(1, "RUNNING"), row(3, "FAILED"), row(2, "RUNNING")];
        let cases = include_str!("../../../tests/data/page/queries.json");
        for (query, expected) in serde_json::from_str::<Vec<(String, Vec<String>)>>(cases).unwrap() {
            assert_eq!(names(&rows, &query), expected, "{query}");
        }
        for (column, _) in COLUMNS {
            assert_eq!(names(&rows, &format!("sort={column}")).len(), 3, "{column}");
        }
    }

    #[test]
    fn a_long_list_has_pages_and_an_invalid_page_number_is_corrected() {
        let rows: Vec<_> = (0..250).map(|number| row(number % 60, "RUNNING")).collect();
        let shown = |page: &str| {
            let (query, now) =
                (Query::of(format!("page={page}&state=RUNNING").as_bytes()), Timestamp::UNIX_EPOCH);
            let rows = wanted(&query, rows.iter().map(|(key, row)| (key, row)), now);
            table(&query, &rows, now).into_string()
        };
        assert!(shown("2").contains(r#"<caption>250 applications, page 2 of 3</caption>"#));
        assert!(shown("2").contains(r#"href="/applications?state=RUNNING&amp;page=3">Next"#));
        assert_eq!(shown("3").matches("<tr>").count(), 51);
        assert!(shown("99").contains("page 3 of 3") && shown("x").contains("page 1 of 3"));
        assert!(shown("1").contains(r#"aria-sort="descending"><a href="/applications?page=1&amp;state=RUNNING&amp;sort=submitted&amp;order=up">"#));
    }
}
