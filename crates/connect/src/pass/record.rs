//! Adds the events of a decision and sets the conditions of the status.

use super::Pass;
use api::excerpt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use plan::events::{Event, Severity};

impl Pass<'_> {
    /// Adds an event of the type `Normal`.
    pub(super) fn normal(&mut self, reason: &'static str, action: &'static str, note: String) {
        self.plan.events.push(Event::new(Severity::Normal, reason, action, note));
    }

    /// Adds an event of the type `Warning`: the user may have to act.
    pub(super) fn warn(&mut self, reason: &'static str, action: &'static str, note: String) {
        self.plan.events.push(Event::new(Severity::Warning, reason, action, note));
    }

    /// Whether the status has the condition of this type, and it is true.
    pub(super) fn is(&self, type_: &str) -> bool {
        self.plan.status.true_condition(type_).is_some()
    }

    /// Sets a condition. Its `lastTransitionTime` changes only with its status.
    pub(super) fn set(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        let status = &mut self.plan.status;
        let word = if holds { "True" } else { "False" };
        let before = status.condition(type_).filter(|condition| condition.status == word);
        let since = before.map_or(Time(self.now), |condition| condition.last_transition_time.clone());
        let condition = Condition {
            type_: type_.to_owned(),
            status: word.to_owned(),
            reason: reason.to_owned(),
            message: excerpt::explanation(message.to_owned()),
            observed_generation: status.observed_generation,
            last_transition_time: since,
        };
        match status.conditions.iter_mut().find(|condition| condition.type_ == type_) {
            Some(known) => *known = condition,
            None => status.conditions.push(condition),
        }
    }

    /// Removes the condition of this type.
    pub(super) fn remove(&mut self, type_: &str) {
        self.plan.status.conditions.retain(|condition| condition.type_ != type_);
    }

    /// Sets the condition of this type to true while there is a `problem`, a reason and a sentence, and removes it
    /// afterwards. Adds one warning when the condition becomes true.
    pub(super) fn note(
        &mut self,
        type_: &str,
        problem: Option<(&str, &str)>,
        event: &'static str,
        action: &'static str,
    ) {
        let Some((reason, why)) = problem else { return self.remove(type_) };
        if !self.is(type_) {
            self.warn(event, action, why.to_owned());
        }
        self.set(type_, true, reason, why);
    }
}

/// Returns the message of the condition `ServerPodReady` of a server that is not ready, with the beginning that
/// Kubeflow's operator writes.
pub(super) fn not_ready(why: &str) -> String {
    excerpt::explanation(format!("Server pod is not ready: {why}"))
}
