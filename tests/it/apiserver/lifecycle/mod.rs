//! Tests the effects of the operator's decisions about applications at an API server, each kind of effect once. The
//! decisions are tested by `tests/data/lifecycle`, and failing requests in `faults`.

/// PodDisruptionBudgets of drivers.
mod budgets;
/// Users write at the same time as the operator.
mod conflicts;
/// Applications are deleted.
mod deletion;
/// Hundreds of executors.
mod executors;
/// Applications are deleted after their time to live.
mod expiry;
/// Web UIs and other ports of drivers.
pub(super) mod exposure;
/// The ConfigMap of an application's metrics.
pub(super) mod monitoring;
/// Drivers that are kept until their outcome is recorded.
mod protection;
/// Applications of another operator.
pub(super) mod takeover;

use super::applications;
use crate::apiserver::prelude::*;

/// Returns the smallest application with this name, with these fields in its spec.
fn application(name: &str, spec: &Value) -> Value {
    let mut application = applications::application(name);
    for (key, value) in spec.as_object().unwrap() {
        application["spec"][key] = value.clone();
    }
    application
}

/// Waits until the run with this number has a driver, and returns the application.
async fn submitted(namespace: &Namespace, name: &str, run: i64) -> Value {
    let expected = json!({"applicationState": {"state": "SUBMITTED"}, "runOrdinal": run});
    namespace.status_has(name, &expected).await
}

/// Waits until the run with this number has a driver, reports the driver as running, and returns the application.
async fn running(namespace: &Namespace, name: &str, run: i64) -> Value {
    submitted(namespace, name, run).await;
    namespace.runs(name).await
}

/// Reports that the driver of the run with this number has started, and then that it has ended with this exit code.
async fn ended(namespace: &Namespace, name: &str, run: i64, exit_code: i32) {
    running(namespace, name, run).await;
    kubelet::ends(namespace, &format!("{name}-driver"), exit_code).await;
}

/// Merges `patch` into an application.
fn edit(namespace: &Namespace, name: &str, patch: &Value) {
    namespace.merge::<SparkApplication>(name, patch);
}

/// Merges `spec` into an application's spec.
fn edit_spec(namespace: &Namespace, name: &str, spec: &Value) {
    edit(namespace, name, &json!({"spec": spec}));
}

/// Returns number, cause, final state, reason and exit code of every recorded run.
fn runs(application: &Value) -> Vec<Value> {
    let runs = application["status"]["runs"].as_array().unwrap().iter();
    runs.map(|run| json!([run["ordinal"], run["cause"], run["state"], run["reason"], run["exitCode"]]))
        .collect()
}

/// Returns the warnings and errors in a log, except those about the webhook configurations, which the tests have
/// changed.
fn complaints(log: &str) -> Vec<&str> {
    let is_one = |line: &&str| line.contains(" WARN ") || line.contains(" ERROR ");
    log.lines().filter(is_one).filter(|line| !line.contains("certificates::registration")).collect()
}

/// Waits for the event that reports, with this text, that an auxiliary object of an application could not be created or
/// deleted.
async fn reported(namespace: &Namespace, note: &str) {
    let says = |event: &Value| event["note"].as_str().is_some_and(|said| said.contains(note));
    let is_it = |event: &Value| event["type"] == "Warning" && says(event);
    namespace.has_event("SparkApplicationAuxiliaryFailed", is_it).await;
}
