//! The page of one schedule: when it is due, in words and as times, and what became of its applications.

use super::{
    actions::{Action, buttons},
    callers::Caller,
    entry::Session,
    found::named,
    layout::{ago, page, state, tone},
    now,
    query::address,
    reads,
    refusal::Refusal,
    scope,
};
use api::{Lenient, ScheduledSparkApplication, printable::lines, summary};
use axum::{extract::Path, http::StatusCode, response::Response};
use cron::{Schedule, Slots, Zone};
use jiff::{Timestamp, tz::TimeZone};
use kube::Resource;
use maud::{Markup, html};
use std::{iter::successors, time::Duration};

/// How often an open page is made anew.
const PAUSE: Duration = Duration::from_secs(3);
/// How many times to come are shown, and how many applications of the past.
const TIMES: usize = 5;
const PAST: usize = 40;

pub(crate) async fn show(
    session: Session,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    named(&namespace, &name)?;
    if session.after.is_some() {
        tokio::time::sleep(PAUSE).await;
    }
    let path = format!("{}/{name}", ScheduledSparkApplication::url_path(&(), Some(&namespace)));
    let object = reads::object(&session.caller.client, &path).await?;
    let schedule = Lenient::<ScheduledSparkApplication>::parse(&object).0.0.map_err(|invalid| {
        let words = format!("The schedule cannot be read: {}", invalid.error);
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, words)
    })?;
    let pause = if schedule.spec.suspend == Some(true) { Action::Resume } else { Action::Suspend };
    let actions = [pause, Action::Trigger, Action::Delete];
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
    Ok(page(Some(&session.visitor), &name, Some(1), &content))
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
    Some(Slots::new(&Schedule::parse(&schedule.spec.schedule).ok()?, &zone, &TimeZone::UTC, since))
}

/// Returns a bar for each of the latest applications of the schedule: its colour and its word say what became of it.
async fn past(session: &Session, namespace: &str, name: &str) -> Markup {
    let Ok(list) = scope::known(session, namespace, Caller::applications).await else {
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
