//! How much is there to do, and does it get done? What waits for a reconcile, what is in one, and how long
//! both take.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{counter::Counter, family::Family, gauge::ConstGauge, histogram::Histogram},
    registry::Registry,
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// How long work may wait, or a reconcile take, while none ends, before the loop counts as stuck. Each request
/// has a deadline of half a minute, and a reconcile in which every one fails makes two or three.
const STUCK: Duration = Duration::from_secs(3 * 60);
/// How long a single reconcile may take, whatever the others do: it may have a thousand events to send to an
/// API server that takes its time for each.
const HUNG: Duration = Duration::from_secs(15 * 60);

/// Namespace and name of an application.
type Key = (String, String);

/// What the reconcile loop has to do. Clones are handles on the same.
///
/// Its metrics have the names of controller-runtime's, which is what KF shows.
#[derive(Clone, Debug)]
pub struct Workload {
    state: Arc<Mutex<State>>,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
    ends: Family<End, Counter>,
}

#[derive(Debug)]
struct State {
    /// Since when an application waits.
    waiting: HashMap<Key, Instant>,
    /// Since when it is worked on.
    running: HashMap<Key, Instant>,
    /// When a reconcile ended last.
    moved: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct End {
    result: &'static str,
}

/// One reconcile; it ends with this value.
pub(super) struct Work<'a> {
    workload: &'a Workload,
    key: Key,
    began: Instant,
}

/// How a reconcile has ended, as controller-runtime counts it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// Nothing is left to do.
    Done,
    /// It is looked at again later.
    Again,
    Failed,
}

impl Workload {
    /// A workload that is measured in `registry`; `concurrency` is how many reconciles may run at once.
    pub fn new(registry: &mut Registry, concurrency: u16) -> Self {
        let buckets = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
        let state = State { waiting: HashMap::new(), running: HashMap::new(), moved: Instant::now() };
        let workload = Self {
            state: Arc::new(Mutex::new(state)),
            adds: Counter::default(),
            retries: Counter::default(),
            waited: Histogram::new(buckets),
            worked: Histogram::new(buckets),
            ends: Family::default(),
        };
        for outcome in [Outcome::Done, Outcome::Again, Outcome::Failed] {
            drop(workload.ends.get_or_create(&outcome.label()));
        }

        let controller = registry.sub_registry_with_label(("controller".into(), "sparkapplication".into()));
        let help = "Reconciles, by result";
        controller.register("controller_runtime_reconcile", help, workload.ends.clone());
        let help = "How long reconciles take, in seconds";
        controller.register("controller_runtime_reconcile_time_seconds", help, workload.worked.clone());
        let help = "How many reconciles may run at once";
        let most = ConstGauge::new(i64::from(concurrency));
        controller.register("controller_runtime_max_concurrent_reconciles", help, most);

        let queue = registry.sub_registry_with_label(("name".into(), "sparkapplication".into()));
        queue.register("workqueue_adds", "Reasons to look at an application", workload.adds.clone());
        queue.register("workqueue_retries", "Reconciles that are tried again", workload.retries.clone());
        let help = "How long applications wait for their reconcile, in seconds";
        queue.register("workqueue_queue_duration_seconds", help, workload.waited.clone());
        queue.register_collector(Box::new(workload.clone()));
        workload
    }

    /// Forgets what a term as leader has left undone: it is another one's now.
    pub fn forget(&self) {
        self.locked().waiting.clear();
    }

    /// The application has a reason to be looked at.
    pub(super) fn waits(&self, namespace: &str, name: &str) {
        self.adds.inc();
        self.locked().waiting.entry(key(namespace, name)).or_insert_with(Instant::now);
    }

    /// There is no such application any more, so nobody will look at it.
    pub(super) fn is_gone(&self, namespace: &str, name: &str) {
        self.locked().waiting.remove(&key(namespace, name));
    }

    /// The application's reconcile begins.
    pub(super) fn begin(&self, namespace: &str, name: &str) -> Work<'_> {
        let (key, began) = (key(namespace, name), Instant::now());
        let mut state = self.locked();
        // Whoever comes by a timer has not waited.
        if let Some(since) = state.waiting.remove(&key) {
            self.waited.observe((began - since).as_secs_f64());
        }
        state.running.insert(key.clone(), began);
        Work { workload: self, key, began }
    }

    /// What stands still, if anything does.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        self.locked().stuck(Instant::now())
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds this lock")
    }
}

impl Work<'_> {
    pub(super) fn end(self, outcome: Outcome) {
        self.workload.worked.observe(self.began.elapsed().as_secs_f64());
        self.workload.ends.get_or_create(&outcome.label()).inc();
        if matches!(outcome, Outcome::Failed) {
            self.workload.retries.inc();
        }
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let mut state = self.workload.locked();
        state.running.remove(&self.key);
        state.moved = Instant::now();
    }
}

impl Outcome {
    fn label(self) -> End {
        let result = match self {
            Self::Done => "success",
            Self::Again => "requeue_after",
            Self::Failed => "error",
        };
        End { result }
    }
}

impl State {
    fn stuck(&self, now: Instant) -> Option<String> {
        let age = |since: &Instant| now.saturating_duration_since(*since);
        let oldest = |work: &HashMap<Key, Instant>| {
            work.iter().max_by_key(|(_, since)| age(since)).map(|(key, since)| (key.clone(), age(since)))
        };
        let stands = age(&self.moved) > STUCK;
        let said = |what: &str, (key, age): (Key, Duration)| {
            let (namespace, name) = key;
            format!("SparkApplication {namespace}/{name} {what} for {} s", age.as_secs())
        };
        let hung = oldest(&self.running).filter(|(_, age)| *age > HUNG || stands && *age > STUCK);
        let kept_waiting = || oldest(&self.waiting).filter(|(_, age)| stands && *age > STUCK);
        hung.map(|oldest| said("has been in its reconcile", oldest))
            .or_else(|| kept_waiting().map(|oldest| said("has waited for its reconcile", oldest)))
    }
}

impl Collector for Workload {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let (depth, active, unfinished, longest) = {
            let state = self.locked();
            let ages = || state.running.values().map(Instant::elapsed);
            let longest = ages().max().unwrap_or_default();
            (state.waiting.len(), state.running.len(), ages().sum::<Duration>(), longest)
        };
        for (name, help, value) in [
            ("workqueue_depth", "Applications that wait for their reconcile", depth as f64),
            ("workqueue_active", "Reconciles that run", active as f64),
            (
                "workqueue_unfinished_work_seconds",
                "How long the reconciles that run have taken together, in seconds",
                unfinished.as_secs_f64(),
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "How long the oldest of them has taken, in seconds",
                longest.as_secs_f64(),
            ),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
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
        let workload = Workload::new(&mut Registry::default(), 1);
        let after = |seconds: u64| {
            let now = Instant::now() + Duration::from_secs(seconds);
            workload.locked().stuck(now)
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
        workload.is_gone("default", "gone");
        assert_eq!(after(100_000), None);
    }

    #[test]
    fn a_reconcile_that_hangs_while_others_end_is_stuck_in_the_end() {
        let workload = Workload::new(&mut Registry::default(), 2);
        let _hanging = workload.begin("default", "slow");
        let mut later = Instant::now() + Duration::from_secs(600);
        workload.locked().moved = later;
        assert_eq!(workload.locked().stuck(later), None);
        later += Duration::from_secs(600);
        workload.locked().moved = later;
        assert!(workload.locked().stuck(later).unwrap().contains("default/slow has been in its reconcile"));
    }
}
