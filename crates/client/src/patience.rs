//! Decides whether a failed call can be repeated, and after which pause.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// How long an answer is waited for, and how long the end of a watch is waited for after the watch's own time is over.
pub const GRACE: Duration = Duration::from_secs(15);
/// The longest pause after a first failure; it is doubled after each further failure in a row, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Counts failed calls in a row, to make the pauses after them longer.
#[derive(Debug, Default)]
pub struct Patience {
    /// How many calls in a row have failed.
    pub failures: u32,
}

impl Patience {
    /// Waits before the next call. Up to half of the length is random, so that many clients that have lost the API
    /// server at the same moment do not come back to it at the same moment.
    pub async fn pause(&mut self) {
        let longest = LONGEST_PAUSE.min(FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)));
        self.failures += 1;
        let chance = RandomState::new().build_hasher().finish() >> 32;
        sleep(longest.mul_f64(0.5 + 0.5 * chance as f64 / f64::from(u32::MAX))).await;
    }

    /// Resets the count after a call that has succeeded.
    pub const fn restore(&mut self) {
        self.failures = 0;
    }
}

/// Whether the same call can succeed later: the API server has not refused it with a 4xx code, or has refused it
/// because of a timeout (408), because it does not have the version from which the watch is to continue (410), or
/// because it has too much to do (429).
pub fn can_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            !(400..500).contains(&status.code) || matches!(status.code, 408 | 410 | 429)
        }
        _ => true,
    }
}

/// Returns the result of `call`; a timeout error if the call takes longer than `limit`.
pub async fn in_time<T>(limit: Duration, call: impl Future<Output = T>) -> Result<T, kube::Error> {
    timeout(limit, call).await.map_err(|_| kube::Error::ReadEvents(io::ErrorKind::TimedOut.into()))
}
