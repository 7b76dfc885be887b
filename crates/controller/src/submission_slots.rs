//! Limits how many submissions run at once: a number of slots for all namespaces together, which take turns. A
//! namespace whose submissions take too long, because an admission webhook hangs or is down, gets a small number of
//! slots of its own until one of its submissions succeeds or ends quickly. So a namespace with broken admission delays
//! only itself.

use parking_lot::Mutex;
use std::{collections::HashMap, pin::pin, time::Duration};
use tokio::time::timeout;
use tracing::{info, warn};
use work::{Turn, Turns};

/// How long a submission may take before its namespace counts as held up: a hundred times as long as a submission takes
/// if nothing is wrong.
const HELD_UP: Duration = Duration::from_secs(2);
/// The number of slots of a namespace that is held up.
const OF_HELD_UP: usize = 2;

/// The slots; each submission takes one of them.
pub(super) struct Slots {
    all: Turns,
    /// The slots of each namespace that is held up.
    held_up: Mutex<HashMap<String, Turns>>,
}

impl Slots {
    pub(super) fn new(at_once: usize) -> Self {
        Self { all: Turns::new(at_once), held_up: Mutex::default() }
    }

    /// Runs `submit` as soon as there is a slot for `namespace`, and calls `has_begun` then. A submission that takes
    /// longer than [`HELD_UP`] continues without its slot, which another submission takes.
    pub(super) async fn within<T, E>(
        &self,
        namespace: &str,
        has_begun: impl FnOnce(),
        submit: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let (slot, is_of_held_up) = self.slot(namespace).await;
        has_begun();
        let mut submit = pin!(submit);
        if let Ok(submitted) = timeout(HELD_UP, &mut submit).await {
            // Also after a refusal: a quick refusal shows that the namespace is not held up.
            self.recover(namespace);
            return submitted;
        }
        // A submission that has a slot of a held-up namespace keeps the slot.
        if !is_of_held_up {
            self.held_up.lock().entry(namespace.to_owned()).or_insert_with(|| {
                warn!(
                    namespace,
                    "submissions are held up: {OF_HELD_UP} at once until one of them succeeds or ends quickly"
                );
                Turns::new(OF_HELD_UP)
            });
            drop(slot);
        }
        let submitted = submit.await;
        if submitted.is_ok() {
            self.recover(namespace);
        }
        submitted
    }

    /// Waits for a slot of all namespaces, or for one of the namespace's own if it is held up. Returns the slot, and
    /// whether the namespace is held up.
    async fn slot(&self, namespace: &str) -> (Turn, bool) {
        loop {
            let own = self.held_up.lock().get(namespace).cloned();
            let slots = own.as_ref().unwrap_or(&self.all);
            let slot = slots.turn(None, namespace).await;
            // Meanwhile the namespace may have become held up, or have recovered, or both: then this slot is not of the
            // right kind any more.
            let is_as_before = self.held_up.lock().get(namespace) == own.as_ref();
            if let Some(slot) = slot.filter(|_| is_as_before) {
                return (slot, own.is_some());
            }
        }
    }

    fn recover(&self, namespace: &str) {
        let own = self.held_up.lock().remove(namespace);
        if let Some(own) = own {
            info!(namespace, "submissions are not held up any more");
            // Submissions that wait for one of these slots need not wait until a hanging submission ends.
            own.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::{Instant, sleep};

    const MOMENT: Duration = Duration::from_millis(20);

    async fn takes(time: Duration) -> Result<(), ()> {
        sleep(time).await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_up_namespace_delays_others_by_at_most_two_seconds() {
        let slots = Slots::new(4);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let held_up = join_all((0..100).map(|_| {
            slots.within("broken", || (), async {
                running.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_secs(30)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                Err::<(), _>(())
            })
        }));
        let begun = Instant::now();
        let others = async {
            sleep(MOMENT).await;
            join_all((0..40).map(|_| slots.within("fine", || (), takes(MOMENT)))).await;
            let waited = begun.elapsed();
            most.store(running.load(Ordering::Relaxed), Ordering::Relaxed);
            waited
        };
        let ((), waited) = tokio::join!(async { drop(held_up.await) }, others);
        assert!(waited < HELD_UP + 15 * MOMENT, "{waited:?}");
        assert!(most.load(Ordering::Relaxed) <= 4 + OF_HELD_UP, "{most:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_recovers_has_all_slots_again() {
        let slots = Slots::new(4);
        let begun = Instant::now();
        let first = slots.within("a", || (), takes(3 * HELD_UP));
        let rest = async {
            sleep(2 * HELD_UP).await;
            join_all((0..8).map(|i| {
                let pause = if i < OF_HELD_UP { HELD_UP } else { HELD_UP / 2 };
                slots.within("a", || (), takes(pause))
            }))
            .await;
        };
        let (ended, ()) = tokio::join!(first, rest);
        ended.unwrap();
        // Two run at once until the first has ended, then four.
        assert!(begun.elapsed() < 2 * HELD_UP + HELD_UP + 2 * HELD_UP, "{:?}", begun.elapsed());
        assert!(slots.held_up.lock().is_empty() && slots.all.free() == 4);
    }

    /// In an earlier version, they waited until one of the hanging submissions ended.
    #[tokio::test(start_paused = true)]
    async fn submissions_of_a_recovered_namespace_do_not_wait_for_hanging_ones() {
        let slots = Slots::new(4);
        let begun = Instant::now();
        let first = slots.within("a", || (), takes(3 * HELD_UP));
        let hanging = async {
            sleep(2 * HELD_UP).await;
            join_all((0..OF_HELD_UP).map(|_| slots.within("a", || (), takes(100 * HELD_UP)))).await;
        };
        let next = async {
            sleep(2 * HELD_UP + MOMENT).await;
            slots.within("a", || (), takes(MOMENT)).await.unwrap();
            begun.elapsed()
        };
        let (ended, (), waited) = tokio::join!(first, hanging, next);
        ended.unwrap();
        assert!(waited > 3 * HELD_UP && waited < 3 * HELD_UP + 3 * MOMENT, "{waited:?}");
        assert!(slots.held_up.lock().is_empty() && slots.all.free() == 4);
    }

    #[tokio::test(start_paused = true)]
    async fn many_submissions_of_one_namespace_delay_another_by_one_turn() {
        let slots = Slots::new(1);
        let many = join_all((0..100).map(|_| slots.within("many", || (), takes(MOMENT))));
        let begun = Instant::now();
        let one = async {
            sleep(MOMENT / 2).await;
            slots.within("one", || (), takes(MOMENT)).await.unwrap();
            begun.elapsed()
        };
        let (_, waited) = tokio::join!(many, one);
        assert!(waited <= 3 * MOMENT, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_submission_returns_its_slot() {
        let slots = Slots::new(1);
        assert!(timeout(MOMENT, slots.within("a", || (), takes(2 * HELD_UP))).await.is_err());
        slots.within("a", || (), takes(MOMENT)).await.unwrap();
        assert_eq!(slots.all.free(), 1);
    }
}
