//! Builds the events that users see on an application, and their wording.

use api::{ExecutorState, excerpt};
use std::time::Duration;

/// An event on the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub severity: Severity,
    /// The reason, as a word that tools match on. Where Kubeflow's operator sends the same event, this is Kubeflow's
    /// word.
    pub reason: &'static str,
    /// What the operator did, as one word.
    pub action: &'static str,
    /// The message for the user, at most [`LONGEST_NOTE`] bytes.
    pub note: String,
    /// The driver or executor pod that the event is about, if it is about one.
    pub pod: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// The greatest length of an event's note that Kubernetes accepts, in bytes.
pub const LONGEST_NOTE: usize = 1024;

impl Event {
    /// Returns an event about the object itself.
    #[must_use]
    pub fn new(severity: Severity, reason: &'static str, action: &'static str, note: String) -> Self {
        Self { severity, reason, action, note: excerpt::beginning(note, LONGEST_NOTE), pod: None }
    }

    /// Returns an event about a pod.
    #[must_use]
    pub fn of_pod(severity: Severity, reason: &'static str, pod: &str, note: String) -> Self {
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

/// Returns the event for a submission that continues, but about which the user should know something: for example that
/// no webhook adds what Spark leaves out of executors.
pub(super) fn submission_note(note: &str) -> Event {
    Event::new(Severity::Normal, "SparkApplicationSubmissionNote", "Submit", note.to_owned())
}

pub(super) fn submission_failed(name: &str, why: &str) -> Event {
    let note = format!("failed to submit SparkApplication {name}: {why}");
    Event::new(Severity::Warning, "SparkApplicationSubmissionFailed", "Submit", note)
}

/// Returns the event for a submission pod that cannot start.
pub(super) fn submission_pending(pod: &str, why: &str) -> Event {
    let note = format!("Submission pod {pod} is pending: {why}");
    Event::of_pod(Severity::Normal, "SparkSubmissionPending", pod, note)
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

pub(super) fn application_pending_rerun(name: &str, cause: &str) -> Event {
    let note = format!("SparkApplication {name} is pending rerun: {cause}");
    Event::new(Severity::Warning, "SparkApplicationPendingRerun", "Rerun", note)
}

pub(super) fn restart_backs_off(name: &str, pause: Duration) -> Event {
    let pause = pause.as_secs();
    let note = format!(
        "SparkApplication {name} is started again after a pause of {pause} s, since its last runs ended within 10 s: \
         restartPolicy.type Always is for applications that run on"
    );
    Event::new(Severity::Warning, "SparkApplicationBackOff", "Rerun", note)
}

pub(super) fn spec_edited(name: &str) -> Event {
    let note =
        format!("the spec of SparkApplication {name} was edited: its run ends, and it is submitted anew");
    Event::new(Severity::Normal, "SparkApplicationSpecUpdateProcessed", "Invalidate", note)
}

/// Returns the event for an edit that leaves the run alone, in Kubeflow's word for it.
pub(super) fn template_renewed(name: &str) -> Event {
    let note = format!(
        "the spec of SparkApplication {name} was edited: its run goes on, and executors that its driver makes from now on \
         follow the edit"
    );
    Event::new(Severity::Normal, "SparkApplicationWebhookFieldsUpdated", "Renew", note)
}

/// Returns the event for an application that another operator has submitted. `lacking` lists the customizations that
/// the executors of its driver do not get.
pub(super) fn taken_over(name: &str, lacking: &[String]) -> Event {
    let note = format!(
        "SparkApplication {name} was submitted by another operator: executors that its driver makes from now on lack {}; \
         to give it to them, let the application end, or edit its spec, which runs it anew",
        lacking.join(", ")
    );
    Event::new(Severity::Warning, "SparkApplicationTakenOver", "TakeOver", note)
}

/// Returns the event for an application that `other` has submitted and `we` drive: they may have chosen the same namespace.
pub(super) fn submitted_by_another_operator(name: &str, other: &str, we: &str) -> Event {
    let note = format!(
        "SparkApplication {name} was submitted by the operator {other}, and {we} goes on with it: if {other} was not replaced, choose the \
         namespace for one of them (--namespaces, --namespace-selector)"
    );
    Event::new(Severity::Warning, "SubmittedByAnotherOperator", "TakeOver", note)
}

pub(super) fn application_suspending(name: &str) -> Event {
    let note = format!("SparkApplication {name} is suspending");
    Event::new(Severity::Warning, "SparkApplicationSuspending", "Suspend", note)
}

pub(super) fn application_suspended(name: &str) -> Event {
    let note = format!("SparkApplication {name} is suspended");
    Event::new(Severity::Warning, "SparkApplicationSuspended", "Suspend", note)
}

pub(super) fn application_resuming(name: &str) -> Event {
    let note = format!("SparkApplication {name} is resuming");
    Event::new(Severity::Warning, "SparkApplicationResuming", "Resume", note)
}

pub(super) fn driver_pending(pod: &str, why: Option<&str>) -> Event {
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    Event::of_pod(Severity::Normal, "SparkDriverPending", pod, format!("Driver {pod} is pending{why}"))
}

pub(super) fn driver_unknown(pod: &str) -> Event {
    Event::of_pod(Severity::Warning, "SparkDriverUnknown", pod, format!("Driver {pod} in unknown state"))
}

pub(super) fn driver_running(pod: &str) -> Event {
    Event::of_pod(Severity::Normal, "SparkDriverRunning", pod, format!("Driver {pod} is running"))
}

pub(super) fn driver_completed(pod: &str) -> Event {
    Event::of_pod(Severity::Normal, "SparkDriverCompleted", pod, format!("Driver {pod} completed"))
}

pub(super) fn driver_failed(pod: &str, why: &str) -> Event {
    Event::of_pod(Severity::Warning, "SparkDriverFailed", pod, format!("Driver {pod} failed: {why}"))
}

pub(super) fn driver_not_found(pod: &str) -> Event {
    let note = format!("Driver pod {pod} not found, marking application as Failing");
    Event::of_pod(Severity::Warning, "SparkDriverNotFound", pod, note)
}

/// Returns the event for one or several executors that have reached `state`. Of several executors, only the first few
/// are named. `failure` is why they failed.
pub(super) fn executors(pods: &[&str], state: ExecutorState, failure: Option<&str>) -> Event {
    const NAMED: usize = 5;
    let (severity, reason, one, several) = match state {
        ExecutorState::Pending => (Severity::Normal, "SparkExecutorPending", "is pending", "are pending"),
        ExecutorState::Running => (Severity::Normal, "SparkExecutorRunning", "is running", "are running"),
        ExecutorState::Completed => (Severity::Normal, "SparkExecutorCompleted", "completed", "completed"),
        ExecutorState::Failed => (Severity::Warning, "SparkExecutorFailed", "failed", "failed"),
        ExecutorState::Unknown => {
            (Severity::Warning, "SparkExecutorUnknown", "in unknown state", "in unknown state")
        }
    };
    if let [pod] = pods {
        return Event::of_pod(severity, reason, pod, format!("Executor {pod} {}", failure.unwrap_or(one)));
    }
    let more = match pods.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = pods.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    Event::new(severity, reason, "Follow", format!("Executors {named}{more} {}", failure.unwrap_or(several)))
}

/// Returns the event for executors that cannot exist: `why` says who refuses them.
pub(super) fn executors_refused(name: &str, why: &str) -> Event {
    let note = format!("SparkApplication {name}: {why}");
    Event::new(Severity::Warning, "SparkApplicationExecutorsRefused", "Follow", note)
}

/// The note about an object without which the application goes on: see [`not_made`].
pub const RUNS_ON: &str = "the application runs on";

/// Returns the event for an object that belongs to a run in addition to its pods and could not be created. `meanwhile` is
/// what becomes of the application until the object exists.
#[must_use]
pub fn not_made(why: &str, meanwhile: &str) -> Event {
    let note = format!("{why}; it is tried again, and {meanwhile}");
    Event::new(Severity::Warning, "SparkApplicationAuxiliaryFailed", "Make", note)
}

/// Returns the event for a port of the driver that cannot be reached in the way that the user or the admin has
/// configured.
pub(super) fn not_exposed(why: &str) -> Event {
    Event::new(Severity::Warning, "SparkApplicationAuxiliaryFailed", "Make", why.to_owned())
}

/// Returns the event for a SparkApplication or ScheduledSparkApplication that cannot be read. Sent by the controller,
/// since only the controller receives such objects.
#[must_use]
pub fn invalid(error: &str) -> Event {
    let note = format!("the operator cannot read this object and leaves it alone: {error}");
    Event::new(Severity::Warning, "InvalidObject", "Read", note)
}

/// Returns the event for a SparkApplication or ScheduledSparkApplication that the operator could not handle because of
/// a bug in the operator.
#[must_use]
pub fn panicked(bug: &str) -> Event {
    let note =
        format!("{bug}; it tries again, and everything else goes on: please report it with this object");
    Event::new(Severity::Warning, "OperatorBug", "Reconcile", note)
}

#[cfg(test)]
mod tests {
    use super::{Event, LONGEST_NOTE, Severity, driver_failed, submission_failed};

    #[test]
    fn a_long_note_is_cut_at_a_character() {
        let event = submission_failed("pi", &"ü".repeat(LONGEST_NOTE));
        assert!(event.note.len() <= LONGEST_NOTE && event.note.ends_with("ü…"), "{}", event.note.len());
    }

    #[test]
    fn a_driver_that_fails_is_a_warning_about_its_pod() {
        let expected = Event {
            severity: Severity::Warning,
            reason: "SparkDriverFailed",
            action: "Follow",
            note: "Driver pi-driver failed: out of luck".to_owned(),
            pod: Some("pi-driver".to_owned()),
        };
        assert_eq!(driver_failed("pi-driver", "out of luck"), expected);
    }
}
