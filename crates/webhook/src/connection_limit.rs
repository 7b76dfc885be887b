//! Decides which connections are closed: those whose client is idle, or does not read an answer, for too long; and if there
//! are too many connections, the longest idle ones of the client that has the most.

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How long a connection may be idle before it is closed. API servers close a connection that has been idle for 90 s
/// (apimachinery/pkg/util/net/http.go, Go's default); the limit is longer, so that the webhook never closes a
/// connection while an API server sends a request. The limit also removes connections of clients that have vanished
/// without closing them (a node that lost its power).
const IDLE: Duration = Duration::from_secs(120);
/// How long a client may read nothing of an answer before its connection is closed.
const UNREAD: Duration = Duration::from_secs(10);
/// The number of open connections for which one more may be closing to make room for a new one. Beyond that, no connection
/// is accepted until one has closed.
const CLOSING: usize = 8;

/// All open connections, including connections whose TLS handshake is not finished.
pub(super) struct ConnectionLimit {
    at_most: usize,
    /// Permits for open connections and for the few more that may be closing at the same time to make room for others.
    room: Arc<Semaphore>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// The connections by the addresses of their clients and their numbers.
    connections: BTreeMap<(IpAddr, u64), Arc<Use>>,
    last: u64,
    /// Whether the log already has the warning that there are too many connections.
    is_warned: bool,
}

/// The use of one connection.
pub(super) struct Use {
    activity: Mutex<Activity>,
    /// Cancelled when the connection has to be closed to make room for others.
    pub evicted: CancellationToken,
}

struct Activity {
    /// When the connection was opened, a request last began, or a part of an answer was last read.
    last: Instant,
    /// How many answers the client has not read completely.
    unread: usize,
}

/// The place of one connection in the [`ConnectionLimit`]. The connection counts as open until this value is dropped.
pub(super) struct Place {
    all: Arc<ConnectionLimit>,
    key: (IpAddr, u64),
    pub used: Arc<Use>,
    _room: OwnedSemaphorePermit,
}

impl ConnectionLimit {
    /// Returns a limit of `connections`, or of half the open files that the process may have, if that is lower: the other
    /// half is left for everything else.
    pub(super) fn of(connections: usize) -> Arc<Self> {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self::new(connections.min(usize::try_from(files / 2).unwrap_or(connections)).max(1))
    }

    fn new(at_most: usize) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(at_most + at_most.div_ceil(CLOSING)));
        Arc::new(Self { at_most, room, open: Mutex::default() })
    }

    /// Waits until another connection may be opened.
    ///
    /// # Panics
    ///
    /// Never: the semaphore is not closed.
    pub(super) async fn room(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.room).acquire_owned().await.expect("never closed")
    }

    /// Adds a connection of the client `peer`. If there are then too many, one has to close: of the client with the most
    /// connections, the one that has been idle for longest.
    pub(super) fn opened(self: &Arc<Self>, peer: IpAddr, room: OwnedSemaphorePermit) -> Place {
        let activity = Mutex::new(Activity { last: Instant::now(), unread: 0 });
        let used = Arc::new(Use { activity, evicted: CancellationToken::new() });
        let mut open = self.open.lock();
        open.last += 1;
        let key = (peer, open.last);
        // The newest connection counts when a client is chosen, and is not chosen itself.
        open.connections.insert(key, Arc::clone(&used));
        if open.connections.len() > self.at_most {
            if let Some(key) = open.to_evict()
                && let Some(oldest) = open.connections.remove(&key)
            {
                oldest.evicted.cancel();
            }
            if !open.is_warned {
                open.is_warned = true;
                warn!(
                    connections = self.at_most,
                    "too many connections: of the client with the most, those that have been idle for longest are closed"
                );
            }
        }
        Place { all: Arc::clone(self), key, used, _room: room }
    }
}

impl Open {
    /// Returns the client and the number of the connection that has to make room for the newest one.
    fn to_evict(&self) -> Option<(IpAddr, u64)> {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        self.connections.keys().for_each(|(peer, _)| *counts.entry(*peer).or_default() += 1);
        let most = counts.values().copied().max()?;
        let crowds = counts.into_iter().filter(|(_, count)| *count == most);
        let of = |(peer, _): (IpAddr, usize)| self.connections.range((peer, 0)..=(peer, u64::MAX));
        let others = crowds.flat_map(of).filter(|((_, number), _)| *number != self.last);
        others.min_by_key(|(_, used)| used.activity.lock().last).map(|(key, _)| *key)
    }
}

impl Place {
    pub(super) const fn peer(&self) -> IpAddr {
        self.key.0
    }
}

impl Use {
    /// Records that a request has begun, or that this number of answers is sent to the client. Neither counts as activity
    /// while an answer is unread: it does not show that the client reads its answers.
    pub(super) fn given(&self, answers: usize) {
        let mut activity = self.activity.lock();
        if activity.unread == 0 {
            activity.last = Instant::now();
        }
        activity.unread += answers;
    }

    /// Records that the client has read a part of an answer, and how many answers it has now read to their end.
    pub(super) fn taken(&self, answers: usize) {
        let mut activity = self.activity.lock();
        activity.unread -= answers;
        activity.last = Instant::now();
    }

    /// Whether there are answers that the client has not read completely.
    pub(super) fn has_unread(&self) -> bool {
        self.activity.lock().unread > 0
    }

    /// Waits until the client has done nothing for [`IDLE`], or for [`UNREAD`] while it should read an answer.
    pub(super) async fn silent(&self) {
        loop {
            let rest = {
                let Activity { last, unread } = *self.activity.lock();
                let patience = if unread > 0 { UNREAD } else { IDLE };
                patience.saturating_sub(last.elapsed())
            };
            if rest.is_zero() {
                return;
            }
            // An answer may begin in the meantime, for which the limit is shorter.
            sleep(rest.min(UNREAD)).await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.all.open.lock();
        open.connections.remove(&self.key);
        if open.connections.len() < self.all.at_most / 2 {
            open.is_warned = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    /// Opens a connection of the client whose address ends with `peer`, which was last used at `last`.
    fn opened(limit: &Arc<ConnectionLimit>, peer: u8, last: u64) -> Place {
        let room = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let place = limit.opened([10, 0, 0, peer].into(), room);
        place.used.activity.lock().last = Instant::now() + Duration::from_secs(last);
        place
    }

    fn evicted(open: &[Place]) -> Vec<bool> {
        open.iter().map(|place| place.used.evicted.is_cancelled()).collect()
    }

    #[test]
    fn of_too_many_connections_the_one_that_is_idle_for_longest_is_closed() {
        let limit = ConnectionLimit::new(3);
        let opened = |last: u64| opened(&limit, 1, last);
        let mut open = [3, 1, 2, 4].map(opened).into_iter().collect::<Vec<_>>();
        assert_eq!(evicted(&open), [false, true, false, false]);
        open.push(opened(5));
        assert_eq!(evicted(&open), [false, true, true, false, false]);
        // A connection that its client has closed frees its place.
        drop(open.remove(0));
        open.push(opened(6));
        assert_eq!(evicted(&open), [true, true, false, false, false]);
    }

    #[test]
    fn connections_are_accepted_up_to_the_limit_plus_a_few_that_are_closing() {
        let limit = ConnectionLimit::new(3);
        let room = || limit.room().now_or_never();
        let mut open: Vec<_> =
            (0..4).map(|_| room().expect("three open ones, and one that closes")).collect();
        assert!(room().is_none());
        open.pop();
        assert!(room().is_some());
    }

    #[test]
    fn connections_of_the_client_with_the_most_are_closed_for_other_clients() {
        let limit = ConnectionLimit::new(3);
        let open = [opened(&limit, 1, 1), opened(&limit, 2, 2), opened(&limit, 2, 3), opened(&limit, 1, 4)];
        assert_eq!(evicted(&open), [true, false, false, false]);
        let crowd: Vec<_> = (5..20).map(|last| opened(&limit, 3, last)).collect();
        assert_eq!(evicted(&open).iter().filter(|evicted| !**evicted).count(), 2, "one for each client");
        drop((open, crowd));
        assert!(limit.open.lock().connections.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_answer_has_a_shorter_limit_which_new_requests_do_not_extend() {
        let Place { used, .. } = &opened(&ConnectionLimit::new(1), 1, 0);
        let begun = Instant::now();
        used.silent().await;
        assert!((IDLE..IDLE + UNREAD / 2).contains(&begun.elapsed()));
        used.given(1);
        sleep(UNREAD / 2).await;
        used.given(0);
        used.silent().await;
        assert!((IDLE + UNREAD..IDLE + UNREAD * 3 / 2).contains(&begun.elapsed()));
    }
}
