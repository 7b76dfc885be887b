//! Keeps what a reconcile loop has to remember about each object between two reconciles.

use super::{Error, Key};
use api::{
    ExecutorSpec, Identity, ObjectKey, SparkApplication, SparkApplicationSpec, SparkApplicationStatus,
    SparkPodSpec, version,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use parking_lot::{Mutex, MutexGuard};
use plan::{
    Submission,
    auxiliary::{AskedAddresses, Try},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    mem,
    sync::Arc,
    time::Duration,
};
use tokio_util::sync::DropGuard;
use tracing::{debug, warn};

/// The longest pause between two attempts if a reconcile keeps failing.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// The maximum number of unanswered writes of the status that are remembered of an application.
const MOST_UNANSWERED: usize = 2;

/// The notes about all objects, by uid. Cheap to clone: all clones share one memory.
#[derive(Clone, Default)]
pub(super) struct ReconcileMemory(Arc<Mutex<HashMap<String, Note>>>);

/// The facts that are remembered about one object.
#[derive(Default)]
pub(super) struct Note {
    /// The resourceVersion of this process's last write: an older copy must not be acted on. Zero if this process has
    /// not written the object since the watch began its latest complete list.
    pub written: u64,
    /// Whether the last write was answered before the watch began its latest list.
    is_before_list: bool,
    /// When this process last wrote the status; recorded for applications only.
    pub recorded: Option<Timestamp>,
    /// The writes of an application's status that the API server has not answered: for each, the application before the
    /// write, reduced to what metrics count, and the status.
    unanswered: Vec<(SparkApplication, SparkApplicationStatus)>,
    /// The submission id of the run whose optional objects (those of `plan::Action::Make`) were created.
    pub made_for: Option<String>,
    /// The uid of the last driver or Spark Connect server of which an executor was tried by a dry run, and when.
    pub executors_tried: Option<(String, Timestamp)>,
    /// The uid of the last driver that a reconcile has seen as ended.
    pub ended_driver: Option<String>,
    /// The children that were deleted in earlier turns of a plan that is not completely carried out yet.
    pub deleted: BTreeSet<ObjectKey>,
    /// The last submission of an application.
    pub submission: Option<Started>,
    /// Namespace and name of an application, and the addresses (host and path) of the Ingresses that it requested at
    /// its last reconcile; `None` if this process has not reconciled it.
    pub asked: Option<(Key, AskedAddresses)>,
    /// The attempts to change each Service, each Ingress and each object of an extension.
    pub tries: BTreeMap<ObjectKey, Try>,
    /// Why the API server refused the pod of a SparkConnect at the last attempt to create it.
    pub refusal: Option<String>,
    /// Why the API server refused another object of a SparkConnect at the last attempt to apply it.
    pub refused_object: Option<String>,
    /// The objects of a SparkConnect other than its pod, as this process last applied them: the fingerprint of each,
    /// and its resourceVersion after that.
    pub applied: BTreeMap<ObjectKey, (String, String)>,
    /// How many times in a row the reconcile has failed.
    pub failures: u32,
}

/// A submission that this process has started.
pub(super) struct Started {
    pub submission: Submission,
    /// Cancels the submission when it is dropped.
    pub cancel: DropGuard,
}

impl Note {
    /// Records that this process has written the object; `answer` is the written object.
    pub(super) fn wrote(&mut self, answer: &impl ResourceExt) {
        self.written = version(answer);
        self.is_before_list = false;
        self.unanswered.clear();
    }

    /// Records that `status` may have replaced the status of `application`: the API server did not answer. Only the
    /// parts of the application that metrics count are kept, and at most [`MOST_UNANSWERED`] writes: a status that
    /// makes an object too large for etcd never gets another answer, and its write is retried for ever.
    pub(super) fn maybe_wrote(&mut self, application: &SparkApplication, status: SparkApplicationStatus) {
        let ObjectMeta { namespace, labels, creation_timestamp, resource_version, .. } =
            application.metadata.clone();
        let metadata =
            ObjectMeta { namespace, labels, creation_timestamp, resource_version, ..ObjectMeta::default() };
        let labels = application.spec.executor.pod.labels.clone();
        let pod = SparkPodSpec { labels, ..SparkPodSpec::default() };
        let executor = ExecutorSpec { pod, ..ExecutorSpec::default() };
        let spec = SparkApplicationSpec { executor, ..SparkApplicationSpec::default() };
        let before = SparkApplication { metadata, spec, status: application.status.clone() };
        // The first and the last are kept: if the first was carried out, the writes after it were not, because the
        // version that they replace was outdated.
        self.unanswered.truncate(MOST_UNANSWERED - 1);
        self.unanswered.push((before, status));
    }

    /// Returns that unanswered write whose status `application`, as the watch has reported it, has. Forgets all
    /// unanswered writes if the application has changed since they were sent.
    pub(super) fn answered(
        &mut self,
        application: &SparkApplication,
    ) -> Option<(SparkApplication, SparkApplicationStatus)> {
        let is_news =
            |(before, _): &(SparkApplication, _)| before.resource_version() != application.resource_version();
        if !self.unanswered.iter().any(is_news) {
            return None;
        }
        // Both statuses are compared as JSON, the form in which they are stored: in it, times have no fractions of a
        // second.
        let stored = json!(application.status);
        mem::take(&mut self.unanswered).into_iter().find(|(_, status)| json!(status) == stored)
    }
}

impl ReconcileMemory {
    /// Adds an empty note about an object that the cache has, unless there is a note already.
    pub(super) fn begin(&self, uid: &str) {
        self.0.lock().entry(uid.to_owned()).or_default();
    }

    /// Calls `with` with the note about an object. If the object was deleted meanwhile, `with` gets an empty note that
    /// is not kept, because nothing would remove it before the next list.
    pub(super) fn with<T>(&self, uid: &str, with: impl FnOnce(&mut Note) -> T) -> T {
        with(self.0.lock().get_mut(uid).unwrap_or(&mut Note::default()))
    }

    /// Returns all notes, by the uids of the objects, locked until the guard is dropped.
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<String, Note>> {
        self.0.lock()
    }

    /// Forgets an object that is gone, or about to be.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// Records that the watch begins to list all objects.
    pub(super) fn list_begins(&self) {
        for note in self.0.lock().values_mut() {
            note.is_before_list = true;
        }
    }

    /// Records that the list is complete, and that the cache contains exactly the objects of the list, those with the
    /// uids `listed`. Forgets the writes from before the list began, and everything about objects that are not listed.
    ///
    /// A write from before the list began is contained in the list, or was undone: if etcd was restored from a backup,
    /// resource versions start again at lower numbers, and every copy would count as older than this process's last
    /// write until the versions have caught up.
    ///
    /// This holds only for a list that is read after all writes before it, which is kube's default
    /// `ListSemantic::MostRecent`; every watch here uses it. A list from the API server's watch cache
    /// (`ListSemantic::Any`, and kube's `StreamingList`: both ask for resourceVersion 0) may be older than a write that
    /// was answered before the list. A developer who changes to one of those must keep `written` across a list.
    pub(super) fn list_ends(&self, listed: &HashSet<String>) {
        self.0.lock().retain(|uid, note| {
            if note.is_before_list {
                note.written = 0;
            }
            listed.contains(uid)
        });
    }

    /// Whether this process has written a newer version of `object` than this copy.
    pub(super) fn have_newer(&self, object: &impl ResourceExt) -> bool {
        version(object) < self.with(object.own_uid(), |note| note.written)
    }

    /// Records and logs that a reconcile has failed. Returns the pause before the retry.
    pub(super) fn again(&self, object: &impl ResourceExt, error: &Error) -> Duration {
        let failures = self.with(object.own_uid(), |note| {
            note.failures = note.failures.saturating_add(1);
            note.failures
        });
        let pause =
            Duration::from_millis(100).saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_BACKOFF);
        let (name, namespace) = (object.name_any(), object.namespace());
        if matches!(error, Error::Conflict) {
            // The watch delivers the change, so the conflict is not worth a warning.
            debug!(name, namespace, "the object has changed meanwhile: the reconcile is repeated");
        } else {
            warn!(name, namespace, failures, %error, "reconcile has failed and is retried");
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::ScheduledSparkApplication;
    use serde_json::{Value, from_value};

    fn copy(version: u64) -> ScheduledSparkApplication {
        from_value(json!({
            "metadata": {"name": "nightly", "uid": "u", "resourceVersion": version.to_string()},
            "spec": {"schedule": "@daily", "template": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}}},
        }))
        .unwrap()
    }

    fn application(version: &str, status: &Value) -> SparkApplication {
        let metadata = json!({"name": "pi", "uid": "u", "resourceVersion": version});
        let mut application = crate::tests::application(&metadata);
        application["status"] = status.clone();
        from_value(application).unwrap()
    }

    #[test]
    fn an_unanswered_status_write_is_recognised_once_the_watch_shows_it() {
        let failed = json!({
            "applicationState": {"state": "FAILED"}, "driverInfo": {}, "terminationTime": "2026-01-01T00:00:00.5Z",
        });
        let status: SparkApplicationStatus = from_value(failed).unwrap();
        let [new, edited] = ["1", "2"].map(|version| application(version, &Value::Null));
        let stored = application("2", &json!(status));
        let unanswered = || {
            let mut note = Note::default();
            note.maybe_wrote(&new, status.clone());
            note
        };

        let mut note = unanswered();
        assert!(note.answered(&new).is_none(), "the watch has not reported it yet");
        assert_eq!(
            note.answered(&stored).map(|(before, _)| before.resource_version()),
            Some(new.resource_version())
        );
        assert!(note.answered(&stored).is_none());

        let mut note = unanswered();
        note.wrote(&stored);
        assert!(note.answered(&stored).is_none(), "the next attempt has written it");

        let mut note = unanswered();
        assert!(note.answered(&edited).is_none(), "it was not carried out: another write came first");
        assert!(note.answered(&stored).is_none());
    }

    /// An earlier version kept a copy of an application of a megabyte for each attempt, one a minute.
    #[test]
    fn unanswered_writes_are_bounded_in_number_and_size() {
        let mut large = application("1", &Value::Null);
        large.spec.arguments = vec!["x".repeat(1 << 20)];
        large.spec.executor.pod.labels.insert("team".to_owned(), "a".to_owned());
        large.metadata.annotations = Some([("a".to_owned(), "x".repeat(1 << 17))].into());
        let status = |attempts: i32| {
            json!({
                "applicationState": {"state": "FAILED"}, "driverInfo": {}, "submissionAttempts": attempts,
            })
        };
        let note = || {
            let mut note = Note::default();
            (1..=100).for_each(|attempts| note.maybe_wrote(&large, from_value(status(attempts)).unwrap()));
            note
        };
        assert_eq!(note().unanswered.len(), MOST_UNANSWERED);
        for (attempts, is_known) in [(1, true), (50, false), (100, true)] {
            let stored = application("2", &status(attempts));
            let found = note().answered(&stored);
            assert_eq!(found.is_some(), is_known, "{attempts}");
            if let Some((before, _)) = found {
                assert_eq!(before.spec.executor.pod.labels, large.spec.executor.pod.labels);
                assert!(json!(before).to_string().len() < 4096);
            }
        }
    }

    /// Returns a memory with notes about these objects.
    fn known(uids: &[&str]) -> ReconcileMemory {
        let memory = ReconcileMemory::default();
        uids.iter().for_each(|uid| memory.begin(uid));
        memory
    }

    fn listed(uids: &[&str]) -> HashSet<String> {
        uids.iter().map(|uid| (*uid).to_owned()).collect()
    }

    /// In an earlier version, objects that had been written shortly before etcd was restored from a backup were not
    /// reconciled until the operator restarted.
    #[test]
    fn a_new_list_counts_even_if_its_versions_are_older_than_our_writes() {
        let memory = known(&["u"]);
        memory.with("u", |note| note.wrote(&copy(1000)));
        memory.list_begins();
        assert!(memory.have_newer(&copy(10)), "the cache still has the former objects");
        memory.list_ends(&listed(&["u"]));
        assert!(!memory.have_newer(&copy(10)));
    }

    #[test]
    fn a_write_during_a_list_is_newer_than_the_list() {
        let memory = known(&["u"]);
        memory.list_begins();
        memory.with("u", |note| note.wrote(&copy(1000)));
        memory.list_ends(&listed(&["u"]));
        assert!(memory.have_newer(&copy(999)));
        memory.list_begins();
        // The list has failed, and another list begins.
        memory.list_begins();
        memory.list_ends(&listed(&["u"]));
        assert!(!memory.have_newer(&copy(999)));
    }

    #[test]
    fn objects_that_are_not_in_a_list_are_forgotten() {
        let memory = known(&["u", "gone"]);
        memory.list_begins();
        memory.list_ends(&listed(&["u"]));
        assert_eq!(memory.0.lock().keys().collect::<Vec<_>>(), ["u"]);
    }

    /// In an earlier version, a reconcile that ended after the deletion of its object left a note until the next list.
    #[test]
    fn an_object_that_was_deleted_meanwhile_gets_no_new_note() {
        let memory = known(&["u"]);
        memory.with("u", |note| note.failures = 3);
        let pause = || memory.again(&copy(1), &Error::Conflict);
        assert_eq!(pause(), Duration::from_millis(1600));
        memory.forget("u");
        assert_eq!(pause(), Duration::from_millis(200));
        memory.with("u", |note| note.wrote(&copy(1000)));
        assert!(memory.0.lock().is_empty());
    }
}
