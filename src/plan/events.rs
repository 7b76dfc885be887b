//! What are users told about an application, and in which words?

use std::fmt::Display;

/// An event on the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub severity: Severity,
    /// Why, as a word that tools match on; KF's words.
    pub reason: &'static str,
    /// What the operator did, as one word.
    pub action: &'static str,
    /// The message, at most [`LONGEST_NOTE`] bytes.
    pub note: String,
    /// The driver or executor pod that the event is about, if it is about one.
    pub pod: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// Kubernetes refuses longer notes.
pub const LONGEST_NOTE: usize = 1024;

/// As much of an explanation as a status and an event can hold and a person will read.
pub const LONGEST_EXPLANATION: usize = 800;

impl Event {
    fn new(severity: Severity, reason: &'static str, action: &'static str, note: String) -> Self {
        Self { severity, reason, action, note: cut(note, LONGEST_NOTE), pod: None }
    }

    /// An event about a pod.
    fn of_pod(severity: Severity, reason: &'static str, pod: &str, note: String) -> Self {
        Self { pod: Some(pod.to_owned()), ..Self::new(severity, reason, "Follow", note) }
    }
}

pub(super) fn application_added(name: &str) -> Event {
    let note = format!("SparkApplication {name} was added, enqueuing it for submission");
    Event::new(Severity::Normal, "SparkApplicationAdded", "Submit", note)
}

pub(super) fn application_submitted(name: &str) -> Event {
    let note = format!("SparkApplication {name} was submitted successfully");
    Event::new(Severity::Normal, "SparkApplicationSubmitted", "Submit", note)
}

/// Something about how an application is submitted that its user should know.
pub(super) fn submission_note(note: &str) -> Event {
    Event::new(Severity::Normal, "SparkApplicationSubmissionNote", "Submit", note.to_owned())
}

pub(super) fn submission_failed(name: &str, why: &str) -> Event {
    let note = format!("failed to submit SparkApplication {name}: {why}");
    Event::new(Severity::Warning, "SparkApplicationSubmissionFailed", "Submit", note)
}

pub(super) fn application_completed(name: &str) -> Event {
    Event::new(
        Severity::Normal,
        "SparkApplicationCompleted",
        "Complete",
        format!("SparkApplication {name} completed"),
    )
}

pub(super) fn application_failed(name: &str, why: &str) -> Event {
    let note = format!("SparkApplication {name} failed: {why}");
    Event::new(Severity::Warning, "SparkApplicationFailed", "Fail", note)
}

pub(super) fn driver_pending(pod: &str) -> Event {
    Event::of_pod(Severity::Normal, "SparkDriverPending", pod, format!("Driver {pod} is pending"))
}

pub(super) fn driver_running(pod: &str) -> Event {
    Event::of_pod(Severity::Normal, "SparkDriverRunning", pod, format!("Driver {pod} is running"))
}

pub(super) fn driver_completed(pod: &str) -> Event {
    Event::of_pod(Severity::Normal, "SparkDriverCompleted", pod, format!("Driver {pod} completed"))
}

pub(super) fn driver_failed(pod: &str) -> Event {
    Event::of_pod(Severity::Warning, "SparkDriverFailed", pod, format!("Driver {pod} failed"))
}

pub(super) fn driver_not_found(pod: &str) -> Event {
    let note = format!("Driver pod {pod} not found, marking application as Failing");
    Event::of_pod(Severity::Warning, "SparkDriverNotFound", pod, note)
}

pub(super) fn executor_pending(pod: &str) -> Event {
    Event::of_pod(Severity::Normal, "SparkExecutorPending", pod, format!("Executor {pod} is pending"))
}

pub(super) fn executor_running(pod: &str) -> Event {
    Event::of_pod(Severity::Normal, "SparkExecutorRunning", pod, format!("Executor {pod} is running"))
}

pub(super) fn executor_completed(pod: &str) -> Event {
    Event::of_pod(Severity::Normal, "SparkExecutorCompleted", pod, format!("Executor {pod} completed"))
}

pub(super) fn executor_failed(pod: &str, exit_code: impl Display, reason: &str, message: &str) -> Event {
    let note =
        format!("Executor {pod} failed with ExitCode: {exit_code}, Reason: {reason}, Pod Message: {message}");
    Event::of_pod(Severity::Warning, "SparkExecutorFailed", pod, note)
}

pub(super) fn executor_unknown(pod: &str) -> Event {
    let note = format!("Executor {pod} in unknown state");
    Event::of_pod(Severity::Warning, "SparkExecutorUnknown", pod, note)
}

/// An object of ours that cannot be read. Sent by the controller, which alone sees such objects.
#[must_use]
pub fn invalid(error: &str) -> Event {
    let note = format!("the operator cannot read this object and leaves it alone: {error}");
    Event::new(Severity::Warning, "InvalidObject", "Read", note)
}

/// At most `limit` bytes of `text`, with an ellipsis where something was cut.
pub(super) fn cut(text: String, limit: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() <= limit {
        return text;
    }
    let end = text.floor_char_boundary(limit - ELLIPSIS.len());
    format!("{}{ELLIPSIS}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_NOTE, submission_failed};

    #[test]
    fn a_long_note_is_cut_at_a_character() {
        let event = submission_failed("pi", &"ü".repeat(LONGEST_NOTE));
        assert!(event.note.len() <= LONGEST_NOTE && event.note.ends_with("ü…"), "{}", event.note.len());
    }
}
