//! Decides whether the spec was edited since the recorded run was made from it.
//!
//! The spec was edited if both `metadata.generation` and the hash differ from the recorded ones. If nothing is
//! recorded, or a hash of another version, the spec counts as not edited, and its generation and hash are recorded now.
//! So neither a new version of the operator nor an operator that takes over from Kubeflow's operator runs any
//! application again.

use crate::spec_hash::{hash_version, spec_hash};
use api::{SparkApplication, SparkApplicationStatus, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// The spec is the recorded spec.
    None,
    /// There is no record to compare with, or the edit does not make another run necessary.
    Immaterial,
    /// The edited spec asks for another run.
    Material,
}

pub(super) fn of(application: &SparkApplication) -> Edit {
    let Some(status) = application.status.as_ref().filter(|status| status.submission_id.is_some()) else {
        return Edit::None;
    };
    let generation = application.metadata.generation;
    match (status.observed_generation, &status.spec_hash) {
        (Some(recorded), Some(_)) if Some(recorded) == generation => Edit::None,
        (Some(_), Some(recorded)) => {
            let hash = spec_hash(&application.spec);
            let is_comparable = hash_version(recorded) == hash_version(&hash);
            if is_comparable && *recorded != hash { Edit::Material } else { Edit::Immaterial }
        }
        _ => Edit::Immaterial,
    }
}

/// Records which spec was seen. After an edit that asks for another run, attempts are counted from zero again.
pub(super) fn take_note(application: &SparkApplication, edit: Edit, status: &mut SparkApplicationStatus) {
    if edit == Edit::None {
        return;
    }
    status.observed_generation = application.metadata.generation;
    status.spec_hash = Some(spec_hash(&application.spec));
    if edit == Edit::Material {
        status.execution_attempts = 0;
        status.submission_attempts = 0;
        status.last_submission_attempt_time = None;
    }
}

/// Whether an application in this state has a run that is ended by an edit, or that has ended already. In the other
/// states the next run is made from the spec as it is at that time.
pub(super) const fn ends_run(state: State) -> bool {
    match state {
        State::Submitted
        | State::Running
        | State::Unknown
        | State::Succeeding
        | State::Failing
        | State::SubmissionFailed
        | State::Completed
        | State::Failed => true,
        State::New
        | State::PendingRerun
        | State::Invalidating
        | State::Suspending
        | State::Suspended
        | State::Resuming => false,
    }
}
