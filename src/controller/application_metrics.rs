//! Serves the metrics of applications and executors: gauges from the caches at the time of a scrape, counters from the
//! statuses that were written.

use super::{Watched, namespaces::OurNamespaces, pods::PodIndex};
use crate::{
    api::{SparkApplication, SparkApplicationStatus},
    plan::{
        application_metrics::{Ledger, Options, Present, labels_of, labels_of_executors, tally},
        executors::ExecutorLimits,
    },
};
use jiff::Timestamp;
use kube::{
    ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};

/// The metrics of applications. Clones are handles on the same.
#[derive(Clone)]
pub struct ApplicationMetrics {
    ledger: Arc<Mutex<Ledger>>,
    /// While this process drives applications.
    caches: Arc<Mutex<Option<Caches>>>,
    unanswered: Arc<Mutex<Unanswered>>,
}

/// By the uid of its application: what was to be written when nobody knew whether it was, and in place of what.
type Unanswered = HashMap<String, Vec<(SparkApplication, SparkApplicationStatus)>>;

/// What there is, as far as the API server has told us.
#[derive(Clone)]
pub(super) struct Caches {
    pub applications: Store<Watched>,
    pub pods: Arc<PodIndex>,
    pub namespaces: Arc<OurNamespaces>,
}

/// While this lives, the metrics tell what the caches hold.
pub(super) struct Shown<'a>(&'a ApplicationMetrics);

impl ApplicationMetrics {
    /// In which nothing has happened yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::new(options)));
        Self { ledger, caches: Arc::default(), unanswered: Arc::default() }
    }

    /// All of them in Prometheus' text format. A process that stands by has nothing, and says so: the sum over all
    /// replicas is what the leader tells.
    #[must_use]
    pub fn text(&self) -> String {
        let caches = self.caches.lock().expect("no code panics while it holds this lock").clone();
        let options = self.ledger().options().clone();
        let present = caches.map(|caches| caches.present(&options)).unwrap_or_default();
        self.ledger().text(&present)
    }

    /// Tells what `caches` hold, which have to be complete.
    pub(super) fn show(&self, caches: Caches) -> Shown<'_> {
        *self.caches.lock().expect("no code panics while it holds this lock") = Some(caches);
        Shown(self)
    }

    /// `status` has been written in place of that of `application`.
    pub(super) fn written(
        &self,
        application: &SparkApplication,
        status: &SparkApplicationStatus,
        now: Timestamp,
        limits: ExecutorLimits,
    ) {
        self.forget(&application.uid().unwrap_or_default());
        let tally = tally(application, status, now, limits);
        let mut ledger = self.ledger();
        let labels = &ledger.options().labels;
        let namespace = application.namespace().unwrap_or_default();
        let executors = labels_of_executors(Some(application), &namespace, labels);
        let application = labels_of(application, labels);
        ledger.add(application, executors, &tally);
    }

    /// Whether `status` has been written in place of that of `application`, nobody knows: there was no answer.
    pub(super) fn maybe_written(&self, application: &SparkApplication, status: SparkApplicationStatus) {
        let uid = application.uid().unwrap_or_default();
        self.unanswered().entry(uid).or_default().push((application.clone(), status));
    }

    /// `application` is as the watch tells: was it written, what there was no answer to?
    pub(super) fn seen(&self, application: &SparkApplication, now: Timestamp, limits: ExecutorLimits) {
        let uid = application.uid().unwrap_or_default();
        let is_news =
            |(before, _): &(SparkApplication, _)| before.resource_version() != application.resource_version();
        let mut all = self.unanswered();
        let Some(unanswered) = all.get(&uid).filter(|unanswered| unanswered.iter().any(is_news)) else {
            return;
        };
        // As it is stored: times lose their fractions there.
        let stored = json!(application.status);
        let written = unanswered.iter().find(|(_, status)| json!(status) == stored).cloned();
        all.remove(&uid);
        drop(all);
        if let Some((before, status)) = written {
            self.written(&before, &status, now, limits);
        }
    }

    /// The application is gone, or nothing is unknown of it.
    pub(super) fn forget(&self, uid: &str) {
        self.unanswered().remove(uid);
    }

    /// There are no applications but those with the uids `listed`.
    pub(super) fn forget_others(&self, listed: &HashSet<String>) {
        self.unanswered().retain(|uid, _| listed.contains(uid));
    }

    fn unanswered(&self) -> MutexGuard<'_, Unanswered> {
        self.unanswered.lock().expect("no code panics while it holds this lock")
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no code panics while it holds this lock")
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        *self.0.caches.lock().expect("no code panics while it holds this lock") = None;
    }
}

impl Caches {
    fn present(&self, options: &Options) -> Present {
        let mut present = Present::default();
        for watched in self.applications.state() {
            if !self.namespaces.include(&watched.namespace().unwrap_or_default()) {
                continue;
            }
            // Of one that cannot be read nobody knows the state; an event tells of it.
            let Ok(application) = &watched.0 else { continue };
            let values = labels_of(application, &options.labels);
            let states = present.applications.entry(values).or_default();
            *states.entry(application.state()).or_default() += 1;
        }
        for ((namespace, name), running) in self.pods.running_executors() {
            if !self.namespaces.include(&namespace) {
                continue;
            }
            let watched = self.applications.get(&ObjectRef::new(&name).within(&namespace));
            let application = watched.as_deref().and_then(|watched| watched.0.as_ref().ok());
            let values = labels_of_executors(application, &namespace, &options.labels);
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
        from_value(json!({
            "apiVersion": "sparkoperator.k8s.io/v1beta2",
            "kind": "SparkApplication",
            "metadata": {"name": "pi", "uid": "u", "resourceVersion": version},
            "spec": {"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn what_was_written_without_an_answer_is_counted_when_it_is_seen_and_once() {
        let (now, limits) = ("2026-01-01T00:00:00.5Z".parse().unwrap(), ExecutorLimits::default());
        let new = application("1", &Value::Null);
        let failed =
            json!({"applicationState": {"state": "FAILED"}, "driverInfo": {}, "terminationTime": now});
        let status: SparkApplicationStatus = from_value(failed).unwrap();
        let stored = application("2", &json!(status));
        let counted =
            |metrics: &ApplicationMetrics| metrics.text().contains("spark_application_failure_count 1\n");

        let metrics = ApplicationMetrics::new(Options::default());
        metrics.maybe_written(&new, status.clone());
        metrics.seen(&new, now, limits);
        assert!(!counted(&metrics), "nobody knows yet");
        metrics.seen(&stored, now, limits);
        assert!(counted(&metrics));
        metrics.seen(&stored, now, limits);
        assert!(counted(&metrics));

        let metrics = ApplicationMetrics::new(Options::default());
        metrics.maybe_written(&new, status.clone());
        metrics.written(&new, &status, now, limits);
        metrics.seen(&stored, now, limits);
        assert!(counted(&metrics), "it was written by the next try");

        let metrics = ApplicationMetrics::new(Options::default());
        metrics.maybe_written(&new, status);
        metrics.seen(&application("2", &Value::Null), now, limits);
        metrics.seen(&stored, now, limits);
        assert!(!counted(&metrics), "it was not written, and somebody else has");
    }

    #[test]
    fn nothing_is_remembered_of_applications_that_a_list_does_not_have() {
        let metrics = ApplicationMetrics::new(Options::default());
        metrics.maybe_written(&application("1", &Value::Null), SparkApplicationStatus::default());
        metrics.forget_others(&HashSet::from(["u".to_owned()]));
        assert_eq!(metrics.unanswered().len(), 1);
        metrics.forget_others(&HashSet::new());
        assert_eq!(metrics.unanswered().len(), 0);
    }
}
