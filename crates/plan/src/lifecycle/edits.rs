//! Finds out whether the spec was edited since the recorded run was made from it.
//!
//! It has if `metadata.generation` differs from the recorded one and the hash does so too. Where nothing is
//! recorded, or a hash of another version, nothing has changed, and it is recorded now: neither a new version of
//! the operator nor one that takes over from KF's runs anything again.

use crate::spec_hash::{hash_version, spec_hash};
use api::{SparkApplication, SparkApplicationStatus, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// The spec is what is recorded.
    None,
    /// Nothing to compare with is recorded, or what was edited does not make another run of it.
    Immaterial,
    /// The run is another one.
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

/// Records which spec was seen. An edit starts the counting of attempts anew.
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

/// Whether an application in this state has a run that an edit puts an end to, or one that has ended already. The
/// others make their next run from the spec as it will be then.
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
