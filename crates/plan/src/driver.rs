//! The driver's pod: its name, its owner, and what its state means for the application.

use crate::{
    monitoring,
    pod_record::{Phase, PodRecord},
    run::SubmissionId,
};
use api::{
    SparkApplication,
    excerpt::{self, LONGEST_EXPLANATION},
    names::conf,
};
use jiff::Timestamp;
use std::time::Duration;

/// `spec.driver.podName`, else the name in sparkConf, else `<application>-driver`.
#[must_use]
pub fn pod_name(application: &SparkApplication) -> String {
    let spec = &application.spec;
    let given = spec.driver.pod_name.as_ref().filter(|name| !name.is_empty());
    let configured = || spec.spark_conf.get(conf::DRIVER_POD_NAME).filter(|name| !name.is_empty());
    let derived = || format!("{}-driver", application.metadata.name.as_deref().unwrap_or_default());
    given.or_else(configured).cloned().unwrap_or_else(derived)
}

/// Whose pod stands under the driver's name, seen from the run that is to be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the driver of this run: follow it.
    Adoptable,
    /// It is of this run, and whoever is making it may not have finished: wait.
    InTheMaking,
    /// It is ours, but of another run, or half made, or on its way out: it must be gone before a driver is
    /// made.
    Leftover,
    /// Somebody else's: neither followed nor deleted.
    Foreign,
}

/// `spark-submit` makes a pod and all that belongs to it within 0.4 s. What is not complete after this long was left
/// behind, unless its submission pod is still at work. Before, it may be the work of a `spark-submit` whose pod was
/// removed by force, and deleting it would start a second driver.
const MAKING: Duration = Duration::from_secs(10);

/// How long the volumes of a driver or a submission pod may take to be mounted before somebody asks what is wrong.
pub const MOUNTING: Duration = Duration::from_secs(15);

/// The longest pause between two questions about a pod's volumes.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// When to ask again whether the volumes of a pod can be mounted; none of a pod that does not wait for any.
#[must_use]
pub fn until_next_mount_question(pod: &PodRecord, now: Timestamp) -> Option<Duration> {
    mounting(pod, now).map(|waited| waited.clamp(MOUNTING, LONGEST_PAUSE))
}

/// How long a pod that has a node has been about to start there, if it does not say itself what it waits for.
#[must_use]
pub fn mounting(pod: &PodRecord, now: Timestamp) -> Option<Duration> {
    let is_silent = pod.phase == Phase::Pending && !pod.started && pod.waiting.is_none();
    pod.assigned.filter(|_| is_silent).map(|assigned| elapsed(assigned, now))
}

/// How long there has been such a pod.
#[must_use]
pub fn age(pod: &PodRecord, now: Timestamp) -> Duration {
    pod.created.map(|created| elapsed(created, now)).unwrap_or_default()
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// What to do with a pod that has the driver's name when the run `id` is to be submitted (docs/design/architecture.md, "One driver per run").
#[must_use]
pub fn standing(
    pod: &PodRecord,
    complete: bool,
    application_uid: &str,
    id: &SubmissionId,
    now: Timestamp,
) -> Standing {
    if !pod.is_controlled_by(application_uid) {
        return Standing::Foreign;
    }
    if pod.submission_id.as_deref() != Some(id.as_str()) || pod.terminating {
        return Standing::Leftover;
    }
    // A pod whose container has started has all that it needs, whatever became of its ConfigMap since.
    if complete || pod.started {
        return Standing::Adoptable;
    }
    if pod.created.is_some() && age(pod, now) < MAKING { Standing::InTheMaking } else { Standing::Leftover }
}

/// What the driver pod says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverState {
    Pending,
    Running,
    Completed,
    /// With the message for `status.applicationState.errorMessage`.
    Failed(String),
    /// Kubernetes does not know: the node does not answer.
    Unknown,
}

/// The state that a driver pod is in. Once Spark's container has ended, its exit code decides, whatever
/// sidecars still do.
#[must_use]
pub fn state(pod: &PodRecord) -> DriverState {
    match (pod.phase, &pod.ended) {
        (Phase::Succeeded, _) => DriverState::Completed,
        (Phase::Running | Phase::Failed, Some(ended)) if ended.exit_code == 0 => DriverState::Completed,
        (Phase::Running, Some(_)) | (Phase::Failed, _) => DriverState::Failed(failure(pod)),
        (Phase::Running, None) => DriverState::Running,
        (Phase::Pending, _) => DriverState::Pending,
        (Phase::Unknown, _) => DriverState::Unknown,
    }
}

/// Why a driver failed, in KF's words, and what else Kubernetes says of it.
fn failure(pod: &PodRecord) -> String {
    let (said, message) = match &pod.ended {
        Some(ended) if ended.exit_code != 0 => (
            format!("driver container failed with ExitCode: {}, Reason: {}", ended.exit_code, ended.reason),
            ended.message.as_ref(),
        ),
        _ => ("driver container status missing".to_owned(), None),
    };
    let of_pod = pod.message.as_ref().map_or_else(String::new, |message| format!(": {message}"));
    let message = message.map_or_else(String::new, |words| {
        let words = monitoring::explained(words).unwrap_or_else(|| words.clone());
        // What counts of a program's words is the end.
        let room = LONGEST_EXPLANATION.saturating_sub(said.len() + MESSAGE.len() + of_pod.len());
        format!("{MESSAGE}{}", excerpt::end(words, room))
    });
    excerpt::beginning(said + &message + &of_pod, LONGEST_EXPLANATION)
}

const MESSAGE: &str = ", Message: ";
