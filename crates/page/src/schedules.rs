//! The list of schedules, and the page of one: when it is due, in words and as times, and what became of its applications.

use super::{
    actions::{Action, buttons},
    callers::Caller,
    entry::Session,
    layout::{ago, page, state, table, tone},
    now,
    query::address,
    reads,
    refusal::Refusal,
    rows::{Key, Schedule},
    scope::{self, chooser},
};
use api::{ScheduledSparkApplication, printable::lines, summary};
use axum::{extract::Path, response::Response};
use cron::{Slots, Zone};
use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};
use std::iter::successors;

const PATH: &str = "/schedules";
/// The most rows that are shown. More are found by their namespace.
const ROWS: usize = 500;
/// How many times to come are shown, and how many applications of the past.
const TIMES: usize = 5;
const PAST: usize = 40;

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
    let past = past(&session, &namespace, &name).await;
    let content = html! {
        (sentence(&schedule))
        (buttons)
        h2 { "Next times" }
        (next(&schedule, now()))
        h2 { "Applications" }
        (past)
        p {
            a href=(address("/applications", [("namespace", &*namespace), ("owner", &*name)].into_iter())) {
                "All applications of this schedule"
            }
        }
    };
    Ok(page(Some(&session.visitor), &name, true, &content))
}

fn sentence(schedule: &ScheduledSparkApplication) -> Markup {
    let reason = schedule.status.as_ref().and_then(|status| status.reason.as_deref()).unwrap_or_default();
    let (expression, zone) = (&schedule.spec.schedule, schedule.spec.time_zone.as_deref());
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
            @match words(expression) {
                Some(words) => { (words) " (" code { (lines(expression)) } ")" },
                None => code { (lines(expression)) },
            }
            @if let Some(zone) = zone { ", " (lines(zone)) }
            @if is_suspended { ": suspended, so nothing is made" }
            @if !reason.is_empty() { ": " (lines(reason)) }
        }
    }
}

/// Returns what a usual expression means, in words; none for others.
fn words(expression: &str) -> Option<String> {
    let fields: Vec<_> = expression.split_whitespace().collect();
    let number = |text: &str| text.parse::<u8>().ok();
    match fields[..] {
        ["@hourly"] => Some("every hour".to_owned()),
        ["@daily" | "@midnight"] => Some("every day at midnight".to_owned()),
        ["@weekly"] => Some("every Sunday at midnight".to_owned()),
        ["@monthly"] => Some("on the first of every month at midnight".to_owned()),
        ["@yearly" | "@annually"] => Some("on the first of January at midnight".to_owned()),
        ["@every", period] => Some(format!("every {period}")),
        ["*", "*", "*", "*", "*"] => Some("every minute".to_owned()),
        [minute, "*", "*", "*", "*"] => match minute.strip_prefix("*/") {
            Some(step) => Some(format!("every {} minutes, counted from the full hour", number(step)?)),
            None => Some(format!("every hour at minute {}", number(minute)?)),
        },
        [minute, hour, "*", "*", days] => {
            let time = format!("{:02}:{:02}", number(hour)?, number(minute)?);
            let names =
                ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
            match days {
                "*" => Some(format!("every day at {time}")),
                "1-5" | "MON-FRI" => Some(format!("from Monday to Friday at {time}")),
                day => Some(format!("every {} at {time}", names.get(usize::from(number(day)?))?)),
            }
        }
        _ => None,
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

/// Returns a bar for each of the latest applications of the schedule: its colour and its word say what became of it.
async fn past(session: &Session, namespace: &str, name: &str) -> Markup {
    let Ok(list) = scope::known(session, Some(namespace), Caller::applications).await else {
        return html! { p { "You may not list applications here." } };
    };
    list.read(|rows| {
        let mut of_schedule: Vec<_> =
            rows.iter().filter(|(key, row)| *key.0 == *namespace && *row.owner == *name).collect();
        of_schedule.sort_by_key(|(_, row)| row.created);
        let latest = of_schedule.split_off(of_schedule.len().saturating_sub(PAST));
        html! {
            @if latest.is_empty() { p { "There are none." } }
            ul.states {
                @for (key, row) in latest {
                    li {
                        a class=(tone(row.state)) href={ "/applications/" (key.0) "/" (key.1) }
                            title={ (key.1) ": " (row.state.map_or("UNREADABLE", summary::state_name)) } {
                            (state(row.state)) " " small { (ago(row.created)) }
                        }
                    }
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn usual_expressions_are_told_in_words() {
        for (expression, told) in [
            ("@daily", "every day at midnight"),
            ("@every 90m", "every 90m"),
            ("*/15 * * * *", "every 15 minutes, counted from the full hour"),
            ("30 2 * * *", "every day at 02:30"),
            ("0 6 * * 1-5", "from Monday to Friday at 06:00"),
            ("5 0 * * 0", "every Sunday at 00:05"),
        ] {
            assert_eq!(words(expression).as_deref(), Some(told), "{expression}");
        }
        for odd in ["", "1,2 * * * *", "0 0 1 * *", "0 0 * * 9", "TZ=UTC 0 0 * * *", "<b>"] {
            assert_eq!(words(odd), None, "{odd}");
        }
    }

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
