//! Derives the conditions of an application from its state, for `kubectl wait --for=condition=…` and other tools.

use super::{history, restart};
use crate::{executor_trial::Trial, extension::View};
use api::{
    SparkApplicationSpec, SparkApplicationStatus, State, excerpt,
    names::condition::{EXECUTORS_REFUSED, RECONCILING, STALLED},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Returns the conditions `Submitted`, `Running`, `Succeeded` and `Failed` that follow from `status`; a new application
/// gets none of them. A condition whose status has not changed keeps its `lastTransitionTime`. Conditions of other
/// types are kept. `ExecutorsRefused` is there while the run has no executors because the API server refuses them, and
/// `Reconciling` or `Stalled` while the application does not do what its spec asks for.
pub(super) fn of(view: View<'_>, status: &SparkApplicationStatus) -> Vec<Condition> {
    let View { application, seen, now, .. } = view;
    let state = status.application_state.state;
    let recorded = application.status.as_ref();
    let known = recorded.map_or(&[][..], |status| &status.conditions);
    if state == State::New {
        return known.to_vec();
    }
    let condition = |type_: &str, (holds, reason): (&str, String), message: String| {
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
    let own = TYPES.into_iter().map(|type_| (type_, holds(type_, state, status)));
    let judged =
        judged(&application.spec, status).map(|type_| (type_, ("True", holds(RUNNING, state, status).1)));
    let message = status.application_state.error_message.clone().unwrap_or_default();
    let own = own.chain(judged).map(|(type_, holds)| condition(type_, holds, message.clone()));
    let is_same_run = recorded.is_some_and(|recorded| recorded.submission_id == status.submission_id);
    let has_no_executors = state.is_followed() && status.executor_state.is_empty() && is_same_run;
    let refused = match &seen.executor_trial {
        None => executors_refused(known).cloned(),
        Some(Trial::Accepted) => None,
        Some(Trial::Refused { reason, why }) => {
            let message = format!("executors are refused: {why}");
            Some(condition(EXECUTORS_REFUSED, ("True", reason.clone()), message))
        }
    };
    let foreign = known.iter().filter(|condition| {
        let type_ = condition.type_.as_str();
        !TYPES.contains(&type_) && ![EXECUTORS_REFUSED, RECONCILING, STALLED].contains(&type_)
    });
    own.chain(refused.filter(|_| has_no_executors)).chain(foreign.cloned()).collect()
}

/// Returns the condition that executors are refused, among the conditions of an application.
pub(super) fn executors_refused(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == EXECUTORS_REFUSED)
}

/// Returns the condition by which kstatus judges an application; none if it does what its spec asks for: it runs, has
/// succeeded, or is suspended. A failed submission that is retried is not the end.
fn judged(spec: &SparkApplicationSpec, status: &SparkApplicationStatus) -> Option<&'static str> {
    let state = status.application_state.state;
    let is_stalled = state == State::Failed
        || state == State::SubmissionFailed && !restart::is_submitted_again(spec, status);
    let does_it = matches!(state, State::New | State::Running | State::Completed | State::Suspended);
    (!does_it).then_some(if is_stalled { STALLED } else { RECONCILING })
}

const SUBMITTED: &str = "Submitted";
const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
const TYPES: [&str; 4] = [SUBMITTED, RUNNING, SUCCEEDED, FAILED];

/// Returns the status of a condition (`True`, `False` or `Unknown`) and its reason.
fn holds(type_: &str, state: State, status: &SparkApplicationStatus) -> (&'static str, String) {
    let run = history::run(status, status.run_ordinal.unwrap_or_default());
    let has_driver = state.is_followed()
        || matches!(state, State::Succeeding | State::Completed | State::Failing)
        || state == State::Failed && run.is_none_or(|run| run.state != Some(State::SubmissionFailed));
    let holds = match (type_, state) {
        (SUBMITTED, _) => has_driver,
        (RUNNING, State::Unknown) => return ("Unknown", word(state)),
        (RUNNING, state) => state == State::Running,
        (SUCCEEDED, state) => state == State::Completed,
        (_, state) => state == State::Failed,
    };
    let reason = match (type_, state) {
        (SUBMITTED, _) if has_driver => "DriverCreated".to_owned(),
        // Why the driver waits, if the message begins with a single word.
        (RUNNING, State::Submitted) => {
            let message = status.application_state.error_message.as_deref();
            message.and_then(excerpt::reason).map_or_else(|| word(state), str::to_owned)
        }
        (_, State::Failing | State::Failed | State::SubmissionFailed | State::Completed) => run
            .and_then(|run| run.reason.clone())
            .filter(|reason| excerpt::reason(reason) == Some(reason.as_str()))
            .unwrap_or_else(|| word(state)),
        _ => word(state),
    };
    (if holds { "True" } else { "False" }, reason)
}

/// Returns the state as a single word: `SUBMISSION_FAILED` as `SubmissionFailed`.
fn word(state: State) -> String {
    let capitalised = |part: &str| format!("{}{}", &part[..1], part[1..].to_ascii_lowercase());
    state.as_str().split('_').filter(|part| !part.is_empty()).map(capitalised).collect()
}
