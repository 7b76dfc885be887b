//! Builds the events that users see on a schedule, and their wording.

use super::run::{Child, Occasion};
use jiff::Timestamp;
use plan::events::{Event, Severity};
use std::fmt;

impl fmt::Display for Occasion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(slot) => write!(f, "the run of {slot}"),
            Self::Trigger(value) => write!(f, "the run triggered by hand (`{value}`)"),
        }
    }
}

pub(super) fn started(occasion: &Occasion, name: &str) -> Event {
    let note = format!("started SparkApplication {name}, {occasion}");
    Event::new(Severity::Normal, "ScheduledRunStarted", "Start", note)
}

pub(super) fn waiting(slot: Timestamp, running: &[&Child]) -> Event {
    let note = format!("the run of {slot} waits for {}: concurrencyPolicy is Forbid", awaited(running));
    Event::new(Severity::Normal, "ScheduledRunWaiting", "Wait", note)
}

pub(super) fn skipped(occasion: &Occasion, why: &str) -> Event {
    Event::new(Severity::Warning, "ScheduledRunSkipped", "Skip", format!("{occasion} is skipped: {why}"))
}

/// Returns the event that a run is skipped because an application of another owner has its name.
pub(super) fn taken(occasion: &Occasion, name: &str) -> Event {
    let why = format!(
        "there is a SparkApplication {name} that this schedule has not made; delete it if nobody needs it"
    );
    skipped(occasion, &why)
}

pub(super) fn replaced(name: &str) -> Event {
    let note = format!("SparkApplication {name} still runs and is deleted: concurrencyPolicy is Replace");
    Event::new(Severity::Normal, "ScheduledRunReplaced", "Replace", note)
}

pub(super) fn missed(count: u64, latest: Timestamp) -> Event {
    let runs = if count == 1 { "1 run was".to_owned() } else { format!("{count} runs were") };
    let note =
        format!("{runs} missed before that of {latest}: the operator was not there, or could not start them");
    Event::new(Severity::Warning, "ScheduledRunsMissed", "Miss", note)
}

pub(super) fn too_late(slot: Timestamp) -> Event {
    let note = format!("the run of {slot} was missed: it is later than startingDeadlineSeconds allows");
    Event::new(Severity::Warning, "ScheduledRunsMissed", "Miss", note)
}

pub(super) fn pruned(names: &[&str]) -> Event {
    let note = format!("deleted {}, more than the history limits keep", names.join(", "));
    Event::new(Severity::Normal, "ScheduledRunsPruned", "Prune", note)
}

pub(super) fn invalid(why: &str) -> Event {
    Event::new(Severity::Warning, "ScheduleInvalid", "Validate", format!("nothing is started: {why}"))
}

/// Returns the event that the API server has refused an application, and that its creation is retried. Sent by the
/// controller, since only the controller receives the refusal.
pub fn not_started(name: &str, why: &str) -> Event {
    let note = format!("SparkApplication {name} could not be created, and is tried again: {why}");
    Event::new(Severity::Warning, "ScheduledRunNotStarted", "Start", note)
}

/// Returns the names of the applications that have to end before another application may start.
pub(super) fn awaited(running: &[&Child]) -> String {
    match running {
        [] => "pods of a deleted SparkApplication".to_owned(),
        running => running.iter().map(|child| child.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}
