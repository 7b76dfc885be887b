//! Measures how much work the reconcile loops have and whether it gets done.

use super::queue_state::QueueState;
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{
        MetricType, TypedMetric,
        counter::{ConstCounter, Counter},
        gauge::ConstGauge,
        histogram::Histogram,
    },
    registry::Registry,
};
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::Instant;

/// The number of schedules reconciled at once. Thousands of schedules may be due in the same minute, and an application
/// that one schedule starts should not have to wait for the starts of others; a start is one small object.
const SCHEDULES_AT_ONCE: u16 = 64;

/// The number of SparkConnects reconciled at once. They are few, and a reconcile is some small requests.
const CONNECTS_AT_ONCE: u16 = 16;

/// The work of the reconcile loops: one loop for each kind.
#[derive(Clone, Debug)]
pub struct Workloads {
    pub applications: Workload,
    pub schedules: Workload,
    pub connects: Workload,
}

/// The work of one reconcile loop. Cheap to clone: all clones share one state.
///
/// The metrics have the names of controller-runtime's metrics, which Kubeflow's operator exposes.
#[derive(Clone, Debug)]
pub struct Workload {
    kind: &'static str,
    /// The kind as it appears in metrics.
    label: String,
    /// The greatest number of reconciles of one namespace that run at once.
    pub(super) at_once: u16,
    /// The state of the present queue, if there is one.
    state: Arc<Mutex<Weak<Mutex<QueueState>>>>,
    pub(super) adds: Counter,
    pub(super) waited: Histogram,
    worked: Histogram,
    /// The number of reconciles after which nothing is left to do.
    done: Counter,
    /// The number of reconciles after which the object is to be reconciled again after some time.
    again: Counter,
    failed: Counter,
    /// The number of reconciles that have panicked, because of a bug of the operator.
    pub(super) panics: Counter,
}

impl Workloads {
    /// Creates workloads that are measured in `registry`; `concurrency` is how many reconciles of applications may run
    /// at once.
    pub fn new(registry: &mut Registry, concurrency: u16) -> Self {
        let workloads = Self {
            applications: Workload::new("SparkApplication", concurrency),
            schedules: Workload::new("ScheduledSparkApplication", SCHEDULES_AT_ONCE),
            connects: Workload::new("SparkConnect", CONNECTS_AT_ONCE),
        };
        registry.register_collector(Box::new(workloads.clone()));
        workloads
    }

    fn all(&self) -> [&Workload; 3] {
        [&self.applications, &self.schedules, &self.connects]
    }

    /// Returns a description of each loop that is stuck.
    pub fn stuck(&self) -> impl Iterator<Item = String> {
        self.all().into_iter().filter_map(|of| of.read(|state| state.stuck(of.kind, Instant::now())))
    }

    /// Writes a metric of each loop. Metrics of queues have one more label: the name of the queue, which equals that of
    /// its controller.
    fn family<M: EncodeMetric + TypedMetric>(
        &self,
        encoder: &mut DescriptorEncoder,
        name: &str,
        help: &str,
        metric: impl Fn(&Workload) -> M,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, M::TYPE)?;
        for workload in self.all() {
            let mut labels = vec![("controller", &*workload.label)];
            if name.starts_with("workqueue_") {
                labels.push(("name", &*workload.label));
            }
            metric(workload).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Workload {
    fn new(kind: &'static str, at_once: u16) -> Self {
        let buckets = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
        Self {
            kind,
            label: kind.to_lowercase(),
            at_once,
            state: Arc::default(),
            adds: Counter::default(),
            waited: Histogram::new(buckets),
            worked: Histogram::new(buckets),
            done: Counter::default(),
            again: Counter::default(),
            failed: Counter::default(),
            panics: Counter::default(),
        }
    }

    /// Returns the state of a new queue. Metrics and liveness show this queue until the next one begins or this one is
    /// dropped: objects that this process left undone when it lost the lease do not count any more.
    pub(super) fn begin(&self) -> Arc<Mutex<QueueState>> {
        let state = Arc::default();
        *self.state.lock() = Arc::downgrade(&state);
        state
    }

    /// Counts a reconcile, which `began` then, by its result: the time until the next reconcile, if one is needed.
    pub(super) fn ended<E>(&self, began: Instant, wake: &Result<Option<Duration>, E>) {
        self.worked.observe(began.elapsed().as_secs_f64());
        match wake {
            Ok(None) => self.done.inc(),
            Ok(Some(_)) => self.again.inc(),
            Err(_) => self.failed.inc(),
        };
    }

    fn read<T: Default>(&self, read: impl FnOnce(&QueueState) -> T) -> T {
        let state = self.state.lock().upgrade();
        state.map(|state| read(&state.lock())).unwrap_or_default()
    }

    /// Returns for how long each reconcile has been running.
    fn running(&self) -> Vec<Duration> {
        self.read(|state| state.runs().map(|(_, since)| since.elapsed()).collect())
    }
}

impl Collector for Workloads {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let (name, help) = ("controller_runtime_reconcile", "Reconciles, by result");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for workload in self.all() {
            let Workload { done, again, failed, .. } = workload;
            // The categories of controller-runtime.
            for (result, ended) in [("success", done), ("requeue_after", again), ("error", failed)] {
                let labels = [("controller", &*workload.label), ("result", result)];
                ended.encode(family.encode_family(&labels)?)?;
            }
        }

        let encoder = &mut encoder;
        let failed = |of: &Workload| of.failed.clone();
        let help = "Reconciles that have failed";
        self.family(encoder, "controller_runtime_reconcile_errors", help, failed)?;
        let help = "Reconciles that have failed and are not retried: none";
        let none = |_: &Workload| ConstCounter::new(0_u64);
        self.family(encoder, "controller_runtime_terminal_reconcile_errors", help, none)?;
        let help = "Reconciles that have hit a bug of the operator";
        self.family(encoder, "controller_runtime_reconcile_panics", help, |of| of.panics.clone())?;
        let help = "How many reconciles may run at once";
        let most = |of: &Workload| ConstGauge::new(i64::from(of.at_once));
        self.family(encoder, "controller_runtime_max_concurrent_reconciles", help, most)?;

        let help = "How long reconciles take, in seconds";
        self.family(encoder, "controller_runtime_reconcile_time_seconds", help, |of| of.worked.clone())?;
        self.family(encoder, "workqueue_work_duration_seconds", help, |of| of.worked.clone())?;
        let help = "How long objects wait for their reconcile, in seconds";
        self.family(encoder, "workqueue_queue_duration_seconds", help, |of| of.waited.clone())?;
        let help = "Events after which an object was to be reconciled, also if it was in the queue already";
        self.family(encoder, "workqueue_adds", help, |of| of.adds.clone())?;
        self.family(encoder, "workqueue_retries", "Reconciles that are retried", failed)?;

        let waiting = |of: &Workload| ConstGauge::new(of.read(|state| state.waits().count()) as f64);
        self.family(encoder, "workqueue_depth", "Objects that wait for their reconcile", waiting)?;
        let running = |of: &Workload| ConstGauge::new(of.running().len() as f64);
        self.family(encoder, "workqueue_active", "Reconciles that run", running)?;
        self.family(encoder, "controller_runtime_active_workers", "Reconciles that run", running)?;
        let help = "How long the reconciles that run have taken together, in seconds";
        let sum = |of: &Workload| ConstGauge::new(of.running().iter().sum::<Duration>().as_secs_f64());
        self.family(encoder, "workqueue_unfinished_work_seconds", help, sum)?;
        let help = "How long the reconcile that has run longest has taken so far, in seconds";
        let longest = |of: &Workload| {
            let longest = of.running().into_iter().max().unwrap_or_default();
            ConstGauge::new(longest.as_secs_f64())
        };
        self.family(encoder, "workqueue_longest_running_processor_seconds", help, longest)
    }
}
