//! Derives the conditions of an application from its state, for `kubectl wait --for=condition=…` and other tools.

use super::{history, restart};
use crate::executor_trial::Trial;
use api::{
    SparkApplication, SparkApplicationSpec, SparkApplicationStatus, State, excerpt,
    names::condition::{EXECUTORS_REFUSED, RECONCILING, STALLED},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Returns the conditions `Submitted`, `Running`, `Succeeded` and `Failed` that follow from `status`; a new application
/// gets none of them. A condition whose status has not changed keeps its `lastTransitionTime`. Conditions of other
/// types are kept. `ExecutorsRefused` is there while the run has no executors because the API server refuses them, and
/// `Reconciling` or `Stalled` while the application does not do what its spec asks for.
pub(super) fn of(
    status: &SparkApplicationStatus,
    application: &SparkApplication,
    trial: Option<&Trial>,
    now: Timestamp,
) -> Vec<Condition> {
    let state = status.application_state.state;
    let known = application.status.as_ref().map_or(&[][..], |status| &status.conditions);
    if state == State::New {
        return known.to_vec();
    }
    let is_ours =
        |type_: &str| TYPES.contains(&type_) || [EXECUTORS_REFUSED, RECONCILING, STALLED].contains(&type_);
    let foreign = known.iter().filter(|condition| !is_ours(&condition.type_)).cloned();
    let own = TYPES.into_iter().map(|type_| (type_, holds(type_, state, status)));
    let judged =
        judged(&application.spec, status).map(|type_| (type_, ("True", holds(RUNNING, state, status).1)));
    let own = own.chain(judged).map(|(type_, (holds, reason))| {
        let message = status.application_state.error_message.clone().unwrap_or_default();
        let before = known.iter().find(|condition| condition.type_ == type_);
        let since = before.filter(|condition| condition.status == holds);
        Condition {
            type_: type_.to_owned(),
            status: holds.to_owned(),
            reason,
            message,
            observed_generation: status.observed_generation,
            last_transition_time: since.map_or(Time(now), |condition| condition.last_transition_time.clone()),
        }
    });
    own.chain(refused(status, application, trial, now)).chain(foreign).collect()
}

/// Returns the condition that executors are refused, among the conditions of an application.
pub(super) fn executors_refused(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == EXECUTORS_REFUSED)
}

/// Returns the condition that the executors of the run in `status` are refused; none if they are not, or nobody knows.
fn refused(
    status: &SparkApplicationStatus,
    application: &SparkApplication,
    trial: Option<&Trial>,
    now: Timestamp,
) -> Option<Condition> {
    let recorded = application.status.as_ref()?;
    if !status.application_state.state.is_followed()
        || !status.executor_state.is_empty()
        || status.submission_id != recorded.submission_id
    {
        return None;
    }
    let before = executors_refused(&recorded.conditions);
    let (reason, why) = match trial {
        None => return before.cloned(),
        Some(Trial::Accepted) => return None,
        Some(Trial::Refused { reason, why }) => (reason.clone(), why),
    };
    Some(Condition {
        type_: EXECUTORS_REFUSED.to_owned(),
        status: "True".to_owned(),
        reason,
        message: format!("executors are refused: {why}"),
        observed_generation: status.observed_generation,
        last_transition_time: before.map_or(Time(now), |before| before.last_transition_time.clone()),
    })
}

/// Returns the condition by which kstatus judges an application; none if it does what its spec asks for: it runs, has
/// succeeded, or is suspended. A failed submission that is retried is not the end.
fn judged(spec: &SparkApplicationSpec, status: &SparkApplicationStatus) -> Option<&'static str> {
    match status.application_state.state {
        State::New | State::Running | State::Completed | State::Suspended => None,
        State::Failed => Some(STALLED),
        State::SubmissionFailed if !restart::is_submitted_again(spec, status) => Some(STALLED),
        State::Submitted
        | State::Unknown
        | State::Succeeding
        | State::Failing
        | State::SubmissionFailed
        | State::PendingRerun
        | State::Invalidating
        | State::Suspending
        | State::Resuming => Some(RECONCILING),
    }
}

const SUBMITTED: &str = "Submitted";
const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
const TYPES: [&str; 4] = [SUBMITTED, RUNNING, SUCCEEDED, FAILED];

/// Returns the status of a condition (`True`, `False` or `Unknown`) and its reason.
fn holds(type_: &str, state: State, status: &SparkApplicationStatus) -> (&'static str, String) {
    let run = history::run(status, status.run_ordinal.unwrap_or_default());
    let has_driver = match state {
        State::Submitted
        | State::Running
        | State::Unknown
        | State::Succeeding
        | State::Completed
        | State::Failing => true,
        State::Failed => run.is_none_or(|run| run.state != Some(State::SubmissionFailed)),
        State::New
        | State::SubmissionFailed
        | State::PendingRerun
        | State::Invalidating
        | State::Suspending
        | State::Suspended
        | State::Resuming => false,
    };
    let holds = match (type_, state) {
        (SUBMITTED, _) => has_driver,
        (RUNNING, State::Unknown) => return ("Unknown", word(state)),
        (RUNNING, state) => state == State::Running,
        (SUCCEEDED, state) => state == State::Completed,
        (_, state) => state == State::Failed,
    };
    let reason = match (type_, state) {
        (SUBMITTED, _) if has_driver => "DriverCreated".to_owned(),
        (RUNNING, State::Submitted) => waiting(status).unwrap_or_else(|| word(state)),
        (_, State::Failing | State::Failed | State::SubmissionFailed | State::Completed) => run
            .and_then(|run| run.reason.clone())
            .filter(|reason| excerpt::reason(reason) == Some(reason.as_str()))
            .unwrap_or_else(|| word(state)),
        _ => word(state),
    };
    (if holds { "True" } else { "False" }, reason)
}

/// Returns the reason why the driver waits, as a single word; none if the message does not begin with such a word.
fn waiting(status: &SparkApplicationStatus) -> Option<String> {
    excerpt::reason(status.application_state.error_message.as_deref()?).map(str::to_owned)
}

/// Returns the state as a single word: `SUBMISSION_FAILED` as `SubmissionFailed`.
fn word(state: State) -> String {
    let capitalised = |part: &str| format!("{}{}", &part[..1], part[1..].to_ascii_lowercase());
    state.as_str().split('_').filter(|part| !part.is_empty()).map(capitalised).collect()
}
