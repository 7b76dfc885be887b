//! Runs the webhook on threads of its own, so that the controller, the renewal of the lease and the probes do not wait
//! for the computation of a review.

use std::{io, num::NonZero, thread::available_parallelism};
use tokio::runtime::{Builder, Runtime};

/// The maximum number of threads. Each may need some twenty megabytes for the review of an object of ordinary size, and the
/// operator's memory limit does not grow with the processors of its node.
const MOST: usize = 8;

/// Runs `work` on threads that run nothing else.
///
/// # Errors
///
/// If no threads can be started, or `work` fails or panics.
pub async fn on_threads_of_their_own(
    work: impl Future<Output = io::Result<()>> + Send + 'static,
) -> io::Result<()> {
    /// Drops a runtime without waiting for its threads: in an async context, tokio panics when a runtime is dropped in
    /// the usual way.
    struct Threads(Option<Runtime>);
    impl Drop for Threads {
        fn drop(&mut self) {
            if let Some(runtime) = self.0.take() {
                runtime.shutdown_background();
            }
        }
    }
    let threads = available_parallelism().map_or(MOST, NonZero::get).min(MOST);
    let runtime =
        Builder::new_multi_thread().worker_threads(threads).thread_name("reviews").enable_all().build()?;
    let work = runtime.spawn(work);
    let _threads = Threads(Some(runtime));
    work.await.map_err(io::Error::other)?
}
