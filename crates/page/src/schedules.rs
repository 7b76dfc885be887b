//! The list of schedules, and the page of one: how it is and when it is due.

use super::{
    actions::{Action, buttons},
    callers::Caller,
    entry::Session,
    layout::{ago, page, table},
    now,
    query::address,
    reads,
    refusal::Refusal,
    rows::{Key, Schedule},
    scope::{self, chooser},
};
use api::{ScheduledSparkApplication, printable::lines};
use axum::{extract::Path, response::Response};
use cron::{Slots, Zone};
use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};
use std::iter::successors;

const PATH: &str = "/schedules";
/// The most rows that are shown. More are found by their namespace.
const ROWS: usize = 500;
/// The number of times to come that are shown.
const TIMES: usize = 5;

pub(crate) async fn list(session: Session) -> Response {
    let namespace = session.query.get("namespace");
    scope::show(&session, PATH, "Schedules", Caller::schedules, |rows| {
        html! { (chooser(PATH, namespace)) (schedules(&rows[..rows.len().min(ROWS)])) }
    })
    .await
}

fn schedules(rows: &[(&Key, &Schedule)]) -> Markup {
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
                td { (word(row)) @if !row.why.is_empty() { br; small { (row.why) } } }
            } }
        },
    )
}

/// Returns how the schedule is: a word, and a colour that means the same.
fn word(row: &Schedule) -> Markup {
    let (tone, word) = match row {
        Schedule { when: None, .. } => ("bad", "UNREADABLE"),
        Schedule { is_suspended: true, .. } => ("wait", "SUSPENDED"),
        Schedule { why, .. } if !why.is_empty() => ("bad", "FAILED VALIDATION"),
        Schedule { .. } => ("good", "SCHEDULED"),
    };
    html! { span class={ "state " (tone) } { (word) } }
}

pub(crate) async fn show(
    session: Session,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let (schedule, _) =
        reads::object::<ScheduledSparkApplication>(&session.caller.client, &namespace, &name).await?;
    let pause = if schedule.spec.suspend == Some(true) { Action::Resume } else { Action::Suspend };
    let actions = [pause, Action::Trigger];
    let buttons = buttons::<ScheduledSparkApplication>(&session, &namespace, &name, &actions).await;
    let content = html! {
        (sentence(&schedule))
        (buttons)
        h2 { "Next times" }
        (next(&schedule, now()))
        p {
            a href=(address("/applications", [("namespace", &*namespace), ("owner", &*name)].into_iter())) {
                "Its applications, and what became of them"
            }
        }
    };
    Ok(page(Some(&session.visitor), &name, true, &content))
}

fn sentence(schedule: &ScheduledSparkApplication) -> Markup {
    let reason = schedule.status.as_ref().and_then(|status| status.reason.as_deref()).unwrap_or_default();
    let is_suspended = schedule.spec.suspend == Some(true);
    let class = if !reason.is_empty() {
        "bad"
    } else if is_suspended {
        "wait"
    } else {
        "good"
    };
    html! {
        p class={ "sentence " (class) } {
            "Due at " code { (lines(&schedule.spec.schedule)) }
            @if let Some(zone) = &schedule.spec.time_zone { ", " (lines(zone)) }
            @if is_suspended { ": suspended, so nothing is made" }
            @if !reason.is_empty() { ": " (lines(reason)) }
        }
    }
}

fn next(schedule: &ScheduledSparkApplication, now: Timestamp) -> Markup {
    let first = schedule.status.as_ref().and_then(|status| status.next_run.as_ref()).map(|time| time.0);
    let Some(first) = first.filter(|_| schedule.spec.suspend != Some(true)) else {
        return html! { p { "None." } };
    };
    let slots = slots(schedule);
    let times = successors(Some(first), |last| slots.as_ref()?.after(*last)).take(TIMES);
    html! {
        ul {
            @for time in times { li { (maud::display(time)) " (" (ago(Some(time))) ")" } }
        }
        @if slots.is_none() && first > now { p { small { "Later ones depend on the time zone of the operator." } } }
    }
}

/// Returns the times of the schedule, if they do not depend on the operator's own time zone.
fn slots(schedule: &ScheduledSparkApplication) -> Option<Slots> {
    let zone = schedule.spec.time_zone.as_deref().filter(|zone| !["", "Local"].contains(zone))?;
    let zone = Zone::parse(zone).ok()?;
    let since = schedule.status.as_ref()?.scheduled_since.as_ref()?.0;
    Some(Slots::new(&cron::Schedule::parse(&schedule.spec.schedule).ok()?, &zone, &TimeZone::UTC, since))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn times_to_come_follow_the_zone_of_the_schedule() {
        let schedule: ScheduledSparkApplication = from_value(json!({
            "metadata": {"name": "nightly"},
            "spec": {
                "schedule": "30 2 * * *", "timeZone": "Europe/Berlin",
                "template": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}},
            },
            "status": {"nextRun": "2026-03-28T01:30:00Z", "scheduledSince": "2026-03-01T00:00:00Z"},
        }))
        .unwrap();
        let shown = next(&schedule, Timestamp::UNIX_EPOCH).into_string();
        // On the day at which the clock is put forward there is no half past two.
        assert!(shown.contains("2026-03-28T01:30:00Z") && shown.contains("2026-03-30T00:30:00Z"), "{shown}");
    }
}
