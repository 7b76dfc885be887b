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
    /// While a write of ours is under way: the latest version that the watch has told of meanwhile.
    pub told: Option<u64>,
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

    /// A write of ours begins: until it ends nobody knows whether the watch tells of it or of another.
    pub(super) fn begin_write(&self, uid: &str) {
        self.with(uid, |note| note.told = Some(0));
    }

    /// The write has ended, and this came of it. Whether the watch has told of a newer version meanwhile.
    pub(super) fn end_write(&self, uid: &str, written: Option<&impl ResourceExt>) -> bool {
        self.with(uid, |note| {
            note.written = written.map_or(note.written, version);
            note.told.take().is_some_and(|told| told > note.written)
        })
    }

    /// Whether `object`, of which the watch tells, is nothing but what we have written ourselves, or older; or whoever
    /// writes just now will look whether it is.
    pub(super) fn is_echo(&self, object: &impl ResourceExt) -> bool {
        let version = version(object);
        // One that cannot be compared is news.
        version > 0
            && self.with(&object.uid().unwrap_or_default(), |note| match &mut note.told {
                Some(told) => {
                    *told = version.max(*told);
                    true
                }
                None => version <= note.written,
            })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ScheduledSparkApplication;
    use serde_json::{from_value, json};

    fn copy(version: u64) -> ScheduledSparkApplication {
        from_value(json!({
            "metadata": {"name": "nightly", "uid": "u", "resourceVersion": version.to_string()},
            "spec": {"schedule": "@daily", "template": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}}},
        }))
        .unwrap()
    }

    #[test]
    fn what_we_have_written_ourselves_is_no_news_whenever_the_watch_tells_of_it() {
        let notes = Notes::default();
        assert!(!notes.is_echo(&copy(5)), "nothing was written");
        notes.begin_write("u");
        assert!(!notes.end_write("u", Some(&copy(6))));
        assert!(notes.is_echo(&copy(6)), "after the answer");
        assert!(!notes.is_echo(&copy(7)), "somebody else's");

        notes.begin_write("u");
        assert!(notes.is_echo(&copy(8)), "before the answer");
        assert!(!notes.end_write("u", Some(&copy(8))));
    }

    #[test]
    fn what_somebody_else_writes_while_we_write_is_looked_at_by_whoever_writes() {
        let notes = Notes::default();
        notes.begin_write("u");
        assert!(notes.is_echo(&copy(6)));
        assert!(notes.is_echo(&copy(7)));
        assert!(notes.end_write("u", Some(&copy(6))));

        // A write that has failed is tried again, and looks anew.
        notes.begin_write("u");
        assert!(notes.is_echo(&copy(8)));
        notes.end_write("u", None::<&ScheduledSparkApplication>);
        assert!(!notes.is_echo(&copy(9)));
    }
}
