//! The list of schedules, and the page of one: its state, its next times and the results of its applications.

use super::{
    Action, Application, Key, Named, Result, Schedule, Session, UNREADABLE, address, ago, buttons, in_words,
    now, outcomes, scope, trouble, word,
};
use api::ScheduledSparkApplication;
use axum::{extract::Path, response::Response};
use cron::{Slots, Zone};
use futures::future::join;
use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};
use spark_operator_client::{printable::lines, summary::Tone};
use std::iter::successors;

/// The number of next times that are shown.
const TIMES: usize = 5;

pub(crate) async fn list(session: Session) -> Response {
    let titles = ["When", "Last", "Last application", "Next", "State"];
    scope::table::<Schedule>(&session, "/schedules", "Schedules", &titles, cells).await
}

fn cells(row: &Schedule) -> Markup {
    let state = row.when.as_ref().map_or(UNREADABLE, |_| state(row.is_suspended, &row.why));
    html! {
        td { code { (row.when.as_deref().unwrap_or_default()) } " " small { (row.zone) } }
        td.number { (ago(row.last)) }
        td { (row.last_name) }
        td.number { (ago(row.next)) }
        td { (word(state)) @if !row.why.is_empty() { br; small { (row.why) } } }
    }
}

/// Returns the colour and the word for the state of a schedule.
fn state(is_suspended: bool, why: &str) -> (Tone, &'static str) {
    match (is_suspended, why) {
        (true, _) => (Tone::Wait, "SUSPENDED"),
        (false, "") => (Tone::Good, "SCHEDULED"),
        (false, _) => (Tone::Bad, "FAILED VALIDATION"),
    }
}

pub(crate) async fn show(session: Session, Path((namespace, name)): Named) -> Result<Response> {
    let (schedule, _) = session.caller.reader.object::<ScheduledSparkApplication>(&namespace, &name).await?;
    let (is_suspended, trigger) = (schedule.spec.suspend == Some(true), Some(Action::Trigger));
    let (buttons, applications) = join(
        buttons(&session, &schedule, is_suspended, trigger),
        scope::list::<Application>(&session, Some(&namespace)),
    )
    .await;
    let now = now();
    let content = html! {
        (sentence(&schedule))
        (buttons)
        h2 { "Next times" }
        (next(&schedule, now))
        h2 { "Results of its applications" }
        @match applications {
            Ok(list) => (list.read(|rows| {
                let its = |(key, row): &&(&Key, &Application)| *key.0 == *namespace && *row.owner == *name;
                outcomes(rows.iter().filter(its).copied().collect(), now)
            })),
            Err(refusal) => (trouble(Some(&refusal.words))),
        }
        p {
            a href=(address("/applications", [("namespace", &*namespace), ("owner", &*name)])) {
                "All its applications"
            }
        }
    };
    Ok(session.document(&name, true, &content))
}

fn sentence(schedule: &ScheduledSparkApplication) -> Markup {
    let reason = schedule.status.as_ref().and_then(|status| status.reason.as_deref()).unwrap_or_default();
    let is_suspended = schedule.spec.suspend == Some(true);
    html! {
        p class={ "sentence " (state(is_suspended, reason).0.as_str()) } {
            @if let Ok(parsed) = cron::Schedule::parse(&schedule.spec.schedule) { "Due " (in_words(&parsed.rhythm)) ": " }
            code { (lines(&schedule.spec.schedule)) }
            @if let Some(zone) = &schedule.spec.time_zone { ", " (lines(zone)) }
            @if is_suspended { ": suspended, so no application is created" }
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
        @if slots.is_none() && first > now { p { small { "Later times depend on the time zone of the operator." } } }
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
    fn next_times_are_in_the_time_zone_of_the_schedule() {
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
        // On 29 March 2026, daylight saving time begins, and there is no 02:30 in Berlin.
        assert!(shown.contains("2026-03-28T01:30:00Z") && shown.contains("2026-03-30T00:30:00Z"), "{shown}");
    }
}
