//! Chooses which connections are closed if there are too many: the connections that have been idle for longest.

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// The most connections that may be open. An API server keeps 25 idle connections and uses one connection for each
/// concurrent review, of which there are a few hundred; a large cluster has seven API servers.
const AT_MOST: usize = 4096;
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
    last: u64,
    /// Whether the log already has the warning that there are too many connections.
    is_told: bool,
}

/// The use of one connection.
struct Use {
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
    /// Returns a limit of [`AT_MOST`] connections, or of half the open files that the process may have, if that is
    /// lower: the other half is left for everything else.
    pub(super) fn limited() -> Arc<Self> {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let at_most = AT_MOST.min(usize::try_from(files / 2).unwrap_or(AT_MOST)).max(1);
        Arc::new(Self { at_most, began: Instant::now(), open: Mutex::default() })
    }

    /// Adds a connection. If there are then too many, the connection that has been idle for longest has to close.
    pub(super) fn opened(self: &Arc<Self>) -> Place {
        let used = Arc::new(Use { last: self.now().into(), evicted: CancellationToken::new() });
        let mut open = self.open.lock();
        if open.by_number.len() >= self.at_most {
            let oldest = open.by_number.iter().min_by_key(|(_, used)| used.last.load(Ordering::Relaxed));
            if let Some(number) = oldest.map(|(number, _)| *number)
                && let Some(oldest) = open.by_number.remove(&number)
            {
                oldest.evicted.cancel();
            }
            if !open.is_told {
                open.is_told = true;
                warn!(
                    connections = self.at_most,
                    "too many connections: those that have been idle for longest are closed"
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
        open.by_number.remove(&self.number);
        if open.by_number.len() < self.all.at_most / 2 {
            open.is_told = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_the_one_that_has_been_idle_for_longest_has_to_go() {
        let limit = Arc::new(ConnectionLimit { at_most: 3, began: Instant::now(), open: Mutex::default() });
        let opened = |last: u64| {
            let place = limit.opened();
            place.used.last.store(last, Ordering::Relaxed);
            place
        };
        let evicted =
            |open: &[Place]| open.iter().map(|place| place.used.evicted.is_cancelled()).collect::<Vec<_>>();
        let mut open = [3, 1, 2, 4].map(opened).into_iter().collect::<Vec<_>>();
        assert_eq!(evicted(&open), [false, true, false, false]);
        open.push(opened(5));
        assert_eq!(evicted(&open), [false, true, true, false, false]);
        // A connection that has closed by itself frees its place.
        drop(open.remove(0));
        open.push(opened(6));
        assert_eq!(evicted(&open), [true, true, false, false, false]);
    }
}
