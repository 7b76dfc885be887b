//! Derives the conditions of an application from its state, for `kubectl wait --for=condition=…` and other tools.

use super::{history, restart};
use crate::{executor_trial::Trial, extension::View};
use api::{
    SparkApplicationSpec, SparkApplicationStatus, State,
    condition::{EXECUTORS_REFUSED, RECONCILING, STALLED},
    excerpt,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Returns the conditions `Submitted`, `Running`, `Succeeded` and `Failed` that follow from `status`; a new application
/// gets none of them. A condition whose status has not changed keeps its `lastTransitionTime`. Conditions of other
/// types are kept. `ExecutorsRefused` is present while the run has no executors because the API server refuses them,
/// and `Reconciling` or `Stalled` while the application is not in the state that its spec requires.
pub(super) fn of(view: View<'_>, status: &SparkApplicationStatus) -> Vec<Condition> {
    let View { application, seen, now, .. } = view;
    let state = status.application_state.state;
    let recorded = application.status.as_ref();
    let known = recorded.map_or(&[][..], |status| &status.conditions);
    if state == State::New {
        return known.to_vec();
    }
    let condition = |type_: &str, holds: &str, reason: String, message: String| {
        let before = known.iter().find(|before| before.type_ == type_ && before.status == holds);
        Condition {
            type_: type_.to_owned(),
            status: holds.to_owned(),
            reason,
            message,
            observed_generation: status.observed_generation,
            last_transition_time: before.map_or(Time(now), |before| before.last_transition_time.clone()),
        }
    };
    let run = history::run(status, status.run_ordinal.unwrap_or_default());
    let has_driver = state.is_followed()
        || matches!(state, State::Succeeding | State::Completed | State::Failing)
        || state == State::Failed && run.is_none_or(|run| run.state != Some(State::SubmissionFailed));
    let message = status.application_state.error_message.as_deref();
    let reason = match state {
        State::Failing | State::Failed | State::SubmissionFailed | State::Completed => {
            let reason = run.and_then(|run| run.reason.as_deref());
            reason.filter(|reason| excerpt::reason(reason) == Some(*reason))
        }
        _ => None,
    };
    let reason = reason.map_or_else(|| word(state), str::to_owned);
    let of_driver = if has_driver { "DriverCreated".to_owned() } else { reason.clone() };
    // Why the driver waits, if the message begins with a single word.
    let of_waiting = message.filter(|_| state == State::Submitted).and_then(excerpt::reason);
    let of_running = of_waiting.map_or_else(|| reason.clone(), str::to_owned);
    let is = |holds: bool| if holds { "True" } else { "False" };
    let running = if state == State::Unknown { "Unknown" } else { is(state == State::Running) };
    let own = [
        (SUBMITTED, is(has_driver), of_driver),
        (RUNNING, running, of_running.clone()),
        (SUCCEEDED, is(state == State::Completed), reason.clone()),
        (FAILED, is(state == State::Failed), reason),
    ];
    let judged = judged(&application.spec, status).map(|type_| (type_, "True", of_running));
    let own = own.into_iter().chain(judged);
    let own = own.map(|(type_, holds, reason)| {
        condition(type_, holds, reason, message.unwrap_or_default().to_owned())
    });
    let is_same_run = recorded.is_some_and(|recorded| recorded.submission_id == status.submission_id);
    let has_no_executors = state.is_followed() && status.executor_state.is_empty() && is_same_run;
    let refused = match &seen.executor_trial {
        None => executors_refused(known).cloned(),
        Some(Trial::Accepted) => None,
        Some(Trial::Refused { reason, why }) => {
            let message = format!("executors are refused: {why}");
            Some(condition(EXECUTORS_REFUSED, "True", reason.clone(), message))
        }
    };
    let foreign = known.iter().filter(|condition| !OURS.contains(&condition.type_.as_str()));
    own.chain(refused.filter(|_| has_no_executors)).chain(foreign.cloned()).collect()
}

/// Returns the condition that executors are refused, among the conditions of an application.
pub(super) fn executors_refused(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == EXECUTORS_REFUSED)
}

/// Returns the condition by which kstatus judges an application; `None` if the application is in the state that its
/// spec requires: it runs, has succeeded, or is suspended. A failed submission that is retried is not `Stalled`.
fn judged(spec: &SparkApplicationSpec, status: &SparkApplicationStatus) -> Option<&'static str> {
    let state = status.application_state.state;
    let is_stalled = state == State::Failed
        || state == State::SubmissionFailed && !restart::is_submitted_again(spec, status);
    let is_as_required = matches!(state, State::New | State::Running | State::Completed | State::Suspended);
    (!is_as_required).then_some(if is_stalled { STALLED } else { RECONCILING })
}

pub(super) const SUBMITTED: &str = "Submitted";
const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
const OURS: [&str; 7] = [SUBMITTED, RUNNING, SUCCEEDED, FAILED, EXECUTORS_REFUSED, RECONCILING, STALLED];

/// Returns the state as a single word: `SUBMISSION_FAILED` as `SubmissionFailed`.
fn word(state: State) -> String {
    let capitalised = |part: &str| format!("{}{}", &part[..1], part[1..].to_ascii_lowercase());
    state.as_str().split('_').filter(|part| !part.is_empty()).map(capitalised).collect()
}
