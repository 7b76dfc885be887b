//! The queue of a reconcile loop: each object is in it once and is worked on by one worker at a time, and the namespaces
//! take turns, so that a thousand objects of one namespace delay those of each other namespace by one turn.

use super::{Key, queue_state::QueueState, workload::Workload};
use api::Identity;
use kube::ResourceExt;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::error;
use work::caught;

/// The pause before a retry after the work on an object has panicked outside its reconcile.
const AFTER_BUG: Duration = Duration::from_secs(60);
/// The maximum pause before an object is worked on again. Users write pauses as numbers of seconds up to `i64::MAX`,
/// which an `Instant` cannot represent.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) struct Queue {
    pub workload: Workload,
    state: Arc<Mutex<QueueState>>,
    news: Notify,
}

impl Queue {
    /// Creates a queue, whose objects the metrics of `workload` count until the queue is dropped.
    pub(super) fn new(workload: Workload) -> Arc<Self> {
        let state = workload.begin();
        Arc::new(Self { workload, state, news: Notify::new() })
    }

    /// Queues an object. An object that is being worked on is worked on again.
    pub(super) fn push(&self, namespace: &str, name: &str) {
        self.workload.adds.inc();
        self.state.lock().push((namespace.to_owned(), name.to_owned()), Some(Instant::now()));
        self.news.notify_one();
    }

    pub(super) fn add(&self, object: &impl ResourceExt) {
        self.push(object.own_namespace(), &object.name_any());
    }

    /// Runs `work` for each object in the queue until `stop` is cancelled, and returns when all work has ended. `work`
    /// returns the time after which the object is worked on again if it is not queued before; `None` if that is not
    /// needed.
    pub(super) async fn work<F>(
        self: &Arc<Self>,
        stop: &CancellationToken,
        work: impl Fn(Key) -> F + Clone + Send + 'static,
    ) where
        F: Future<Output = Option<Duration>> + Send,
    {
        let mut workers = JoinSet::new();
        let of_one = usize::from(self.workload.at_once);
        // A quarter more workers than one namespace may use, so that a namespace whose work takes long does not use
        // all.
        for _ in 0..of_one + of_one.div_ceil(4) {
            let (queue, stop, work) = (Arc::clone(self), stop.clone(), work.clone());
            workers.spawn(async move {
                while let Some(key) = stop.run_until_cancelled(queue.next()).await {
                    let again = caught(work(key.clone())).await.unwrap_or_else(|bug| {
                        error!(namespace = key.0, name = key.1, %bug, "the work is retried");
                        Some(AFTER_BUG)
                    });
                    queue.done(key, again);
                }
            });
        }
        while let Some(ended) = workers.join_next().await {
            ended.expect("panics are caught, and nobody aborts it");
        }
    }

    pub(super) async fn next(&self) -> Key {
        loop {
            let due = {
                let (mut state, now) = (self.state.lock(), Instant::now());
                state.take_due(now);
                if let Some((next, waited)) = state.pop(self.workload.at_once, now) {
                    // Several notifications may wake only one worker, which wakes the next one.
                    if !state.waiting.is_empty() {
                        self.news.notify_one();
                    }
                    if let Some(waited) = waited {
                        self.workload.waited.observe(waited.as_secs_f64());
                    }
                    return next;
                }
                state.later.first().map(|(due, _)| *due)
            };
            match due {
                Some(due) => tokio::select! {
                    () = self.news.notified() => {}
                    () = sleep_until(due) => {}
                },
                None => self.news.notified().await,
            }
        }
    }

    fn done(&self, key: Key, again: Option<Duration>) {
        self.state.lock().done(key, again.map(|pause| Instant::now() + pause.min(LONGEST_PAUSE)));
        // Wakes a worker that waits until the namespace may use one more, or until a time that is later than the end of
        // this pause.
        self.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workloads;
    use prometheus_client::registry::Registry;
    use tokio::time::{sleep, timeout};

    const MOMENT: Duration = Duration::from_millis(10);

    fn queue(at_once: u16) -> Arc<Queue> {
        Queue::new(Workloads::new(&mut Registry::default(), at_once).applications)
    }

    async fn names(queue: &Queue) -> Vec<String> {
        let mut names = Vec::new();
        while let Ok((namespace, name)) = timeout(MOMENT, queue.next()).await {
            names.push(format!("{namespace}{name}"));
            queue.done((namespace, name), None);
        }
        names
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_queued_during_its_reconcile_is_reconciled_again() {
        let queue = queue(4);
        for name in ["1", "2", "1", "3"] {
            queue.push("a", name);
        }
        queue.push("b", "1");
        let first = queue.next().await;
        queue.push("a", "1");
        assert_eq!(names(&queue).await, ["b1", "a2", "a3"]);
        queue.done(first, Some(Duration::from_secs(60)));
        assert_eq!(names(&queue).await, ["a1"], "at once, and not after a minute");
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_change_all_the_time_still_take_turns() {
        let (queue, mut reconciles) = (queue(1), [0; 20]);
        for _ in 0..100 {
            for name in 0..20 {
                queue.push("a", &name.to_string());
            }
            let next = queue.next().await;
            queue.push("a", &next.1);
            reconciles[next.1.parse::<usize>().unwrap()] += 1;
            queue.done(next, None);
        }
        assert_eq!(reconciles, [5; 20]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_returns_after_its_pause_or_earlier_if_it_is_queued() {
        let queue = queue(4);
        for name in ["1", "2"] {
            queue.push("a", name);
            let next = queue.next().await;
            queue.done(next, Some(Duration::from_secs(60)));
        }
        queue.push("a", "2");
        assert_eq!(names(&queue).await, ["a2"]);
        let begun = Instant::now();
        queue.next().await;
        assert!(begun.elapsed() > Duration::from_secs(59), "{:?}", begun.elapsed());
        assert!(timeout(Duration::from_secs(600), queue.next()).await.is_err());
    }

    /// An earlier version panicked when an application with a `timeToLiveSeconds` of `i64::MAX` had completed, and
    /// ended the process and that of each next leader.
    #[tokio::test(start_paused = true)]
    async fn a_pause_beyond_the_range_of_instant_is_one_day() {
        let queue = queue(4);
        for pause in [Duration::MAX, Duration::from_secs(i64::MAX.unsigned_abs())] {
            queue.push("a", "1");
            let next = queue.next().await;
            queue.done(next, Some(pause));
            let begun = Instant::now();
            assert_eq!(queue.next().await.1, "1");
            assert!(begun.elapsed() < LONGEST_PAUSE + MOMENT, "{:?}", begun.elapsed());
            queue.done(("a".to_owned(), "1".to_owned()), None);
        }
    }

    /// In an earlier version, a submission that was cancelled because its operator had lost the lease queued its
    /// application. Nobody reconciled it there, and after three minutes the liveness probe of that standby replica
    /// failed.
    #[tokio::test(start_paused = true)]
    async fn objects_of_a_former_queue_do_not_count_as_waiting() {
        let workloads = Workloads::new(&mut Registry::default(), 1);
        let former = Queue::new(workloads.applications.clone());
        former.push("a", "1");
        sleep(Duration::from_secs(200)).await;
        assert_eq!(workloads.stuck().count(), 1);
        let next = Queue::new(workloads.applications.clone());
        former.push("a", "2");
        assert_eq!(workloads.stuck().count(), 0, "only the latest queue counts");
        next.push("a", "1");
        sleep(Duration::from_secs(200)).await;
        drop(next);
        assert_eq!(workloads.stuck().count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_of_reconciles_and_queues_have_the_names_of_controller_runtime() {
        let mut registry = Registry::default();
        let queue = Queue::new(Workloads::new(&mut registry, 7).applications);
        queue.push("default", "pi");
        let next = queue.next().await;
        queue.workload.ended(Instant::now(), &Err(()));
        queue.workload.panics.inc();
        queue.done(next, None);
        queue.push("default", "pi");
        queue.push("default", "pi");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in include_str!("../../../tests/data/workload-metrics.txt").lines() {
            assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_whose_work_takes_long_does_not_use_all_workers() {
        let (queue, stop) = (queue(4), CancellationToken::new());
        for i in 0..100 {
            queue.push("slow", &i.to_string());
        }
        let begun = Instant::now();
        let (working, stopping) = (Arc::clone(&queue), stop.clone());
        let worked = tokio::spawn(async move {
            let work = move |(namespace, name): Key| {
                let stop = stopping.clone();
                async move {
                    match &*namespace {
                        "slow" => sleep(Duration::from_secs(30)).await,
                        _ if name == "bug" => panic!("as the test wants it"),
                        _ => stop.cancel(),
                    }
                    None
                }
            };
            working.work(&stop, work).await;
        });
        sleep(MOMENT).await;
        queue.push("b", "bug");
        queue.push("b", "1");
        worked.await.unwrap();
        // The queue waits for the work that had begun.
        assert!(begun.elapsed() < Duration::from_secs(31), "{:?}", begun.elapsed());
    }
}
