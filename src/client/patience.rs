//! Decides whether a failed call can be made again, and how much later.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// How long after its time an answer, or the end of a watch, is waited for.
pub(crate) const GRACE: Duration = Duration::from_secs(15);
/// The pause after a first failure, doubled after each in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// That of somebody whose calls fail.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// How many calls in a row have failed.
    pub failures: u32,
}

impl Patience {
    /// Many clients that have lost the API server at the same moment do not come back to it at the same moment.
    pub(crate) async fn pause(&mut self) {
        let longest = LONGEST_PAUSE.min(FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)));
        self.failures += 1;
        let chance = RandomState::new().build_hasher().finish() >> 32;
        sleep(longest.mul_f64(0.5 + 0.5 * chance as f64 / f64::from(u32::MAX))).await;
    }

    /// A call has succeeded.
    pub(crate) const fn restore(&mut self) {
        self.failures = 0;
    }
}

/// Whether it can be otherwise when the same is asked again: the API server has not refused, or refuses because it does not remember
/// from where the watch is to go on (410), or because it has too much to do (429).
pub(crate) fn can_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            !(400..500).contains(&status.code) || matches!(status.code, 408 | 410 | 429)
        }
        _ => true,
    }
}

/// What comes of `call`, unless it takes too long.
pub(crate) async fn in_time<T>(limit: Duration, call: impl Future<Output = T>) -> Result<T, kube::Error> {
    timeout(limit, call).await.map_err(|_| kube::Error::ReadEvents(io::ErrorKind::TimedOut.into()))
}
