//! Builds the events that users see on an application, and their wording.

use api::{ExecutorState, excerpt};

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
    pub fn new(severity: Severity, reason: &'static str, action: &'static str, note: String) -> Self {
        Self { severity, reason, action, note: excerpt::beginning(note, LONGEST_NOTE), pod: None }
    }

    /// Returns an event about a pod.
    pub fn of_pod(severity: Severity, reason: &'static str, pod: impl ToString, note: String) -> Self {
        Self { pod: Some(pod.to_string()), ..Self::new(severity, reason, "Follow", note) }
    }
}

/// Defines functions that return an event: its severity, its reason, its action (or the pod that it is about) and its note.
#[macro_export]
macro_rules! events {
    ($(
        $(#[$about:meta])*
        $access:vis $name:ident($($given:ident),+) = $make:ident($severity:ident, $reason:literal, $about_what:expr):
            $note:literal;
    )+) => {$(
        $(#[$about])*
        $access fn $name($($given: impl ::std::fmt::Display),+) -> $crate::events::Event {
            let note = format!($note);
            $crate::events::Event::$make($crate::events::Severity::$severity, $reason, $about_what, note)
        }
    )+};
}

events! {
    pub(super) application_added(name) = new(Normal, "SparkApplicationAdded", "Submit"):
        "SparkApplication {name} was added, enqueuing it for submission";
    pub(super) application_submitted(name) = new(Normal, "SparkApplicationSubmitted", "Submit"):
        "SparkApplication {name} was submitted successfully";
    pub(super) submission_failed(name, why) = new(Warning, "SparkApplicationSubmissionFailed", "Submit"):
        "failed to submit SparkApplication {name}: {why}";
    /// Returns the event for a submission that continues, but about which the user should know something: for example that
    /// no webhook adds what Spark leaves out of executors.
    pub(super) submission_note(note) = new(Normal, "SparkApplicationSubmissionNote", "Submit"): "{note}";
    /// Returns the event for a submission pod that cannot start.
    pub(super) submission_pending(pod, why) = of_pod(Normal, "SparkSubmissionPending", pod):
        "Submission pod {pod} is pending: {why}";
    pub(super) application_completed(name) = new(Normal, "SparkApplicationCompleted", "Complete"):
        "SparkApplication {name} completed";
    pub(super) application_failed(name, why) = new(Warning, "SparkApplicationFailed", "Fail"):
        "SparkApplication {name} failed: {why}";
    pub(super) application_pending_rerun(name, cause) = new(Warning, "SparkApplicationPendingRerun", "Rerun"):
        "SparkApplication {name} is pending rerun: {cause}";
    /// Returns the event for an application that is started again after a pause of so many seconds.
    pub(super) restart_backs_off(name, pause) = new(Warning, "SparkApplicationBackOff", "Rerun"):
        "SparkApplication {name} is started again after a pause of {pause} s, since its last runs ended within 10 s: \
         restartPolicy.type Always is for long-running applications";
    pub(super) spec_edited(name) = new(Normal, "SparkApplicationSpecUpdateProcessed", "Invalidate"):
        "the spec of SparkApplication {name} was edited: its run ends, and a new run is submitted";
    /// Returns the event for an edit that leaves the run alone, in Kubeflow's word for it.
    pub(super) template_renewed(name) = new(Normal, "SparkApplicationWebhookFieldsUpdated", "Renew"):
        "the spec of SparkApplication {name} was edited: its run continues, and executors that its driver creates from now on follow the edit";
    /// Returns the event for an application that the operator `other` has submitted and this operator, `we`, follows:
    /// both may drive the same namespace.
    pub(super) submitted_by_another_operator(name, other, we) = new(Warning, "SubmittedByAnotherOperator", "TakeOver"):
        "SparkApplication {name} was submitted by the operator {other}, and {we} now follows it: if {other} was not replaced, choose the \
         namespace for one of them (--namespaces, --namespace-selector)";
    /// Returns the event for an application that another operator has submitted. `lacking` lists the customizations that
    /// the executors of its driver do not get.
    pub(super) taken_over(name, lacking) = new(Warning, "SparkApplicationTakenOver", "TakeOver"):
        "SparkApplication {name} was submitted by another operator: executors that its driver creates from now on lack {lacking}; \
         to give it to them, let the application end, or edit its spec, which starts a new run";
    pub(super) application_suspending(name) = new(Warning, "SparkApplicationSuspending", "Suspend"):
        "SparkApplication {name} is suspending";
    pub(super) application_suspended(name) = new(Warning, "SparkApplicationSuspended", "Suspend"):
        "SparkApplication {name} is suspended";
    pub(super) application_resuming(name) = new(Warning, "SparkApplicationResuming", "Resume"):
        "SparkApplication {name} is resuming";
    pub(super) driver_unknown(pod) = of_pod(Warning, "SparkDriverUnknown", pod): "Driver {pod} in unknown state";
    /// Returns the event for a driver that does not run yet. `why` is empty, or follows a colon.
    pub(super) driver_pending(pod, why) = of_pod(Normal, "SparkDriverPending", pod): "Driver {pod} is pending{why}";
    pub(super) driver_running(pod) = of_pod(Normal, "SparkDriverRunning", pod): "Driver {pod} is running";
    pub(super) driver_completed(pod) = of_pod(Normal, "SparkDriverCompleted", pod): "Driver {pod} completed";
    pub(super) driver_failed(pod, why) = of_pod(Warning, "SparkDriverFailed", pod): "Driver {pod} failed: {why}";
    pub(super) driver_not_found(pod) = of_pod(Warning, "SparkDriverNotFound", pod):
        "Driver pod {pod} not found, marking application as Failing";
    /// Returns the event for executors that cannot exist: `why` says who refuses them.
    pub(super) executors_refused(name, why) = new(Warning, "SparkApplicationExecutorsRefused", "Follow"):
        "SparkApplication {name}: {why}";
    /// Returns the event for a port of the driver that cannot be reached in the way that the user or the admin has
    /// configured.
    pub(super) not_exposed(why) = new(Warning, "SparkApplicationAuxiliaryFailed", "Make"): "{why}";
    /// Returns the event for an object of a run that could not be created, or a pod that could not be deleted.
    /// `meanwhile` says what the application does until the object exists.
    pub not_made(why, meanwhile) = new(Warning, "SparkApplicationAuxiliaryFailed", "Make"):
        "{why}; the operator retries it, and {meanwhile}";
    /// Returns the event for a SparkApplication or ScheduledSparkApplication that cannot be read. Sent by the controller,
    /// since only the controller receives such objects.
    pub invalid(error) = new(Warning, "InvalidObject", "Read"):
        "the operator cannot read this object and leaves it alone: {error}";
    /// Returns the event for a SparkApplication or ScheduledSparkApplication that the operator could not handle because of
    /// a bug in the operator.
    pub panicked(bug) = new(Warning, "OperatorBug", "Reconcile"):
        "{bug}; it tries again, and everything else continues: please report it with this object";
}

/// The `meanwhile` of [`not_made`] for an object without which the application runs, too.
pub const RUNS_ON: &str = "the application runs on";

/// Returns the event for one or several executors that have reached `state`. Of several executors, only the first few
/// are named. `why` is how they failed, or what they wait for.
pub(super) fn executors(pods: &[&str], state: ExecutorState, why: Option<&str>) -> Event {
    const NAMED: usize = 5;
    let be = if pods.len() == 1 { "is " } else { "are " };
    let (severity, reason, be, how) = match state {
        ExecutorState::Pending => (Severity::Normal, "SparkExecutorPending", be, "pending"),
        ExecutorState::Running => (Severity::Normal, "SparkExecutorRunning", be, "running"),
        ExecutorState::Completed => (Severity::Normal, "SparkExecutorCompleted", "", "completed"),
        ExecutorState::Failed => (Severity::Warning, "SparkExecutorFailed", "", why.unwrap_or("failed")),
        ExecutorState::Unknown => (Severity::Warning, "SparkExecutorUnknown", "", "in unknown state"),
    };
    let waiting = why.filter(|_| state == ExecutorState::Pending);
    let how = waiting.map_or_else(|| how.to_owned(), |why| format!("{how}: {why}"));
    if let [pod] = pods {
        return Event::of_pod(severity, reason, pod, format!("Executor {pod} {be}{how}"));
    }
    let more = match pods.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = pods.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    Event::new(severity, reason, "Follow", format!("Executors {named}{more} {be}{how}"))
}

#[cfg(test)]
mod tests {
    use super::{Event, LONGEST_NOTE, Severity, driver_failed, submission_failed};

    #[test]
    fn a_long_note_is_cut_at_a_character() {
        let event = submission_failed("pi", "ü".repeat(LONGEST_NOTE));
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
