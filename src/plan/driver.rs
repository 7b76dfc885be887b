//! What is the driver pod called, whose is it, and what does it say of the application?

use crate::{
    api::{SparkApplication, names::conf},
    plan::{
        pod_record::{Phase, PodRecord},
        run::SubmissionId,
    },
};

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
    /// It is ours, but of another run, or half made, or on its way out: it must be gone before a driver is made.
    Leftover,
    /// Somebody else's: neither followed nor deleted.
    Foreign,
}

/// The adoption rule (design.md, section 2).
#[must_use]
pub fn standing(pod: &PodRecord, complete: bool, application_uid: &str, id: &SubmissionId) -> Standing {
    if !pod.is_controlled_by(application_uid) {
        return Standing::Foreign;
    }
    let is_of_run = pod.submission_id.as_deref() == Some(id.as_str());
    // A pod whose container has started has all that it needs, whatever became of its ConfigMap since.
    if is_of_run && !pod.terminating && (complete || pod.started) {
        Standing::Adoptable
    } else {
        Standing::Leftover
    }
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

/// The state that a driver pod is in. Once Spark's container has ended, its exit code decides, whatever sidecars still do.
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
