//! What is told of applications and executors? What there is, from the caches when it is asked for; what has happened,
//! from the statuses that were written.

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
use std::sync::{Arc, Mutex, MutexGuard};

/// The metrics of applications. Clones are handles on the same.
#[derive(Clone)]
pub struct ApplicationMetrics {
    ledger: Arc<Mutex<Ledger>>,
    /// While this process drives applications.
    caches: Arc<Mutex<Option<Caches>>>,
}

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
        Self { ledger: Arc::new(Mutex::new(Ledger::new(options))), caches: Arc::default() }
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
        let tally = tally(application, status, now, limits);
        let mut ledger = self.ledger();
        let labels = &ledger.options().labels;
        let namespace = application.namespace().unwrap_or_default();
        let executors = labels_of_executors(Some(application), &namespace, labels);
        let application = labels_of(application, labels);
        ledger.add(application, executors, &tally);
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
