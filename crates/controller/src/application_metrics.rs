//! Reports metrics of applications and executors: gauges are computed from the caches when the metrics are requested,
//! and counters grow with each status that the operator writes.

use super::{Cluster, Watched, watch::Readable};
use api::{Identity, SparkApplication, SparkApplicationStatus};
use application_metrics::{Ledger, Options, Present, labels_of, labels_of_executors, tally};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// The metrics of applications. Cheap to clone: all clones share one state.
#[derive(Clone)]
pub struct ApplicationMetrics {
    ledger: Arc<Mutex<Ledger>>,
    /// The caches, while this process drives applications; dangling otherwise.
    caches: Arc<Mutex<Weak<Cluster>>>,
}

impl ApplicationMetrics {
    /// Creates metrics in which nothing is counted yet.
    pub fn new(options: Options) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::new(options)));
        Self { ledger, caches: Arc::default() }
    }

    /// Returns all metrics in Prometheus' text format. A standby process reports no applications, so the sum over all
    /// replicas equals the number that the leader reports.
    pub fn text(&self) -> String {
        let caches = self.caches.lock().upgrade();
        let options = self.ledger.lock().options().clone();
        let present = caches.map(|caches| caches.present(&options)).unwrap_or_default();
        let snapshot = self.ledger.lock().snapshot(&present);
        // The ledger is not locked any more, so that no reconcile waits until the text is written.
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
        let tally = tally(application, status, now, limit);
        let mut ledger = self.ledger.lock();
        let labels = &ledger.options().labels;
        let metadata = &application.metadata;
        let executors = labels_of_executors(metadata, &application.spec.executor.pod.labels, labels);
        let application = labels_of(metadata, labels);
        ledger.add(application, executors, &tally);
    }
}

impl Cluster {
    fn present(&self, options: &Options) -> Present {
        let mut present = Present::default();
        let of_executors = |watched: &Watched| {
            labels_of_executors(watched.meta(), &watched.kept.executor_labels, &options.labels)
        };
        for watched in self.applications.state() {
            let is_ours = self.namespaces.include(watched.own_namespace());
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
