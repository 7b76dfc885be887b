//! Reads and sets the conditions of a SparkConnect.

use api::{
    SparkConnectStatus,
    excerpt::{self, LONGEST_EXPLANATION},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Returns the condition of this type.
pub(super) fn find<'a>(status: &'a SparkConnectStatus, type_: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type is there and true.
pub(super) fn holds(status: &SparkConnectStatus, type_: &str) -> bool {
    find(status, type_).is_some_and(|condition| condition.status == "True")
}

/// Sets a condition. It keeps its time as long as it stays true, or false.
pub(super) fn set(
    status: &mut SparkConnectStatus,
    type_: &str,
    holds: bool,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let word = if holds { "True" } else { "False" };
    let before = find(status, type_).filter(|condition| condition.status == word);
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

/// Returns the first word of an explanation, such as `ImagePullBackOff: …`, if it can be the reason of a condition.
pub(super) fn first_word(text: &str) -> Option<&str> {
    let word = text.split(':').next().unwrap_or_default();
    let is_reason = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.len() <= 256
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_reason.then_some(word)
}
