//! Ends the process: gracefully at the first signal, at once at the second signal.

use std::{io, process};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The exit code that a shell reports for a process that SIGTERM has ended.
const TERMINATED: i32 = 143;

/// Returns a token that SIGTERM or SIGINT cancels. A second signal ends the process at once.
///
/// # Errors
///
/// When the process cannot listen for signals.
pub fn on_signal() -> io::Result<CancellationToken> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = CancellationToken::new();
    let signalled = stop.clone();
    tokio::spawn(async move {
        let mut next = async || tokio::select! { _ = terminate.recv() => (), _ = interrupt.recv() => () };
        next().await;
        info!("stopping; another signal stops at once");
        signalled.cancel();
        next().await;
        warn!("stopped at once");
        process::exit(TERMINATED);
    });
    Ok(stop)
}
