//! Describes the state of an application, in the words of `sparkctl` and of the operator's page.

use crate::printable::{line, lines};
use api::{
    ConnectState, ExecutorState, RunRecord, SparkApplication, State, names::condition::EXECUTORS_REFUSED,
    stated,
};
use k8s_openapi::{api::core::v1::Event, apimachinery::pkg::apis::meta::v1::Time};
use std::collections::BTreeMap;

/// Returns the name of a state; `NEW` for the state whose name is empty.
pub fn state_name(state: State) -> &'static str {
    match state.as_str() {
        "" => "NEW",
        state => state,
    }
}

api::words! {
    /// A group of states that are shown in one colour.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Tone {
        /// The application has completed, or the server is ready.
        Good = "good",
        /// The driver is running, or has just succeeded.
        Busy = "busy",
        /// The application, its present run or its submission, or the server has failed.
        Bad = "bad",
        /// The application or the server is waiting or suspended.
        Wait = "wait",
    }
}

impl Tone {
    /// Returns the tone of a state.
    pub const fn of(state: State) -> Self {
        match state {
            State::Completed => Self::Good,
            State::Running | State::Succeeding => Self::Busy,
            State::Failed | State::Failing | State::SubmissionFailed => Self::Bad,
            State::New
            | State::Submitted
            | State::PendingRerun
            | State::Invalidating
            | State::Suspending
            | State::Suspended
            | State::Resuming
            | State::Unknown => Self::Wait,
        }
    }

    /// Returns the tone of a state of a SparkConnect.
    pub const fn of_connect(state: ConnectState) -> Self {
        match state {
            ConnectState::Ready => Self::Good,
            ConnectState::Failed => Self::Bad,
            ConnectState::New | ConnectState::Provisioning | ConnectState::NotReady => Self::Wait,
        }
    }
}

/// Returns why the application is in its state, with line breaks but without other control characters; `None` if the
/// status has no message.
pub fn why(application: &SparkApplication) -> Option<String> {
    let why = application.status.as_ref()?.application_state.error_message.as_ref()?;
    Some(why).filter(|why| !why.is_empty()).map(|why| lines(why.trim_end()))
}

/// Returns the state of an application with its error message: `FAILED: out of memory`.
pub fn state_and_why(application: &SparkApplication) -> String {
    let status = application.status.as_ref();
    let why = status.and_then(|status| status.application_state.error_message.as_deref());
    let why = why.map(|why| format!(": {}", line(why.trim_end()))).unwrap_or_default();
    format!("{}{why}", state_name(application.state()))
}

/// Whether the present run has failed, so that the end of the driver's log may say why.
pub fn has_failed(application: &SparkApplication) -> bool {
    matches!(application.state(), State::Failed | State::Failing | State::PendingRerun)
}

/// Returns what the application waits for, if its state does not show that. `age` formats the time since a point in
/// time.
pub fn waits_for(application: &SparkApplication, age: impl Fn(&Time) -> String) -> Option<String> {
    if let Some(deleted) = &application.metadata.deletion_timestamp {
        let holders = match application.metadata.finalizers.as_deref().unwrap_or_default() {
            [] => "the deletion of its pods and other objects".to_owned(),
            finalizers => format!("the removal of its finalizers {}", finalizers.join(", ")),
        };
        return Some(format!("{holders}: it was deleted {} ago", age(deleted)));
    }
    let what = match application.state() {
        // With a message it has been reconciled, and the message says what it waits for.
        State::New if why(application).is_none() => "it",
        _ if !application.is_settled() => "the newest spec or rerun request",
        _ => return None,
    };
    Some(awaited_operator(what))
}

/// Returns the text that says that the operator has not reconciled `what` yet: an object or its newest spec.
pub fn awaited_operator(what: &str) -> String {
    // No object that every user may read says which namespaces an operator drives.
    let lasting = "if this lasts, ask the admin whether an operator runs and drives this namespace";
    format!("the operator, which has not reconciled {what} yet ({lasting})")
}

/// Returns the batch scheduler that the application names, and its queue; `None` if it names no scheduler.
pub fn batch_scheduler(application: &SparkApplication) -> Option<String> {
    let name = stated(&application.spec.batch_scheduler)?;
    let options = application.spec.batch_scheduler_options.as_ref();
    let queue = options.and_then(|options| stated(&options.queue));
    Some(queue.map_or_else(|| name.clone(), |queue| format!("{name}, queue {queue}")))
}

/// Returns the number of executors in each state: `2 running, 1 failed`; or, if there are none, why executors are
/// refused, if the status says so.
pub fn executors(application: &SparkApplication) -> Option<String> {
    let mut counts = BTreeMap::<ExecutorState, usize>::new();
    for state in application.status.iter().flat_map(|status| status.executor_state.values()) {
        *counts.entry(*state).or_default() += 1;
    }
    if counts.is_empty() {
        let mut conditions = application.status.iter().flat_map(|status| &status.conditions);
        let refused = conditions.find(|condition| condition.type_ == EXECUTORS_REFUSED);
        return refused.map(|condition| line(&condition.message));
    }
    // The order of the output: running executors come first.
    let words = [
        (ExecutorState::Running, "running"),
        (ExecutorState::Pending, "pending"),
        (ExecutorState::Completed, "completed"),
        (ExecutorState::Failed, "failed"),
        (ExecutorState::Unknown, "unknown"),
    ];
    let told = words.iter().filter_map(|(state, word)| Some(format!("{} {word}", counts.get(state)?)));
    Some(told.collect::<Vec<_>>().join(", "))
}

/// Returns why a run ended as it did: `OOMKilled, exit code 137`. Empty if its record does not say it.
pub fn why_it_ended(run: &RunRecord) -> String {
    let reason = run.reason.clone().into_iter();
    let code = run.exit_code.filter(|code| *code != 0).map(|code| format!("exit code {code}"));
    line(&reason.chain(code).collect::<Vec<_>>().join(", "))
}

/// Returns when the event was seen last. Components that write events through the API `events.k8s.io` leave
/// `lastTimestamp` empty.
pub fn last_seen(event: &Event) -> Option<Time> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let first = event.event_time.as_ref().map(|time| Time(time.0));
    let last = series.map(|time| Time(time.0)).or_else(|| event.last_timestamp.clone());
    last.or(first).or_else(|| event.metadata.creation_timestamp.clone())
}

/// Returns how often the event was seen.
pub fn times_seen(event: &Event) -> i32 {
    event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1)
}

/// Formats a duration in whole seconds, minutes, hours, days or years, in the largest unit that is not zero, as
/// Kubeflow's sparkctl writes it.
pub fn short(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Otherwise a new application whose submission pod cannot start would be reported as waiting for the operator.
    #[test]
    fn a_new_application_waits_for_the_operator_until_it_has_a_message() {
        let waits = |status: Value| {
            let application = json!({"metadata": {"name": "pi"}, "spec": {}, "status": status});
            waits_for(&serde_json::from_value(application).unwrap(), |_| String::new())
        };
        let unseen = "the operator, which has not reconciled it yet (if this lasts, ask the admin whether an operator \
                      runs and drives this namespace)";
        assert_eq!(waits(Value::Null).as_deref(), Some(unseen));
        let said = json!({"applicationState": {"errorMessage": "submission pod pi-1: ErrImagePull"}, "driverInfo": {}});
        assert_eq!(waits(said), None);
    }

    #[test]
    fn durations_are_shown_in_the_largest_unit_that_is_not_zero() {
        let told = [-3, 0, 59, 60, 3_599, 3_600, 86_399, 86_400, 31_535_999, 31_536_000].map(short);
        assert_eq!(told, ["0s", "0s", "59s", "1m", "59m", "1h", "23h", "1d", "364d", "1y"]);
    }
}
