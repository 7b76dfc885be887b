//! Records how much work the reconcile loops have and whether it gets done: which objects wait for a reconcile, which
//! objects are being reconciled, and how long both take.

use super::Key;
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
    collections::HashMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long an object may wait, or a reconcile may take, while no reconcile ends, before the loop counts as stuck. Each
/// request has a deadline of half a minute, and a reconcile whose requests all fail makes two or three requests.
const STUCK: Duration = Duration::from_secs(3 * 60);
/// How long a single reconcile may take, even if other reconciles end: it may have a thousand events to send to an API
/// server that is slow for each of them.
const HUNG: Duration = Duration::from_secs(15 * 60);

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
    state: Arc<Mutex<State>>,
    adds: Counter,
    waited: Histogram,
    worked: Histogram,
    /// The number of reconciles after which nothing is left to do.
    done: Counter,
    /// The number of reconciles after which the object is to be reconciled again after some time.
    again: Counter,
    failed: Counter,
    /// The number of reconciles that have hit a bug of the operator.
    pub(super) panics: Counter,
}

#[derive(Debug)]
struct State {
    /// The objects that wait for a reconcile, and since when each waits.
    waiting: HashMap<Key, Instant>,
    /// The objects that are being reconciled, and when each reconcile began.
    running: HashMap<Key, Instant>,
    /// When a reconcile last ended.
    moved: Instant,
}

/// One reconcile, which ends when this value is dropped.
pub(super) struct Work<'a> {
    workload: &'a Workload,
    key: Key,
    began: Instant,
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

    /// Forgets the objects that were still waiting when a term as leader ended: another leader handles them.
    pub fn forget(&self) {
        self.all().into_iter().for_each(|of| of.state.lock().waiting.clear());
    }

    /// Returns a description of each loop that is stuck.
    pub fn stuck(&self) -> impl Iterator<Item = String> {
        self.all().into_iter().filter_map(|of| of.state.lock().stuck(of.kind, Instant::now()))
    }

    /// Writes a metric of each loop. Metrics of queues have a label more: the name of the queue, which is that of its
    /// controller.
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
        let state = State { waiting: HashMap::new(), running: HashMap::new(), moved: Instant::now() };
        Self {
            kind,
            label: kind.to_lowercase(),
            at_once,
            state: Arc::new(Mutex::new(state)),
            adds: Counter::default(),
            waited: Histogram::new(buckets),
            worked: Histogram::new(buckets),
            done: Counter::default(),
            again: Counter::default(),
            failed: Counter::default(),
            panics: Counter::default(),
        }
    }

    /// Records that there is a reason to reconcile the object.
    pub(super) fn waits(&self, key: &Key) {
        self.adds.inc();
        self.state.lock().waiting.entry(key.clone()).or_insert_with(Instant::now);
    }

    /// Records that the object does not exist any more, so that no reconcile follows.
    pub(super) fn remove(&self, key: &Key) {
        self.state.lock().waiting.remove(key);
    }

    /// Records that the reconcile of the object begins.
    pub(super) fn begin(&self, key: &Key) -> Work<'_> {
        let began = Instant::now();
        let mut state = self.state.lock();
        // An object whose reconcile is started by a timer has not waited.
        if let Some(since) = state.waiting.remove(key) {
            self.waited.observe((began - since).as_secs_f64());
        }
        state.running.insert(key.clone(), began);
        Work { workload: self, key: key.clone(), began }
    }

    /// Returns for how long each reconcile has been running.
    fn running(&self) -> Vec<Duration> {
        self.state.lock().running.values().map(Instant::elapsed).collect()
    }
}

impl Work<'_> {
    /// Counts a reconcile with the result `wake`: the time until the next reconcile, if one is needed.
    pub(super) fn end<E>(self, wake: &Result<Option<Duration>, E>) {
        let Workload { worked, done, again, failed, .. } = self.workload;
        worked.observe(self.began.elapsed().as_secs_f64());
        match wake {
            Ok(None) => done.inc(),
            Ok(Some(_)) => again.inc(),
            Err(_) => failed.inc(),
        };
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let mut state = self.workload.state.lock();
        state.running.remove(&self.key);
        state.moved = Instant::now();
    }
}

impl State {
    fn stuck(&self, kind: &str, now: Instant) -> Option<String> {
        let age = |since: &Instant| now.saturating_duration_since(*since);
        let oldest = |work: &HashMap<Key, Instant>| {
            work.iter().max_by_key(|(_, since)| age(since)).map(|(key, since)| (key.clone(), age(since)))
        };
        let stands = age(&self.moved) > STUCK;
        let said = |what: &str, (key, age): (Key, Duration)| {
            let (namespace, name) = key;
            format!("{kind} {namespace}/{name} {what} for {} s", age.as_secs())
        };
        let hung = oldest(&self.running).filter(|(_, age)| *age > HUNG || stands && *age > STUCK);
        let kept_waiting = || oldest(&self.waiting).filter(|(_, age)| stands && *age > STUCK);
        hung.map(|oldest| said("has been in its reconcile", oldest))
            .or_else(|| kept_waiting().map(|oldest| said("has waited for its reconcile", oldest)))
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
        let help = "Reconciles that have failed and are not tried again: none";
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
        self.family(encoder, "workqueue_retries", "Reconciles that are tried again", failed)?;

        let waiting = |of: &Workload| ConstGauge::new(of.state.lock().waiting.len() as f64);
        self.family(encoder, "workqueue_depth", "Objects that wait for their reconcile", waiting)?;
        let running = |of: &Workload| ConstGauge::new(of.running().len() as f64);
        self.family(encoder, "workqueue_active", "Reconciles that run", running)?;
        self.family(encoder, "controller_runtime_active_workers", "Reconciles that run", running)?;
        let help = "How long the reconciles that run have taken together, in seconds";
        let sum = |of: &Workload| ConstGauge::new(of.running().iter().sum::<Duration>().as_secs_f64());
        self.family(encoder, "workqueue_unfinished_work_seconds", help, sum)?;
        let help = "How long the oldest of them has taken, in seconds";
        let longest = |of: &Workload| {
            let longest = of.running().into_iter().max().unwrap_or_default();
            ConstGauge::new(longest.as_secs_f64())
        };
        self.family(encoder, "workqueue_longest_running_processor_seconds", help, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ("default".to_owned(), name.to_owned())
    }

    #[test]
    fn work_that_nobody_does_is_stuck_and_an_idle_loop_is_not() {
        let workload = Workloads::new(&mut Registry::default(), 1).applications;
        let after = |seconds: u64| {
            let now = Instant::now() + Duration::from_secs(seconds);
            workload.state.lock().stuck(workload.kind, now)
        };
        assert_eq!(after(100_000), None);
        workload.waits(&key("pi"));
        assert_eq!(after(60), None);
        assert_eq!(after(200).unwrap(), "SparkApplication default/pi has waited for its reconcile for 200 s");

        let work = workload.begin(&key("pi"));
        assert_eq!(after(60), None);
        assert_eq!(after(200).unwrap(), "SparkApplication default/pi has been in its reconcile for 200 s");
        work.end(&Ok::<_, ()>(None));
        assert_eq!(after(100_000), None);

        workload.waits(&key("gone"));
        workload.remove(&key("gone"));
        assert_eq!(after(100_000), None);
    }

    #[test]
    fn metrics_of_reconciles_and_queues_have_the_names_of_controller_runtime() {
        let mut registry = Registry::default();
        let workloads = Workloads::new(&mut registry, 7);
        let workload = &workloads.applications;
        workload.waits(&key("pi"));
        workload.begin(&key("pi")).end(&Err(()));
        workload.panics.inc();
        workload.waits(&key("pi"));
        workload.waits(&key("pi"));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in include_str!("../../../tests/data/workload-metrics.txt").lines() {
            assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
        }
    }

    #[test]
    fn a_reconcile_that_hangs_while_others_end_is_stuck_in_the_end() {
        let workload = Workloads::new(&mut Registry::default(), 2).applications;
        let _hanging = workload.begin(&key("slow"));
        let mut later = Instant::now() + Duration::from_secs(600);
        workload.state.lock().moved = later;
        assert_eq!(workload.state.lock().stuck(workload.kind, later), None);
        later += Duration::from_secs(600);
        workload.state.lock().moved = later;
        assert!(
            workload
                .state
                .lock()
                .stuck(workload.kind, later)
                .unwrap()
                .contains("default/slow has been in its reconcile")
        );
    }
}
