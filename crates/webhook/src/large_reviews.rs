//! Reviews large objects on threads of a low priority, two at a time for known API servers and two for all other clients,
//! so that ordinary reviews do not wait for them. Clients take turns, and so do the namespaces in the reviews of a client.
//! A review that takes too long is refused.

use super::lookups::Caller;
use axum::response::Response;
use std::time::Duration;
use tokio::{
    runtime::Handle,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use tracing::debug;
use work::Turns;

/// The largest body, in bytes, that is reviewed on the ordinary threads; larger bodies count as large. A driver pod as
/// Spark creates it has 10 KiB, and an application with fifty settings has 5 KiB. Work that takes 1 ms for a body of
/// this size takes 60 ms for the largest body.
pub(super) const ORDINARY: usize = 128 << 10;
/// How many large objects are reviewed at the same time.
const AT_ONCE: usize = 2;
/// How many large objects may wait for their review. Each may take 4 MiB of memory. If there are more, an object of the
/// client with the most waiting objects is refused.
const WAITING: usize = 8;
/// How long a review may take, including the time that it waits for its turn. With the operator's manifests the API
/// server waits for 5 s, and within that time the answer has to arrive.
const DEADLINE: Duration = Duration::from_secs(3);
/// The niceness (at most 19) of the threads that review large objects. If such a thread and an ordinary thread want the
/// same processor, the large review's thread gets a tenth of the time that the ordinary thread gets.
const NICENESS: i32 = 10;

/// The reviews of large objects. Cheap to clone: all clones share the same turns.
#[derive(Clone)]
pub struct LargeReviews {
    turns: Turns,
    /// For clients that have proved that they are API servers, so that other clients cannot take all turns.
    of_api_servers: Turns,
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
        let turns = || Turns::with_room(AT_ONCE, WAITING);
        Self { turns: turns(), of_api_servers: turns(), deadline: DEADLINE }
    }
}

impl LargeReviews {
    /// Runs `review`, of an object in `namespace` that `caller` has sent, on another thread and returns its response. A
    /// review that takes too long continues on that thread to its end, and its turn lasts until then.
    pub(super) async fn reviewed(
        &self,
        caller: Caller,
        namespace: &str,
        review: impl Future<Output = Response> + Send + 'static,
    ) -> Result<Response, NotReviewed> {
        let deadline = Instant::now() + self.deadline;
        let turns = if caller.is_api_server { &self.of_api_servers } else { &self.turns };
        let turn = timeout_at(deadline, turns.turn(caller.peer, namespace)).await;
        let turn = turn.ok().flatten().ok_or(NotReviewed::Busy)?;
        let reviewed = spawn_blocking(move || {
            give_way();
            let response = Handle::current().block_on(review);
            drop(turn);
            response
        });
        match timeout_at(deadline, reviewed).await {
            Ok(response) => response.map_err(|_| NotReviewed::Bug),
            Err(_) => Err(NotReviewed::TakesTooLong),
        }
    }
}

/// Lowers the priority of this thread permanently. Only reviews of large objects run on such a thread.
fn give_way() {
    use rustix::{process::setpriority_process, thread::gettid};
    if let Err(error) = setpriority_process(Some(gettid()), NICENESS) {
        debug!(%error, "the priority of a large review cannot be lowered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;
    use futures::future::{join, join_all};
    use std::thread;
    use tokio::task::yield_now;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn a_review_that_takes_too_long_is_refused_and_keeps_its_turn_to_its_end() {
        let large = LargeReviews { deadline: Duration::from_millis(50), ..LargeReviews::default() };
        let end = CancellationToken::new();
        let stuck = || {
            let end = end.clone();
            large.reviewed(Caller::default(), "a", async move {
                end.cancelled().await;
                ().into_response()
            })
        };
        let taken = join_all((0..=AT_ONCE + WAITING).map(|_| stuck())).await;
        let count = |why| taken.iter().filter(|taken| taken.as_ref().err() == Some(&why)).count();
        assert_eq!((count(NotReviewed::TakesTooLong), count(NotReviewed::Busy)), (AT_ONCE, WAITING + 1));
        end.cancel();
        let patient = LargeReviews { deadline: Duration::from_secs(60), ..large.clone() };
        patient.reviewed(Caller::default(), "a", async { ().into_response() }).await.unwrap();
    }

    #[tokio::test]
    async fn no_crowd_takes_the_turns_of_api_servers() {
        let large = LargeReviews { deadline: Duration::from_secs(1), ..LargeReviews::default() };
        let end = CancellationToken::new();
        let crowd = (0..=AT_ONCE + WAITING).map(|client| {
            let (end, client) = (end.clone(), u8::try_from(client).unwrap());
            let caller = Caller { peer: Some([10, 0, 0, client].into()), is_api_server: false };
            large.reviewed(caller, "a", async move {
                end.cancelled().await;
                ().into_response()
            })
        });
        let api_server = async {
            yield_now().await;
            let caller = Caller { peer: Some([10, 0, 1, 0].into()), is_api_server: true };
            large.reviewed(caller, "a", async { ().into_response() }).await
        };
        let (crowd, answered) = join(join_all(crowd), api_server).await;
        end.cancel();
        answered.unwrap();
        assert!(crowd.iter().all(Result::is_err));
    }

    #[tokio::test]
    async fn large_reviews_run_at_low_priority_and_a_panic_affects_no_other_review() {
        let large = LargeReviews::default();
        let here = thread::current().id();
        let review = async move {
            assert_ne!(thread::current().id(), here);
            rustix::process::getpriority_process(Some(rustix::thread::gettid()))
                .unwrap()
                .to_string()
                .into_response()
        };
        let answer = large.reviewed(Caller::default(), "a", review).await.unwrap().into_body();
        assert_eq!(axum::body::to_bytes(answer, 10).await.unwrap(), NICENESS.to_string());
        for _ in 0..=AT_ONCE {
            let reviewed = large.reviewed(Caller::default(), "a", async { panic!("it is a test") });
            assert_eq!(reviewed.await.unwrap_err(), NotReviewed::Bug);
        }
    }
}
