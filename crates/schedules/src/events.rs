//! Builds the events that users see on a schedule, and their wording.

use super::run::{Child, Occasion};
use std::fmt;

impl fmt::Display for Occasion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "the run of {slot}"),
            Self::Trigger(value) => write!(f, "the run triggered by hand (`{value}`)"),
        }
    }
}

plan::events! {
    pub(super) started(occasion, name) = new(Normal, "ScheduledRunStarted", "Start"):
        "started SparkApplication {name}, {occasion}";
    pub(super) waiting(slot, awaited) = new(Normal, "ScheduledRunWaiting", "Wait"):
        "the run of {slot} waits for {awaited}: concurrencyPolicy is Forbid";
    pub(super) skipped(occasion, why) = new(Warning, "ScheduledRunSkipped", "Skip"): "{occasion} is skipped: {why}";
    pub(super) replaced(name) = new(Normal, "ScheduledRunReplaced", "Replace"):
        "SparkApplication {name} still runs and is deleted: concurrencyPolicy is Replace";
    /// Returns the event that runs were missed: `1 run was`, `2 runs were`.
    pub(super) missed(runs, latest) = new(Warning, "ScheduledRunsMissed", "Miss"):
        "{runs} missed before the run of {latest}: the operator was not running, or could not start them";
    pub(super) too_late(slot) = new(Warning, "ScheduledRunsMissed", "Miss"):
        "the run of {slot} was missed: it is later than startingDeadlineSeconds allows";
    pub(super) pruned(names) = new(Normal, "ScheduledRunsPruned", "Prune"):
        "deleted {names}, more than the history limits keep";
    pub(super) invalid(why) = new(Warning, "ScheduleInvalid", "Validate"): "nothing is started: {why}";
    /// Returns the event that the API server has refused an application, and that its creation is retried. Sent by the
    /// controller, since only the controller receives the refusal.
    pub not_started(name, why) = new(Warning, "ScheduledRunNotStarted", "Start"):
        "SparkApplication {name} could not be created, and the operator tries again: {why}";
}

/// Returns the names of the applications that have to end before another application may start.
pub(super) fn awaited(running: &[&Child]) -> String {
    match running {
        [] => "pods of a deleted SparkApplication".to_owned(),
        running => running.iter().map(|child| child.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}
