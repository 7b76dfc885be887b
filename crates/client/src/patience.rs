//! Decides whether a failed request can be repeated, and after which pause.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// The maximum time to wait for a response, and for the end of a watch after the watch's own timeout.
pub const GRACE: Duration = Duration::from_secs(15);
/// The maximum pause after a first failure; it is doubled after each further failure in a row, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Counts failed requests in a row, to make the pauses after them longer.
#[derive(Debug, Default)]
pub struct Patience {
    /// How many requests in a row have failed.
    pub failures: u32,
}

impl Patience {
    /// Waits before the next request. Up to half of the pause is random, so that many clients that have lost the API
    /// server at the same time do not all send their next request at the same time.
    pub async fn pause(&mut self) {
        let longest = LONGEST_PAUSE.min(FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)));
        self.failures += 1;
        let chance = RandomState::new().build_hasher().finish() >> 32;
        sleep(longest.mul_f64(0.5 + 0.5 * chance as f64 / f64::from(u32::MAX))).await;
    }

    /// Resets the count after a request that has succeeded.
    pub const fn restore(&mut self) {
        self.failures = 0;
    }
}

/// Whether the same request can succeed later. Only a refusal with a 4xx code is final, except 408 (timeout), 410 (the
/// version from which a watch is to continue is not stored any more) and 429 (too many requests).
pub fn can_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            !(400..500).contains(&status.code) || matches!(status.code, 408 | 410 | 429)
        }
        _ => true,
    }
}

/// Awaits `call`, and returns its result, or a timeout error if that takes longer than `limit`.
pub async fn in_time<T>(limit: Duration, call: impl Future<Output = T>) -> Result<T, kube::Error> {
    timeout(limit, call).await.map_err(|_| kube::Error::ReadEvents(io::ErrorKind::TimedOut.into()))
}
