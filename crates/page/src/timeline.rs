//! Draws the runs and pods of an application on a timeline, and the applications of a schedule as bars. The same
//! information is on the page, or on one that it links to, as text.

use super::{Application, Key, duration, state};
use api::{RunRecord, SparkApplication, SparkApplicationStatus, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use maud::{Markup, html};
use spark_operator_client::summary::{self, Tone};

/// The maximum number of bars: up to ten runs, then the first pods.
const MOST: usize = 40;
/// The width of the picture and of the column of names, and the height of a bar with its gap, in units of the SVG.
const WIDTH: i64 = 1_000;
const NAMES: i64 = 180;
const HEIGHT: i64 = 20;

/// A bar of the picture: a run or a pod.
#[derive(Debug)]
pub(crate) struct Bar {
    pub name: String,
    pub title: String,
    pub tone: Tone,
    pub from: Timestamp,
    pub to: Timestamp,
}

/// Returns the picture. Empty if no run and no pod has started yet.
pub(crate) fn timeline(application: &SparkApplication, pods: Vec<Bar>, now: Timestamp) -> Markup {
    let status = application.status.iter();
    let runs = status.flat_map(|status| status.runs.iter().filter_map(move |run| of_run(status, run, now)));
    let bars: Vec<_> = runs.chain(pods).take(MOST).collect();
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
                rect class=(bar.tone.as_str()) x=(from) y=(top) width=((place(bar.to) - from).max(2)) height="14" rx="2" {
                    title { (bar.title) }
                }
            }
            text x=(NAMES) y=(height - 5) { (maud::display(begin.strftime("%F %T"))) }
            text x=(WIDTH - 8) y=(height - 5) text-anchor="end" { "+ " (duration(begin, end)) }
        }
    }
}

/// Returns the state of a run, and when it was submitted and finished. The present run has the application's state, and
/// `now` as its end while it is not finished.
pub(crate) fn phase(
    status: &SparkApplicationStatus,
    run: &RunRecord,
    now: Timestamp,
) -> (Option<State>, Option<Timestamp>, Option<Timestamp>) {
    let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
    let is_present = status.run_ordinal == Some(run.ordinal);
    let state = run.state.or(is_present.then_some(status.application_state.state));
    (state, time(&run.submitted_time), time(&run.finished_time).or(is_present.then_some(now)))
}

fn of_run(status: &SparkApplicationStatus, run: &RunRecord, now: Timestamp) -> Option<Bar> {
    let (is, from, end) = phase(status, run, now);
    let (from, name) = (from?, format!("run {}", run.ordinal));
    let (tone, word) = state(Some(is.unwrap_or(State::Unknown)));
    Some(Bar { title: format!("{name}: {word}"), name, tone, from, to: end?.max(from) })
}

/// Returns a bar for each of the latest applications of a schedule: its height is the duration and its colour the
/// state. The latest is on the right.
pub(crate) fn outcomes(mut rows: Vec<(&Key, &Application)>, now: Timestamp) -> Markup {
    rows.sort_by_key(|(_, row)| row.created);
    let rows = &rows[rows.len().saturating_sub(MOST)..];
    let took = |row: &Application| row.took(now).map_or(0, |took| took.as_secs().max(0));
    let (longest, width) =
        (rows.iter().map(|(_, row)| took(row)).max().unwrap_or_default().max(1), WIDTH / 40);
    let failed = rows.iter().filter(|(_, row)| state(row.state).0 == Tone::Bad).count();
    html! {
        @if !rows.is_empty() {
            svg.timeline viewBox={ "0 0 " (WIDTH) " 120" } role="img"
                aria-label={ "The last " (rows.len()) " applications, of which " (failed) " have failed" } {
                @for (place, (key, row)) in (0_i64..).zip(rows) {
                    @let (height, (tone, word)) = (4 + 110 * took(row) / longest, state(row.state));
                    rect class=(tone.as_str()) x=(place * width + 2) y=(118 - height) width=(width - 4) height=(height) rx="2" {
                        title { (key.1) ": " (word) " in " (summary::short(took(row))) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn applications_of_a_schedule_are_bars_as_high_as_their_durations() {
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let row = |state, submitted: &str, ended: &str| {
            let [created, submitted] = [submitted, submitted].map(|time| time.parse().ok());
            Application {
                state: Some(state),
                created,
                submitted,
                ended: ended.parse().ok(),
                ..Application::default()
            }
        };
        let key = |name: &str| -> Key { ("team-a".into(), name.into()) };
        let rows = [
            (key("nightly-2"), row(State::Failed, "2026-11-21T11:30:00Z", "2026-11-21T11:45:00Z")),
            (key("nightly-1"), row(State::Completed, "2026-11-21T10:00:00Z", "2026-11-21T10:30:00Z")),
            (key("nightly-3"), row(State::New, "", "")),
        ];
        let picture = outcomes(rows.iter().map(|(key, row)| (key, row)).collect(), now).into_string();
        for part in include_str!("../../../tests/data/page/outcomes.txt").lines() {
            assert!(picture.contains(part), "{part}: {picture}");
        }
        assert_eq!(outcomes(Vec::new(), now).into_string(), "");
    }

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
        assert_eq!(timeline(&application(json!([])), Vec::new(), now).into_string(), "");
        let runs = json!([
            {"ordinal": 1, "state": "FAILED", "submittedTime": "2026-11-21T11:00:00Z", "finishedTime": "2026-11-21T11:30:00Z"},
            {"ordinal": 2, "submittedTime": "2026-11-21T11:30:00Z"},
            {"ordinal": 3},
        ]);
        let picture = timeline(&application(runs), Vec::new(), now).into_string();
        for part in include_str!("../../../tests/data/page/timeline.txt").lines() {
            assert!(picture.contains(part), "{part}: {picture}");
        }
        assert_eq!(picture.matches("<rect").count(), 2);
    }
}
