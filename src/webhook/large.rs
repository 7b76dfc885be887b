//! Reviews large objects on threads of a low priority, two at a time, so that ordinary reviews do not wait for them. A review that
//! takes too long is refused.

use axum::response::Response;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use tracing::debug;

/// The largest body, in bytes, that is ordinary: a driver as Spark makes it has 10 KiB, and an application of fifty settings 5. All
/// others are large. What takes a millisecond here takes 60 for the largest.
pub(super) const ORDINARY: usize = 128 << 10;
/// How many are reviewed at once.
const AT_ONCE: usize = 2;
/// How many may wait for their turn. Each is up to 8 MiB of memory.
const WAITING: usize = 8;
/// How long a review may take, waiting included. By our manifests the API server waits for 5 s, and the answer has to get there.
const DEADLINE: Duration = Duration::from_secs(3);
/// By how much these threads are less urgent than the others, of 19: they get a tenth of what one of those gets where both want it.
const NICENESS: i32 = 10;

/// The reviews of large objects. Clones are handles on the same.
#[derive(Clone)]
pub struct LargeReviews {
    slots: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    deadline: Duration,
}

/// Why a large object was not reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotReviewed {
    #[error("too many large objects are under review at once: try again later, or make it smaller than {} KiB", ORDINARY >> 10)]
    Busy,
    #[error("its review takes longer than {} s: make it smaller", DEADLINE.as_secs())]
    TakesTooLong,
    #[error("its review has hit a bug of the operator: please report it with this object")]
    Bug,
}

impl Default for LargeReviews {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(AT_ONCE)), waiting: Arc::default(), deadline: DEADLINE }
    }
}

impl LargeReviews {
    /// What `review` gives, on another thread. One that is given up goes on there to its end, and keeps its slot.
    pub(super) async fn reviewed(
        &self,
        review: impl Future<Output = Response> + Send + 'static,
    ) -> Result<Response, NotReviewed> {
        let deadline = Instant::now() + self.deadline;
        let slot = {
            let _waits = Waiting::begin(&self.waiting).ok_or(NotReviewed::Busy)?;
            let slot = timeout_at(deadline, Arc::clone(&self.slots).acquire_owned()).await;
            slot.map_err(|_| NotReviewed::Busy)?.expect("this semaphore is never closed")
        };
        let reviewed = spawn_blocking(move || {
            give_way();
            let response = Handle::current().block_on(review);
            drop(slot);
            response
        });
        match timeout_at(deadline, reviewed).await {
            Ok(response) => response.map_err(|_| NotReviewed::Bug),
            Err(_) => Err(NotReviewed::TakesTooLong),
        }
    }
}

/// One that waits for a slot, as long as this lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(all: &'a AtomicUsize) -> Option<Self> {
        let waits = Self(all);
        (all.fetch_add(1, Ordering::Relaxed) < WAITING).then_some(waits)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes this thread less urgent, for good. Only these reviews run on it.
fn give_way() {
    use rustix::{process::setpriority_process, thread::gettid};
    if let Err(error) = setpriority_process(Some(gettid()), NICENESS) {
        debug!(%error, "large reviews are as urgent as all else");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;
    use futures::future::join_all;
    use std::thread;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn what_takes_too_long_is_given_up_and_what_comes_then_waits_or_is_refused() {
        let large = LargeReviews { deadline: Duration::from_millis(50), ..LargeReviews::default() };
        let end = CancellationToken::new();
        let stuck = || {
            let end = end.clone();
            large.reviewed(async move {
                end.cancelled().await;
                ().into_response()
            })
        };
        let taken = join_all((0..=AT_ONCE + WAITING).map(|_| stuck())).await;
        let count = |why| taken.iter().filter(|taken| taken.as_ref().err() == Some(&why)).count();
        assert_eq!((count(NotReviewed::TakesTooLong), count(NotReviewed::Busy)), (AT_ONCE, WAITING + 1));
        end.cancel();
        large.reviewed(async { ().into_response() }).await.unwrap();
    }

    #[tokio::test]
    async fn a_review_gives_its_answer_on_a_thread_that_gives_way_and_a_bug_is_its_own_trouble() {
        let large = LargeReviews::default();
        let here = thread::current().id();
        let review = async move {
            assert_ne!(thread::current().id(), here);
            rustix::process::getpriority_process(Some(rustix::thread::gettid()))
                .unwrap()
                .to_string()
                .into_response()
        };
        let answer = large.reviewed(review).await.unwrap().into_body();
        assert_eq!(axum::body::to_bytes(answer, 10).await.unwrap(), NICENESS.to_string());
        for _ in 0..=AT_ONCE {
            assert_eq!(large.reviewed(async { panic!("it is a test") }).await.unwrap_err(), NotReviewed::Bug);
        }
    }
}
