//! Chooses which connections are closed if there are too many: of the client with the most connections, those that have
//! been idle for longest.

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How long a connection may be idle before it is closed. API servers close a connection that has been idle for 90 s
/// (apimachinery/pkg/util/net/http.go, Go's default); the limit is longer, so that the webhook never closes a
/// connection while an API server sends a request. The limit also removes connections of clients that have vanished
/// without closing them (a node that lost its power).
const IDLE: Duration = Duration::from_secs(120);

/// All open connections, including connections whose TLS handshake is not finished.
pub(super) struct ConnectionLimit {
    at_most: usize,
    began: Instant,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    by_number: HashMap<u64, Arc<Use>>,
    /// The number of connections of each client.
    by_peer: HashMap<IpAddr, usize>,
    last: u64,
    /// Whether the log already has the warning that there are too many connections.
    is_told: bool,
}

/// The use of one connection.
struct Use {
    peer: IpAddr,
    /// The time at which the connection was opened or a request last began or ended, in milliseconds since the listener
    /// began.
    last: AtomicU64,
    evicted: CancellationToken,
}

/// The place of one connection in the [`ConnectionLimit`]. The connection counts as open until this value is dropped.
pub(super) struct Place {
    all: Arc<ConnectionLimit>,
    number: u64,
    used: Arc<Use>,
}

impl ConnectionLimit {
    /// Returns a limit of so many connections, or of half the open files that the process may have, if that is lower:
    /// the other half is left for everything else.
    pub(super) fn of(connections: usize) -> Arc<Self> {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let at_most = connections.min(usize::try_from(files / 2).unwrap_or(connections)).max(1);
        Arc::new(Self { at_most, began: Instant::now(), open: Mutex::default() })
    }

    /// Adds a connection of the client `peer`. If there are then too many, one has to close: of the client with the most
    /// connections, the one that has been idle for longest.
    pub(super) fn opened(self: &Arc<Self>, peer: IpAddr) -> Place {
        let used = Arc::new(Use { peer, last: self.now().into(), evicted: CancellationToken::new() });
        let mut open = self.open.lock();
        *open.by_peer.entry(peer).or_default() += 1;
        if open.by_number.len() >= self.at_most {
            if let Some(number) = open.to_evict()
                && let Some(oldest) = open.remove(number)
            {
                oldest.evicted.cancel();
            }
            if !open.is_told {
                open.is_told = true;
                warn!(
                    connections = self.at_most,
                    "too many connections: of the client with the most, those that have been idle for longest are closed"
                );
            }
        }
        open.last += 1;
        let number = open.last;
        open.by_number.insert(number, Arc::clone(&used));
        Place { all: Arc::clone(self), number, used }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Open {
    /// Returns the number of the connection that has to make room for the newest one, which is counted already.
    fn to_evict(&self) -> Option<u64> {
        let most = self.by_peer.values().max()?;
        let of_crowd = self.by_number.iter().filter(|(_, used)| self.by_peer.get(&used.peer) == Some(most));
        let oldest = of_crowd.min_by_key(|(_, used)| used.last.load(Ordering::Relaxed));
        oldest.map(|(number, _)| *number)
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Use>> {
        let removed = self.by_number.remove(&number)?;
        if let Entry::Occupied(mut connections) = self.by_peer.entry(removed.peer) {
            *connections.get_mut() -= 1;
            if *connections.get() == 0 {
                connections.remove();
            }
        }
        Some(removed)
    }
}

impl Place {
    /// Records that a request has begun or ended.
    pub(super) fn used(&self) {
        self.used.last.store(self.all.now(), Ordering::Relaxed);
    }

    /// Waits until the connection has to be closed to make room for others.
    pub(super) async fn evicted(&self) {
        self.used.evicted.cancelled().await;
    }

    /// Waits until the connection has been idle for [`IDLE`].
    pub(super) async fn idle(&self) {
        loop {
            let since = self.all.now().saturating_sub(self.used.last.load(Ordering::Relaxed));
            match IDLE.checked_sub(Duration::from_millis(since)) {
                Some(rest) if !rest.is_zero() => sleep(rest).await,
                _ => return,
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.all.open.lock();
        open.remove(self.number);
        if open.by_number.len() < self.all.at_most / 2 {
            open.is_told = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit() -> Arc<ConnectionLimit> {
        Arc::new(ConnectionLimit { at_most: 3, began: Instant::now(), open: Mutex::default() })
    }

    /// Opens a connection of the client whose address ends with `peer`, which was last used at `last`.
    fn opened(limit: &Arc<ConnectionLimit>, peer: u8, last: u64) -> Place {
        let place = limit.opened([10, 0, 0, peer].into());
        place.used.last.store(last, Ordering::Relaxed);
        place
    }

    fn evicted(open: &[Place]) -> Vec<bool> {
        open.iter().map(|place| place.used.evicted.is_cancelled()).collect()
    }

    #[test]
    fn of_too_many_the_one_that_has_been_idle_for_longest_has_to_go() {
        let limit = limit();
        let opened = |last: u64| opened(&limit, 1, last);
        let mut open = [3, 1, 2, 4].map(opened).into_iter().collect::<Vec<_>>();
        assert_eq!(evicted(&open), [false, true, false, false]);
        open.push(opened(5));
        assert_eq!(evicted(&open), [false, true, true, false, false]);
        // A connection that has closed by itself frees its place.
        drop(open.remove(0));
        open.push(opened(6));
        assert_eq!(evicted(&open), [true, true, false, false, false]);
    }

    #[test]
    fn who_has_the_most_connections_makes_room_for_the_others() {
        let limit = limit();
        let open = [opened(&limit, 1, 1), opened(&limit, 2, 2), opened(&limit, 2, 3), opened(&limit, 1, 4)];
        assert_eq!(evicted(&open), [true, false, false, false]);
        let crowd: Vec<_> = (5..20).map(|last| opened(&limit, 3, last)).collect();
        assert_eq!(evicted(&open).iter().filter(|evicted| !**evicted).count(), 2, "one for each client");
        drop((open, crowd));
        assert!(limit.open.lock().by_peer.is_empty());
    }
}
