//! What is the driver pod called, whose is it, and what does it say of the application?

use crate::{
    api::{SparkApplication, names::conf},
    plan::{
        pod_record::{Phase, PodRecord},
        run::SubmissionId,
    },
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

/// `spark-submit` makes a pod and all that belongs to it within 0.4 s. What is not complete after this long
/// was left behind by one that was killed. Before, it may be the work of an orphan of an operator that was
/// killed, and deleting it would start a second driver.
const MAKING: Duration = Duration::from_secs(10);

/// The adoption rule (design.md, section 2).
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
    let age = pod.created.and_then(|created| Duration::try_from(now.duration_since(created)).ok());
    if age.is_some_and(|age| age < MAKING) { Standing::InTheMaking } else { Standing::Leftover }
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
    let failed = || match &pod.ended {
        Some(ended) if ended.exit_code != 0 => {
            format!("driver container failed with ExitCode: {}, Reason: {}", ended.exit_code, ended.reason)
        }
        _ => pod.message.as_ref().map_or_else(
            || "driver container status missing".to_owned(),
            |message| format!("driver container status missing: {message}"),
        ),
    };
    match (pod.phase, &pod.ended) {
        (Phase::Succeeded, _) => DriverState::Completed,
        (Phase::Running | Phase::Failed, Some(ended)) if ended.exit_code == 0 => DriverState::Completed,
        (Phase::Running, Some(_)) | (Phase::Failed, _) => DriverState::Failed(failed()),
        (Phase::Running, None) => DriverState::Running,
        (Phase::Pending, _) => DriverState::Pending,
        (Phase::Unknown, _) => DriverState::Unknown,
    }
}
