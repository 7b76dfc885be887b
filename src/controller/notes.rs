//! What does a reconcile loop remember of an object between two reconciles?

use super::Error;
use jiff::Timestamp;
use kube::{ResourceExt, runtime::controller::Action};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use tracing::{debug, warn};

/// The longest pause between two tries of what keeps failing.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// What is remembered, by uid.
#[derive(Default)]
pub(super) struct Notes(Mutex<HashMap<String, Note>>);

/// What is remembered of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    /// The resourceVersion of our last write: an older copy must not be acted on.
    pub written: u64,
    /// When that was.
    pub recorded: Option<Timestamp>,
    /// The run whose objects beside its pods were made.
    pub made_for: Option<String>,
    /// How often the reconcile has failed in a row.
    pub failures: u32,
}

impl Notes {
    pub(super) fn with<T>(&self, uid: &str, with: impl FnOnce(&mut Note) -> T) -> T {
        with(self.locked().entry(uid.to_owned()).or_default())
    }

    /// The object is gone, or about to be.
    pub(super) fn forget(&self, uid: &str) {
        self.locked().remove(uid);
    }

    /// Whether we have written `object` since this copy of it was read.
    pub(super) fn have_newer(&self, object: &impl ResourceExt) -> bool {
        version(object) < self.with(&object.uid().unwrap_or_default(), |note| note.written)
    }

    /// The reconcile has failed; says when to try again.
    pub(super) fn again(&self, object: &impl ResourceExt, error: &Error) -> Action {
        let failures = self.with(&object.uid().unwrap_or_default(), |note| {
            note.failures = note.failures.saturating_add(1);
            note.failures
        });
        let pause =
            Duration::from_millis(100).saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_BACKOFF);
        let (name, namespace) = (object.name_any(), object.namespace());
        if matches!(error, Error::Conflict) {
            // The watch brings what has changed.
            debug!(name, namespace, "decided on stale facts, and again");
        } else {
            warn!(name, namespace, failures, %error, "reconcile is tried again");
        }
        Action::requeue(pause)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Note>> {
        self.0.lock().expect("no code panics while it holds this lock")
    }
}

/// Resource versions are opaque to clients but for their order, which Kubernetes promises since 1.35 and has
/// always kept.
pub(super) fn version(object: &impl ResourceExt) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}
