//! Records how much work the reconcile loops have and whether it gets done: which objects wait for a reconcile, which
//! objects are being reconciled, and how long both take.

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        MetricType,
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
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

/// Namespace and name of an object.
type Key = (String, String);

/// The work of the reconcile loops: one loop for applications, one for schedules.
#[derive(Clone, Debug)]
pub struct Workloads {
    pub applications: Workload,
    pub schedules: Workload,
}

/// The work of one reconcile loop. Cheap to clone: all clones share one state.
///
/// The metrics have the names of controller-runtime's metrics, which Kubeflow's operator exposes.
#[derive(Clone, Debug)]
pub struct Workload {
    kind: &'static str,
    /// The kind as it appears in metrics.
    label: &'static str,
    /// The greatest number of reconciles of one namespace that run at once.
    pub(super) at_once: u16,
    state: Arc<Mutex<State>>,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    /// The durations of reconciles, as a metric of the controller and as a metric of its queue.
    worked: [Histogram; 2],
    ends: Family<End, Counter>,
    panics: Counter,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct End {
    controller: &'static str,
    result: &'static str,
}

/// The label of metrics about reconciles.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Controller {
    controller: &'static str,
}

/// The label of metrics about queues.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queue {
    controller: &'static str,
    name: &'static str,
}

impl Queue {
    /// Returns the queue of a controller, which has its name.
    const fn of(controller: &'static str) -> Self {
        Self { controller, name: controller }
    }
}

/// One reconcile, which ends when this value is dropped.
pub(super) struct Work<'a> {
    workload: &'a Workload,
    key: Key,
    began: Instant,
}

/// How a reconcile has ended, in the categories of controller-runtime.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// Nothing is left to do.
    Done,
    /// The object is to be reconciled again after some time.
    Again,
    Failed,
}

impl Workloads {
    /// Creates workloads that are measured in `registry`; `concurrency` is how many reconciles of applications may run
    /// at once.
    pub fn new(registry: &mut Registry, concurrency: u16) -> Self {
        let buckets =
            || Histogram::new([0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]);
        let ends = Family::default();
        let (adds, retries, panics) = (Family::default(), Family::default(), Family::default());
        let waited = Family::new_with_constructor(buckets);
        let worked = Family::new_with_constructor(buckets);
        let worked_by_queue = Family::new_with_constructor(buckets);
        let most = Family::<_, Gauge>::default();
        let workload = |kind: &'static str, label: &'static str, at_once: u16| {
            let state = State { waiting: HashMap::new(), running: HashMap::new(), moved: Instant::now() };
            let (controller, queue) = (Controller { controller: label }, Queue::of(label));
            most.get_or_create(&controller).set(i64::from(at_once));
            let workload = Workload {
                kind,
                label,
                at_once,
                state: Arc::new(Mutex::new(state)),
                adds: Counter::clone(&adds.get_or_create(&queue)),
                retries: Counter::clone(&retries.get_or_create(&queue)),
                waited: Histogram::clone(&waited.get_or_create(&queue)),
                worked: [
                    Histogram::clone(&worked.get_or_create(&controller)),
                    Histogram::clone(&worked_by_queue.get_or_create(&queue)),
                ],
                ends: Family::clone(&ends),
                panics: Counter::clone(&panics.get_or_create(&controller)),
            };
            for outcome in [Outcome::Done, Outcome::Again, Outcome::Failed] {
                drop(ends.get_or_create(&workload.end(outcome)));
            }
            workload
        };
        let workloads = Self {
            applications: workload("SparkApplication", "sparkapplication", concurrency),
            schedules: workload("ScheduledSparkApplication", "scheduledsparkapplication", SCHEDULES_AT_ONCE),
        };

        registry.register("controller_runtime_reconcile", "Reconciles, by result", ends);
        let help = "Reconciles that have hit a bug of the operator";
        registry.register("controller_runtime_reconcile_panics", help, panics);
        let help = "How long reconciles take, in seconds";
        registry.register("controller_runtime_reconcile_time_seconds", help, worked);
        registry.register("workqueue_work_duration_seconds", help, worked_by_queue);
        let help = "How many reconciles may run at once";
        registry.register("controller_runtime_max_concurrent_reconciles", help, most);
        registry.register(
            "workqueue_adds",
            "Events after which an object was to be reconciled, also if it was in the queue already",
            adds,
        );
        registry.register("workqueue_retries", "Reconciles that are tried again", retries);
        let help = "How long objects wait for their reconcile, in seconds";
        registry.register("workqueue_queue_duration_seconds", help, waited);
        registry.register_collector(Box::new(workloads.clone()));
        workloads
    }

    /// Forgets the objects that were still waiting when a term as leader ended: another leader handles them.
    pub fn forget(&self) {
        self.applications.forget();
        self.schedules.forget();
    }

    /// Returns a description of each loop that is stuck.
    pub fn stuck(&self) -> impl Iterator<Item = String> {
        [&self.applications, &self.schedules].into_iter().filter_map(Workload::stuck)
    }
}

impl Workload {
    /// Forgets the objects that were still waiting when a term as leader ended: another leader handles them.
    fn forget(&self) {
        self.state.lock().waiting.clear();
    }

    /// Records that there is a reason to reconcile the object.
    pub(super) fn waits(&self, namespace: &str, name: &str) {
        self.adds.inc();
        self.state.lock().waiting.entry(key(namespace, name)).or_insert_with(Instant::now);
    }

    /// Records that the object does not exist any more, so that no reconcile follows.
    pub(super) fn remove(&self, namespace: &str, name: &str) {
        self.state.lock().waiting.remove(&key(namespace, name));
    }

    /// Records that the reconcile of the object begins.
    pub(super) fn begin(&self, namespace: &str, name: &str) -> Work<'_> {
        let (key, began) = (key(namespace, name), Instant::now());
        let mut state = self.state.lock();
        // An object whose reconcile is started by a timer has not waited.
        if let Some(since) = state.waiting.remove(&key) {
            self.waited.observe((began - since).as_secs_f64());
        }
        state.running.insert(key.clone(), began);
        Work { workload: self, key, began }
    }

    /// Returns a description of the object on which the loop is stuck, if the loop is stuck.
    fn stuck(&self) -> Option<String> {
        self.state.lock().stuck(self.kind, Instant::now())
    }

    /// Counts a reconcile that has hit a bug of the operator.
    pub(super) fn panicked(&self) {
        self.panics.inc();
    }

    fn controller(&self) -> Controller {
        Controller { controller: self.label }
    }

    fn end(&self, outcome: Outcome) -> End {
        End { controller: self.label, result: outcome.as_str() }
    }
}

impl Work<'_> {
    pub(super) fn end(self, outcome: Outcome) {
        let worked = self.began.elapsed().as_secs_f64();
        for histogram in &self.workload.worked {
            histogram.observe(worked);
        }
        self.workload.ends.get_or_create(&self.workload.end(outcome)).inc();
        if matches!(outcome, Outcome::Failed) {
            self.workload.retries.inc();
        }
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let mut state = self.workload.state.lock();
        state.running.remove(&self.key);
        state.moved = Instant::now();
    }
}

impl Outcome {
    /// Returns the outcome of a reconcile with the result `wake`: the time until the next reconcile, if one is needed.
    pub(super) fn of<E>(wake: &Result<Option<Duration>, E>) -> Self {
        match wake {
            Ok(None) => Self::Done,
            Ok(Some(_)) => Self::Again,
            Err(_) => Self::Failed,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::Again => "requeue_after",
            Self::Failed => "error",
        }
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
        let workloads = [&self.applications, &self.schedules];
        let measured = workloads.map(|workload| {
            let state = workload.state.lock();
            let ages = || state.running.values().map(Instant::elapsed);
            let longest = ages().max().unwrap_or_default().as_secs_f64();
            let unfinished = ages().sum::<Duration>().as_secs_f64();
            [state.waiting.len() as f64, state.running.len() as f64, unfinished, longest]
        });
        let described = [
            ("workqueue_depth", "Objects that wait for their reconcile"),
            ("workqueue_active", "Reconciles that run"),
            (
                "workqueue_unfinished_work_seconds",
                "How long the reconciles that run have taken together, in seconds",
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "How long the oldest of them has taken, in seconds",
            ),
        ];
        for (place, (name, help)) in described.into_iter().enumerate() {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (workload, values) in workloads.into_iter().zip(measured) {
                let queue = Queue::of(workload.label);
                ConstGauge::new(values[place]).encode(family.encode_family(&queue)?)?;
            }
        }
        let (name, help) = ("controller_runtime_active_workers", "Reconciles that run");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (workload, [_, running, ..]) in workloads.into_iter().zip(measured) {
            ConstGauge::new(running).encode(family.encode_family(&workload.controller())?)?;
        }
        let failed =
            workloads.map(|workload| workload.ends.get_or_create(&workload.end(Outcome::Failed)).get());
        let described = [
            ("controller_runtime_reconcile_errors", "Reconciles that have failed", failed),
            (
                "controller_runtime_terminal_reconcile_errors",
                "Reconciles that have failed and are not tried again: none",
                [0, 0],
            ),
        ];
        for (name, help, counts) in described {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (workload, count) in workloads.into_iter().zip(counts) {
                ConstCounter::new(count).encode(family.encode_family(&workload.controller())?)?;
            }
        }
        Ok(())
    }
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_nobody_does_is_stuck_and_an_idle_loop_is_not() {
        let workload = Workloads::new(&mut Registry::default(), 1).applications;
        let after = |seconds: u64| {
            let now = Instant::now() + Duration::from_secs(seconds);
            workload.state.lock().stuck(workload.kind, now)
        };
        assert_eq!(after(100_000), None);
        workload.waits("default", "pi");
        assert_eq!(after(60), None);
        assert_eq!(after(200).unwrap(), "SparkApplication default/pi has waited for its reconcile for 200 s");

        let work = workload.begin("default", "pi");
        assert_eq!(after(60), None);
        assert_eq!(after(200).unwrap(), "SparkApplication default/pi has been in its reconcile for 200 s");
        work.end(Outcome::Done);
        assert_eq!(after(100_000), None);

        workload.waits("default", "gone");
        workload.remove("default", "gone");
        assert_eq!(after(100_000), None);
    }

    #[test]
    fn a_reconcile_that_hangs_while_others_end_is_stuck_in_the_end() {
        let workload = Workloads::new(&mut Registry::default(), 2).applications;
        let _hanging = workload.begin("default", "slow");
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
