//! The trial of a run's executors. While a run has a driver and no executor, a model of its executors is sent to the
//! API server as a dry run: if a quota, a LimitRange, Pod Security, a policy or a webhook refuses them, the run gets no
//! executors, and only the driver's log would report that.

use crate::{Policy, driver, pod_requests::PodRequests};
use api::{ExecutorState, Role, SparkApplication, conf, excerpt};
use jiff::Timestamp;
use pods::PodSummary;
use serde_json::{Value, json};
use std::time::Duration;
use submission::{native, run::Run};
use validation::validate;

/// The API server's answer to a model of an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trial {
    Accepted,
    Refused {
        /// Why, as a single word, such as `Forbidden`.
        reason: String,
        /// Why, in the API server's words.
        why: String,
    },
}

/// The minimum pause between two trials of one run; [`LONGEST_PAUSE`] is the maximum.
const PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Returns the pause before the next trial of the run that has this driver; `None` if the driver's age is not known.
pub(super) fn until_next(driver: &PodSummary, now: Timestamp) -> Option<Duration> {
    driver.created.map(|_| driver::age(driver, now).clamp(PAUSE, LONGEST_PAUSE))
}

/// Whether the executors of the recorded run are to be tried now: its driver exists and has not ended, and there was no
/// executor yet. `tried` is when they were tried last.
pub fn is_due(
    application: &SparkApplication,
    driver: &PodSummary,
    tried: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    let Some(status) = &application.status else { return false };
    let is_driver = status.submission_id.as_deref().is_some_and(|id| driver.is_of(Role::Driver, id));
    let lives = matches!(driver.state(), ExecutorState::Pending | ExecutorState::Running);
    let age = |at: Timestamp| driver::age(driver, at);
    let is_long_ago =
        |tried: Timestamp| until_next(driver, tried).is_some_and(|pause| age(now) >= age(tried) + pause);
    application.state().is_followed()
        && is_driver
        && lives
        && !driver.terminating
        && status.executor_state.is_empty()
        && tried.is_none_or(is_long_ago)
}

/// Returns the model of the executors of the recorded run: the pod that Spark will send to the API server, before
/// webhooks change it. `None` if the driver requests no executors at first, if another component than the driver
/// creates them (`spark.kubernetes.allocation.pods.allocator`), or if they cannot be planned. `defaults` is the text of
/// the admin's `spark-defaults.conf`.
pub fn executor(
    application: &SparkApplication,
    driver: &PodSummary,
    defaults: &str,
    policy: &Policy,
) -> Option<Value> {
    let application = &policy.with_default_account(application);
    let run = Run::recorded(application)?;
    let valid = &validate(application).ok()?;
    let requests = PodRequests::of(valid, defaults, "trials").ok()?;
    if requests.initial == 0 || requests.allocator != conf::DIRECT {
        return None;
    }
    let environment = spark_client::Environment::default();
    let submission =
        native(valid, &run, &policy.submission, defaults, environment, Timestamp::UNIX_EPOCH).ok()?;
    let mut executor = spark_client::executor(&submission).ok()?;
    let planned = &requests.executor.spec;
    let spec = &mut executor["spec"];
    let sparks = spec["containers"].as_array_mut()?.last_mut()?;
    sparks["resources"] = planned["containers"][requests.executor.sparks_container]["resources"].clone();
    for account in ["serviceAccount", "serviceAccountName"] {
        spec[account] = planned[account].clone();
    }
    executor["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": driver.name, "uid": driver.uid, "controller": true,
    }]);
    Some(executor)
}

/// Returns what an error of the API server with this HTTP status code, reason and message says about the executors;
/// `None` if it says nothing about them, for example because the operator may not create pods here.
pub fn answer(code: u16, reason: &str, message: &str) -> Option<Trial> {
    let is_refused = match code {
        // Without the second part, it is the operator that may not create pods.
        403 => !message.contains("cannot create resource"),
        422 => true,
        // A webhook has refused the pod, or cannot be called (`apiserver/pkg/admission/plugin/webhook/errors`).
        400 | 500 => message.contains("webhook") && !message.contains("does not support dry run"),
        // The name is taken: there is an executor.
        409 => return Some(Trial::Accepted),
        _ => false,
    };
    let is_word = !reason.is_empty() && reason.chars().all(char::is_alphabetic);
    is_refused.then(|| Trial::Refused {
        reason: if is_word { reason } else { "Refused" }.to_owned(),
        why: excerpt::explanation(message.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::{Trial, answer};

    #[test]
    fn an_answer_counts_if_it_is_about_the_executor() {
        let cases = include_str!("../../../tests/data/executor-trials.json");
        for (code, message, counts) in serde_json::from_str::<Vec<(u16, String, bool)>>(cases).unwrap() {
            let refused = Trial::Refused { reason: "Forbidden".to_owned(), why: message.clone() };
            assert_eq!(answer(code, "Forbidden", &message), counts.then_some(refused), "{message}");
        }
        assert_eq!(answer(409, "AlreadyExists", "exists"), Some(Trial::Accepted));
    }
}
