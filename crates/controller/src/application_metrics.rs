//! Reports metrics of applications and executors: gauges are computed from the caches when the metrics are requested,
//! and counters grow with each status that the operator writes.

use super::{Cluster, Watched, watch::Readable};
use api::{SparkApplication, SparkApplicationStatus};
use application_metrics::{Ledger, Options, Present, labels_of, labels_of_executors, tally};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
};

/// The metrics of applications. Cheap to clone: all clones share one state.
#[derive(Clone)]
pub struct ApplicationMetrics {
    ledger: Arc<Mutex<Ledger>>,
    /// The caches, while this process drives applications; none otherwise.
    caches: Arc<Mutex<Weak<Cluster>>>,
    unanswered: Arc<Mutex<Unanswered>>,
}

/// For each application, by uid: the status writes that the API server has not answered. Each write consists of the
/// application before the write, and the status to write.
type Unanswered = HashMap<String, Vec<(SparkApplication, SparkApplicationStatus)>>;

impl ApplicationMetrics {
    /// Creates metrics in which nothing is counted yet.
    pub fn new(options: Options) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::new(options)));
        Self { ledger, caches: Arc::default(), unanswered: Arc::default() }
    }

    /// Returns all metrics in Prometheus' text format. A process that stands by reports that there are no applications,
    /// so the sum over all replicas equals the number that the leader reports.
    pub fn text(&self) -> String {
        let caches = self.caches.lock().upgrade();
        let options = self.ledger.lock().options().clone();
        let present = caches.map(|caches| caches.present(&options)).unwrap_or_default();
        let snapshot = self.ledger.lock().snapshot(&present);
        // No reconcile that counts waits for the text: the ledger is not locked any more.
        snapshot.text()
    }

    /// Reports the contents of the caches in `cluster` until that is dropped. The caches must be complete.
    pub(super) fn show(&self, cluster: &Arc<Cluster>) {
        *self.caches.lock() = Arc::downgrade(cluster);
    }

    /// Updates the counters after `status` has replaced the status of `application`.
    pub(super) fn written(
        &self,
        application: &SparkApplication,
        status: &SparkApplicationStatus,
        now: Timestamp,
        limit: usize,
    ) {
        self.forget(&application.uid().unwrap_or_default());
        let tally = tally(application, status, now, limit);
        let mut ledger = self.ledger.lock();
        let labels = &ledger.options().labels;
        let metadata = &application.metadata;
        let executors = labels_of_executors(metadata, &application.spec.executor.pod.labels, labels);
        let application = labels_of(metadata, labels);
        ledger.add(application, executors, &tally);
    }

    /// Remembers that `status` may have been written in place of the status of `application`: the API server did not
    /// answer.
    pub(super) fn maybe_written(&self, application: &SparkApplication, status: SparkApplicationStatus) {
        let uid = application.uid().unwrap_or_default();
        self.unanswered.lock().entry(uid).or_default().push((application.clone(), status));
    }

    /// Updates the counters for a write that the API server has not answered, if `application`, as the watch has
    /// reported it, contains the status of that write.
    pub(super) fn seen(&self, application: &SparkApplication, now: Timestamp, limit: usize) {
        let uid = application.uid().unwrap_or_default();
        let is_news =
            |(before, _): &(SparkApplication, _)| before.resource_version() != application.resource_version();
        let mut all = self.unanswered.lock();
        let Some(unanswered) = all.get(&uid).filter(|unanswered| unanswered.iter().any(is_news)) else {
            return;
        };
        // Both statuses are compared as JSON, the form in which they are stored: in it, times have no fractions of a
        // second.
        let stored = json!(application.status);
        let written = unanswered.iter().find(|(_, status)| json!(status) == stored).cloned();
        all.remove(&uid);
        drop(all);
        if let Some((before, status)) = written {
            self.written(&before, &status, now, limit);
        }
    }

    /// Forgets the unanswered writes of an application that is gone, or whose status is known by now.
    pub(super) fn forget(&self, uid: &str) {
        self.unanswered.lock().remove(uid);
    }

    /// Forgets the unanswered writes of all applications except those with the uids `listed`.
    pub(super) fn forget_others(&self, listed: &HashSet<String>) {
        self.unanswered.lock().retain(|uid, _| listed.contains(uid));
    }
}

impl Cluster {
    fn present(&self, options: &Options) -> Present {
        let mut present = Present::default();
        let of_executors = |watched: &Watched| {
            labels_of_executors(watched.meta(), &watched.kept.executor_labels, &options.labels)
        };
        for watched in self.applications.state() {
            let is_ours = self.namespaces.include(&watched.namespace().unwrap_or_default());
            // The state of an application that cannot be read is unknown; an event reports that application.
            if !is_ours || watched.error().is_some() {
                continue;
            }
            present.executors.entry(of_executors(&watched)).or_default();
            let values = labels_of(watched.meta(), &options.labels);
            let states = present.applications.entry(values).or_default();
            *states.entry(watched.kept.state).or_default() += 1;
        }
        for ((namespace, name), running) in self.pods.running_executors() {
            if !self.namespaces.include(&namespace) {
                continue;
            }
            let watched = self.application(&namespace, &name);
            let values = match watched.as_deref().filter(|watched| watched.error().is_none()) {
                Some(watched) => of_executors(watched),
                None => {
                    let metadata = ObjectMeta { namespace: Some(namespace), ..ObjectMeta::default() };
                    labels_of(&metadata, &options.labels)
                }
            };
            *present.executors.entry(values).or_default() += running;
        }
        present
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value};

    fn application(version: &str, status: &Value) -> SparkApplication {
        let metadata = json!({"name": "pi", "uid": "u", "resourceVersion": version});
        let mut application = crate::tests::application(&metadata);
        application["status"] = status.clone();
        from_value(application).unwrap()
    }

    #[test]
    fn what_was_written_without_an_answer_is_counted_when_it_is_seen_and_once() {
        let (now, limit) = ("2026-01-01T00:00:00.5Z".parse().unwrap(), plan::executors::MOST_EXECUTORS);
        let new = application("1", &Value::Null);
        let failed =
            json!({"applicationState": {"state": "FAILED"}, "driverInfo": {}, "terminationTime": now});
        let status: SparkApplicationStatus = from_value(failed).unwrap();
        let stored = application("2", &json!(status));
        let counted =
            |metrics: &ApplicationMetrics| metrics.text().contains("spark_application_failure_count 1\n");

        let metrics = ApplicationMetrics::new(Options::default());
        metrics.maybe_written(&new, status.clone());
        metrics.seen(&new, now, limit);
        assert!(!counted(&metrics), "nobody knows yet");
        metrics.seen(&stored, now, limit);
        assert!(counted(&metrics));
        metrics.seen(&stored, now, limit);
        assert!(counted(&metrics));

        let metrics = ApplicationMetrics::new(Options::default());
        metrics.maybe_written(&new, status.clone());
        metrics.written(&new, &status, now, limit);
        metrics.seen(&stored, now, limit);
        assert!(counted(&metrics), "it was written by the next try");

        let metrics = ApplicationMetrics::new(Options::default());
        metrics.maybe_written(&new, status);
        metrics.seen(&application("2", &Value::Null), now, limit);
        metrics.seen(&stored, now, limit);
        assert!(!counted(&metrics), "it was not written, and somebody else has");
    }

    #[test]
    fn nothing_is_remembered_of_applications_that_a_list_does_not_have() {
        let metrics = ApplicationMetrics::new(Options::default());
        metrics.maybe_written(&application("1", &Value::Null), SparkApplicationStatus::default());
        metrics.forget_others(&HashSet::from(["u".to_owned()]));
        assert_eq!(metrics.unanswered.lock().len(), 1);
        metrics.forget_others(&HashSet::new());
        assert_eq!(metrics.unanswered.lock().len(), 0);
    }
}
