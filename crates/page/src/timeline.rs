//! Draws the runs of an application and its pods along a line of time. The tables beside it say the same in words.

use super::{
    found::PodRow,
    layout::{duration, tone},
};
use api::{SparkApplication, State, summary};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use maud::{Markup, html};

/// The most bars: an application keeps ten runs, and of many executors the first show how they went.
const MOST: usize = 40;
/// The width of the picture in its own units, that of its names, and the height of a bar with its gap.
const WIDTH: i64 = 1_000;
const NAMES: i64 = 180;
const HEIGHT: i64 = 20;

struct Bar {
    name: String,
    title: String,
    tone: &'static str,
    from: Timestamp,
    to: Timestamp,
}

/// Returns the picture; nothing if nothing has begun yet.
pub(crate) fn timeline(application: &SparkApplication, pods: &[PodRow], now: Timestamp) -> Markup {
    let mut bars: Vec<_> =
        runs(application, now).chain(pods.iter().filter_map(|pod| of_pod(pod, now))).collect();
    bars.truncate(MOST);
    let Some(begin) = bars.iter().map(|bar| bar.from).min() else { return Markup::default() };
    let end = bars.iter().map(|bar| bar.to).max().unwrap_or(now);
    let all = end.duration_since(begin).as_millis().max(1);
    let place = |time: Timestamp| {
        let part = i128::from(WIDTH - NAMES) * time.duration_since(begin).as_millis() / all;
        NAMES + i64::try_from(part).unwrap_or_default()
    };
    let height = HEIGHT * i64::try_from(bars.len()).unwrap_or_default() + HEIGHT;
    html! {
        svg.timeline viewBox={ "0 0 " (WIDTH) " " (height) } role="img"
            aria-label={ "Runs and pods in " (duration(begin, end)) } {
            @for (row, bar) in (0_i64..).zip(&bars) {
                @let (from, top) = (place(bar.from), row * HEIGHT + 4);
                text x="8" y=(top + 12) { (bar.name) }
                rect class=(bar.tone) x=(from) y=(top) width=((place(bar.to) - from).max(2)) height="14" rx="2" {
                    title { (bar.title) }
                }
            }
            text x=(NAMES) y=(height - 5) { (maud::display(begin.strftime("%F %T"))) }
            text x=(WIDTH - 8) y=(height - 5) text-anchor="end" { "+ " (duration(begin, end)) }
        }
    }
}

fn runs(application: &SparkApplication, now: Timestamp) -> impl Iterator<Item = Bar> {
    let status = application.status.as_ref();
    let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
    status.into_iter().flat_map(move |status| {
        status.runs.iter().filter_map(move |run| {
            let is_present = status.run_ordinal == Some(run.ordinal);
            let state = run.state.or(is_present.then_some(status.application_state.state));
            let end = time(&run.finished_time).or(is_present.then_some(now))?;
            let from = time(&run.submitted_time)?;
            let name = format!("run {}", run.ordinal);
            let title = format!("{name}: {}", summary::state_name(state.unwrap_or(State::Unknown)));
            Some(Bar { name, title, tone: tone(state), from, to: end.max(from) })
        })
    })
}

fn of_pod(pod: &PodRow, now: Timestamp) -> Option<Bar> {
    let tone = match pod.phase.as_str() {
        "Running" => "busy",
        "Succeeded" => "good",
        "Failed" => "bad",
        _ => "wait",
    };
    let from = pod.began?;
    let name: String = pod.name.chars().rev().take(24).collect::<Vec<_>>().into_iter().rev().collect();
    let title = format!("{}: {} {}", pod.name, pod.phase, pod.why);
    Some(Bar { name, title, tone, from, to: pod.ended.unwrap_or(now).max(from) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_run_is_a_bar_from_its_beginning_to_its_end() {
        let application = |runs| -> SparkApplication {
            from_value(json!({
                "metadata": {"name": "pi"},
                "spec": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}},
                "status": {"applicationState": {"state": "RUNNING"}, "driverInfo": {}, "runOrdinal": 2, "runs": runs},
            }))
            .unwrap()
        };
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        assert_eq!(timeline(&application(json!([])), &[], now).into_string(), "");
        let runs = json!([
            {"ordinal": 1, "state": "FAILED", "submittedTime": "2026-11-21T11:00:00Z", "finishedTime": "2026-11-21T11:30:00Z"},
            {"ordinal": 2, "submittedTime": "2026-11-21T11:30:00Z"},
            {"ordinal": 3},
        ]);
        let picture = timeline(&application(runs), &[], now).into_string();
        for part in [
            r#"viewBox="0 0 1000 60" role="img" aria-label="Runs and pods in 1h""#,
            r#"<rect class="bad" x="180" y="4" width="410" height="14" rx="2"><title>run 1: FAILED</title></rect>"#,
            r#"<rect class="busy" x="590" y="24" width="410" height="14" rx="2"><title>run 2: RUNNING</title></rect>"#,
        ] {
            assert!(picture.contains(part), "{part}: {picture}");
        }
        assert_eq!(picture.matches("<rect").count(), 2);
    }
}
