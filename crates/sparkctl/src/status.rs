//! `sparkctl status`: shows the state of an application, its runs and its latest events. The output begins with the
//! reason of a failure.

use super::{
    cluster::{Cluster, Kind},
    completion, events,
    failure::of_call,
    log, names,
    show::{
        self, NONE, Output, Style, batch_scheduler, columns, executors, or_none, print, reference, short, ui,
        whole,
    },
    yaml::line,
};
use api::{RunRecord, SparkApplication, SparkApplicationStatus};
use clap::Args;
use clap_complete::ArgValueCompleter;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use spark_operator_client::summary::{self, has_failed, why_it_ended};
use std::fmt::Write;

#[derive(Debug, Args)]
#[command(after_help = "Example: sparkctl status spark-pi")]
pub(super) struct Flags {
    /// The application
    #[arg(value_parser = names::application, add = ArgValueCompleter::new(completion::applications))]
    name: String,

    /// The form of the output [default: text for people]
    #[arg(short, long, value_name = "FORM")]
    output: Option<Output>,
}

/// How many lines of the log of a failed driver are shown; `sparkctl log` shows all.
const LOG_LINES: i64 = 15;

pub(super) async fn status(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    if let Some(text) = for_programs::<SparkApplication>(cluster, &flags.name, flags.output).await? {
        return print(&text);
    }
    let application = cluster.application(&flags.name).await?;
    let style = Style::of_stdout();
    let events = events::latest(cluster, &application, style).await?;
    let words = match has_failed(&application) {
        true => log::last_lines(cluster, &application, LOG_LINES).await,
        false => None,
    };
    print(&(text(&application, words.as_deref(), style)? + &events))
}

/// Returns the object in the form that `output` names; `None` if that is the text for people.
pub(super) async fn for_programs<K: Kind>(
    cluster: &Cluster,
    name: &str,
    output: Option<Output>,
) -> anyhow::Result<Option<String>> {
    match output {
        Some(output @ (Output::Json | Output::Yaml)) => {
            let object = cluster.whole::<K>().get(name).await.map_err(of_call)?;
            whole(&serde_json::to_value(object)?, output == Output::Json).map(Some)
        }
        Some(Output::Name) => {
            let found = cluster.api::<K>().get_metadata(name).await.map_err(of_call)?;
            Ok(Some(reference::<K>(&found)))
        }
        Some(Output::Wide) | None => Ok(None),
    }
}

/// Formats the output without the events. `words` is the end of the driver's log.
fn text(application: &SparkApplication, words: Option<&str>, style: Style) -> anyhow::Result<String> {
    let empty = SparkApplicationStatus::default();
    let status = application.status.as_ref().unwrap_or(&empty);
    let driver = &status.driver_info;
    let plural = if status.submission_attempts == 1 { "" } else { "s" };
    let attempts = format!(
        "{} of the driver, {} submission{plural}",
        status.execution_attempts, status.submission_attempts
    );
    let ago = |time: Option<&Time>| time.map(|time| format!("{} ago", style.age(Some(time))));
    let facts = [
        ("Waits for", summary::waits_for(application, |time| style.age(Some(time)))),
        ("Namespace", application.namespace()),
        ("Created", ago(application.creation_timestamp().as_ref())),
        ("Submitted", ago(status.last_submission_attempt_time.as_ref())),
        ("Ended", ago(status.termination_time.as_ref())),
        ("Spark calls it", Some(or_none(status.spark_application_id.as_ref()))),
        ("Driver", Some(or_none(driver.pod_name.as_ref()))),
        ("UI", Some(ui(driver))),
        ("Executors", Some(or_none(executors(application).as_ref()))),
        ("Scheduler", batch_scheduler(application).as_deref().map(line)),
        ("Attempts", Some(attempts)),
    ];
    let (is, why) = (style.state(application.state()), summary::why(application));
    let mut text = show::status(&application.name_any(), &is, why, facts)?;

    if !status.runs.is_empty() {
        let header = ["RUN", "CAUSE", "STATE", "SUBMITTED", "TOOK", "WHY"].map(str::to_owned).to_vec();
        let runs = status.runs.iter().map(|run| timeline(run, status, style));
        write!(text, "\n{}", columns(&[header].into_iter().chain(runs).collect::<Vec<_>>())?)?;
    }
    // If there is no log, the message in the record of the last run is shown instead, unless the error message of the
    // state contains it already.
    let kept = status.runs.last().filter(|_| has_failed(application)).and_then(|run| run.message.as_deref());
    let told = status.application_state.error_message.as_deref().unwrap_or_default();
    if let Some(words) = words.or(kept.filter(|words| !told.contains(words.trim()))) {
        text += "\nThe driver's last words:\n";
        for words in words.lines() {
            writeln!(text, "  {}", line(words))?;
        }
    }
    Ok(text)
}

/// Returns the row of one run.
fn timeline(run: &RunRecord, status: &SparkApplicationStatus, style: Style) -> Vec<String> {
    // The record of the present run has no state before the run has ended: until then, the run's state is the
    // application's.
    let present = Some(status.application_state.state).filter(|_| status.run_ordinal == Some(run.ordinal));
    let state = run.state.or(present);
    let took = run.submitted_time.as_ref().zip(run.finished_time.as_ref());
    vec![
        run.ordinal.to_string(),
        run.cause.as_deref().map(line).unwrap_or_default(),
        state.map_or_else(|| NONE.to_owned(), |state| style.state(state)),
        style.age(run.submitted_time.as_ref()),
        took.map_or_else(|| NONE.to_owned(), |(from, to)| short(to.0.duration_since(from.0).as_secs())),
        why_it_ended(run),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn the_present_run_has_the_state_of_the_application() {
        let status: SparkApplicationStatus = from_value(json!({
            "applicationState": {"state": "RUNNING"}, "driverInfo": {}, "runOrdinal": 2,
            "runs": [{"ordinal": 1}, {"ordinal": 2, "submittedTime": "2026-11-21T11:58:30Z"}, {"ordinal": 3, "cause": "SpecEdited"}],
        }))
        .unwrap();
        let style = Style { now: "2026-11-21T12:00:00Z".parse().unwrap(), colours: false };
        let states: Vec<_> = status.runs.iter().map(|run| timeline(run, &status, style)[2].clone()).collect();
        assert_eq!(states, [NONE, "RUNNING", NONE]);
    }

    #[test]
    fn the_reason_why_executors_are_refused_is_shown_in_their_row() {
        let application: SparkApplication = from_value(json!({
            "metadata": {"name": "pi", "namespace": "default"},
            "spec": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}},
            "status": {
                "applicationState": {"state": "RUNNING"}, "driverInfo": {},
                "conditions": [{
                    "type": "ExecutorsRefused", "status": "True", "reason": "Forbidden", "lastTransitionTime": "2026-11-21T11:58:30Z",
                    "message": "executors are refused: exceeded quota: pods",
                }],
            },
        }))
        .unwrap();
        let style = Style { now: "2026-11-21T12:00:00Z".parse().unwrap(), colours: false };
        let text = text(&application, None, style).unwrap();
        assert!(text.contains("Executors:        executors are refused: exceeded quota: pods\n"), "{text}");
    }

    #[test]
    fn the_reason_of_a_failure_comes_first_then_the_runs() {
        let application: SparkApplication =
            serde_saphyr::from_str(include_str!("../../../tests/data/ctl/status.yaml")).unwrap();
        let style = Style { now: "2026-11-21T12:00:00Z".parse().unwrap(), colours: false };
        let expected = include_str!("../../../tests/data/ctl/status.txt");
        assert_eq!(text(&application, None, style).unwrap(), expected);
        let with_log = text(&application, Some("no such bucket\n"), style).unwrap();
        assert!(with_log.ends_with("\nThe driver's last words:\n  no such bucket\n"), "{with_log}");
    }
}
