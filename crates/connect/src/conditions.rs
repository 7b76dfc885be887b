//! Sets the conditions of a SparkConnect.

use api::{
    SparkConnectStatus,
    excerpt::{self, LONGEST_EXPLANATION},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Sets a condition. It keeps its time as long as it stays true, or false.
pub(super) fn set(
    status: &mut SparkConnectStatus,
    type_: &str,
    holds: bool,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let word = if holds { "True" } else { "False" };
    let before = status.condition(type_).filter(|condition| condition.status == word);
    let condition = Condition {
        type_: type_.to_owned(),
        status: word.to_owned(),
        reason: reason.to_owned(),
        message: excerpt::beginning(message.to_owned(), LONGEST_EXPLANATION),
        observed_generation: status.observed_generation,
        last_transition_time: before.map_or(Time(now), |condition| condition.last_transition_time.clone()),
    };
    match status.conditions.iter_mut().find(|condition| condition.type_ == type_) {
        Some(known) => *known = condition,
        None => status.conditions.push(condition),
    }
}

/// Returns the message of a condition that a server is not ready, as Kubeflow's operator begins it.
pub(super) fn not_ready(why: &str) -> String {
    excerpt::beginning(format!("Server pod is not ready: {why}"), LONGEST_EXPLANATION)
}

/// Removes the condition of this type.
pub(super) fn remove(status: &mut SparkConnectStatus, type_: &str) {
    status.conditions.retain(|condition| condition.type_ != type_);
}
