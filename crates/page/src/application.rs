//! The page of one application: first a sentence with its state and the reason, then links, buttons, runs, conditions,
//! pods, events and the spec.

use super::{
    Action, Named, Result, Session, ago, buttons, duration, logs, now, pods_and_events, state, table,
    timeline::{phase, timeline},
    word,
};
use api::{Identity, SparkApplication, State, excerpt::beginning, names::label};
use axum::{extract::Path, response::Response};
use futures::future::join3;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use maud::{Markup, html};
use serde_json::Value;
use spark_operator_client::{
    printable::{line, lines},
    summary,
};

/// The maximum size of a spec that is shown, in bytes.
const LONGEST_SPEC: usize = 256 << 10;

pub(crate) async fn show(session: Session, Path((namespace, name)): Named) -> Result<Response> {
    let (application, text) = session.caller.reader.object::<SparkApplication>(&namespace, &name).await?;
    let application = &application;
    let (is_suspended, rerun) = (application.spec.suspend == Some(true), Some(Action::Rerun));
    let ((pods, pods_and_events), words, buttons) = join3(
        pods_and_events(&session, &application.metadata, label::APP_NAME),
        last_words(&session, application),
        buttons(&session, application, is_suspended, rerun),
    )
    .await;
    let now = now();
    let content = html! {
        (sentence(application, now))
        (links(&session, application))
        (buttons)
        (facts(application))
        (timeline(application, pods, now))
        (runs(application, now))
        @if let Some(words) = words {
            h2 { "The driver's last words" }
            pre tabindex="0" { (lines(&words)) }
        }
        (conditions(application.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice())))
        (pods_and_events)
        (spec(&text))
    };
    Ok(session.document(&name, true, &content))
}

/// Returns a table of the conditions of a status. Empty if there are no conditions.
pub(crate) fn conditions(of: &[Condition]) -> Markup {
    let cells = |condition: &Condition| {
        html! {
            th scope="row" { (line(&condition.type_)) }
            td { (line(&condition.status)) }
            td.number { (ago(Some(condition.last_transition_time.0))) }
            td { (line(&condition.reason)) }
            td { (lines(&condition.message)) }
        }
    };
    table("Conditions", &["Condition", "Status", "Since", "Reason", "Message"], of.iter().map(cells))
}

/// Returns the end of the driver's log, if the application has failed. If the log cannot be read, returns the message
/// of the last run, unless the error message in the status contains it.
async fn last_words(session: &Session, application: &SparkApplication) -> Option<String> {
    let status = application.status.as_ref().filter(|_| summary::has_failed(application))?;
    let kept = status.runs.last().and_then(|run| run.message.clone());
    let told = status.application_state.error_message.as_deref().unwrap_or_default();
    let kept = kept.filter(|words| !told.contains(words.trim()));
    let namespace = application.own_namespace();
    let log = match status.driver_info.pod_name.as_deref() {
        Some(pod) => logs::last_lines(session, namespace, pod).await.ok().filter(|log| !log.is_empty()),
        None => None,
    };
    log.or(kept)
}

/// Returns the sentence with the state of the application and the reason, as `sparkctl status` writes it.
fn sentence(application: &SparkApplication, now: Timestamp) -> Markup {
    let is = state(Some(application.state()));
    let waits = summary::waits_for(application, |time| duration(time.0, now));
    html! {
        p class={ "sentence " (is.0.as_str()) } {
            (application.name_any()) " is " (word(is))
            @if let Some(why) = summary::why(application) { ": " (why) }
            @if let Some(waits) = waits { " It waits for " (waits) "." }
        }
    }
}

/// Returns the links to the driver's log, Spark's UI, the history server, the dashboard, and the effect of an edit.
fn links(session: &Session, application: &SparkApplication) -> Markup {
    let (name, namespace) = (application.name_any(), application.own_namespace());
    let settings = &session.page.settings;
    let status = application.status.as_ref();
    let driver = status.and_then(|status| status.driver_info.pod_name.as_ref());
    let is_running = application.state() == State::Running;
    let id = status.and_then(|status| status.spark_application_id.as_ref()).filter(|_| !is_running);
    html! {
        p.links {
            @if let Some(pod) = driver { a href=(logs::log_of(namespace, pod)) { "Log of the driver" } }
            @if is_running { a href={ "/ui/" (namespace) "/" (name) "/" } { "Spark UI" } }
            @if let (Some(server), Some(id)) = (&settings.history_server, id) {
                a href={ (server) "/history/" (id) "/jobs/" } rel="noreferrer" { "History server" }
            }
            @if let Some(address) = &settings.dashboard {
                a href=(address.replace("{namespace}", namespace).replace("{name}", &name)) rel="noreferrer" { "Metrics" }
            }
            a href={ "/applications/" (namespace) "/" (name) "/edit" } { "What an edit would do" }
        }
    }
}

fn facts(application: &SparkApplication) -> Markup {
    let status = application.status.clone().unwrap_or_default();
    let submitted = status.last_submission_attempt_time.as_ref().map(|time| time.0);
    html! {
        dl {
            dt { "Namespace" } dd { (application.own_namespace()) }
            dt { "Submitted" } dd { (ago(submitted)) }
            dt { "Attempts" } dd { (status.execution_attempts) " of the driver, " (status.submission_attempts) " submissions" }
            @if let Some(executors) = summary::executors(application) { dt { "Executors" } dd { (executors) } }
            @if let Some(scheduler) = summary::batch_scheduler(application) {
                dt { "Scheduler" } dd { (line(&scheduler)) }
            }
            @if let Some(id) = &status.spark_application_id { dt { "Spark calls it" } dd { code { (line(id)) } } }
        }
    }
}

fn runs(application: &SparkApplication, now: Timestamp) -> Markup {
    let runs =
        application.status.iter().flat_map(|status| status.runs.iter().rev().map(move |run| (status, run)));
    let rows = runs.map(|(status, run)| {
        let (is, from, end) = phase(status, run, now);
        html! {
            th scope="row" { (run.ordinal) }
            td { (line(run.cause.as_deref().unwrap_or_default())) }
            td { @if is.is_some() { (word(state(is))) } }
            td.number { (ago(from)) }
            td.number { @if let (Some(from), Some(end)) = (from, end) { (duration(from, end)) } }
            td {
                (summary::why_it_ended(run))
                @if let Some(message) = &run.message {
                    details id={ "run-" (run.ordinal) } { summary { "Message" } pre tabindex="0" { (lines(message)) } }
                }
            }
        }
    });
    table("Runs", &["Run", "Cause", "State", "Submitted", "Took", "Why"], rows)
}

/// Returns the spec of an object, as YAML.
pub(crate) fn spec(object: &str) -> Markup {
    let whole: Value = serde_json::from_str(object).unwrap_or_default();
    let text = serde_saphyr::to_string(&whole["spec"]).unwrap_or_default();
    html! {
        details #spec {
            summary { "Spec" }
            pre tabindex="0" { (lines(&beginning(text, LONGEST_SPEC))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn the_sentence_is_that_of_sparkctl_with_untrusted_text_escaped() {
        let application: SparkApplication = from_value(json!({
            "metadata": {"name": "pi", "namespace": "team-a"},
            "spec": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}, "batchScheduler": "a\u{202e}b"},
            "status": {
                "applicationState": {"state": "FAILED", "errorMessage": "driver failed: <img src=x onerror=alert(1)>\u{1b}[2J"},
                "driverInfo": {}, "runs": [{"ordinal": 1, "reason": "</td><script>", "exitCode": 1, "cause": "\u{202e}x"}],
            },
        }))
        .unwrap();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(
            sentence(&application, now).into_string(),
            "<p class=\"sentence bad\">pi is <span class=\"state bad\">FAILED</span>: \
             driver failed: &lt;img src=x onerror=alert(1)&gt;\u{fffd}[2J</p>"
        );
        let runs = runs(&application, now).into_string();
        assert!(runs.contains("<td>&lt;/td&gt;&lt;script&gt;, exit code 1</td>"), "{runs}");
        assert!(runs.contains("<td>\u{fffd}x</td>"), "{runs}");
        let facts = facts(&application).into_string();
        assert!(facts.contains("<dd>a\u{fffd}b</dd>"), "{facts}");
    }

    #[test]
    fn conditions_are_a_table_with_untrusted_text_escaped() {
        let condition = json!({
            "type": "Ready", "status": "False", "reason": "<b>", "message": "a\nb", "lastTransitionTime": "2026-11-21T12:00:00Z",
        });
        let text = conditions(&[from_value(condition).unwrap()]).into_string();
        assert!(text.contains("<th scope=\"row\">Ready</th><td>False</td>"), "{text}");
        assert!(text.contains("<td>&lt;b&gt;</td><td>a\nb</td>"), "{text}");
        assert_eq!(conditions(&[]).into_string(), "");
    }
}
