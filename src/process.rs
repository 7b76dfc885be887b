//! Begins and ends a process: its log, its limits, and the signals that end it gracefully or at once.

use crate::settings::{LogFormat, LogSettings};
use anyhow::Context;
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::disable_transparent_huge_pages,
};
use std::io::{self, IsTerminal, stderr};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// The log levels of some dependencies; directives of the user override these levels. kube-runtime wraps every
/// reconcile in a span that contains less than the operator's own. An error that kube's client logs is also reported by
/// the caller. Every client that can reach the webhook can make h2 and hyper log warnings.
const BELOW_ALL: &str = "kube_runtime=warn,kube_client=off,h2=error,hyper=error";
/// The exit code that a shell reports for a process that SIGTERM has ended.
const TERMINATED: i32 = 143;

/// Begins the log, with `warnings`, and sets the limits of the process: as many open files and sockets as are allowed, and
/// memory in small pages. Containers often start with a limit of 1,024 files where half a million would be allowed.
/// (Programs in Go raise it at their start, too.) Returns the token that a signal cancels.
///
/// # Errors
///
/// When the process cannot listen for signals.
pub fn begin(log: &LogSettings, warnings: &[String]) -> anyhow::Result<CancellationToken> {
    begin_log(log);
    for warning in warnings {
        warn!("{warning}");
    }
    if let Err(error) = take_small_pages() {
        warn!(%error, "huge pages cannot be turned off");
    }
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        warn!(%error, "the limit of open files stays as it is");
    }
    stop_on_signal().context("cannot listen for signals")
}

/// Makes the kernel give the process small pages from now on. The allocator asks for huge pages, and then a few
/// scattered objects keep 2 MiB each in memory: together a quarter of the memory of an operator that has little to do.
///
/// # Errors
///
/// When the kernel does not have this setting.
pub fn take_small_pages() -> rustix::io::Result<()> {
    disable_transparent_huge_pages(true)
}

/// Starts logging to stderr.
///
/// A JSON line has `timestamp`, `level`, `target`, `message` and the event's own fields, and under `span` the subject
/// of the event: kind, namespace and name of the object, and the like.
fn begin_log(settings: &LogSettings) {
    let filter = EnvFilter::new(format!("{BELOW_ALL},{}", settings.zap_log_level));
    let registry = tracing_subscriber::registry().with(filter);
    match settings.zap_encoder {
        LogFormat::Console => {
            registry.with(fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal())).init()
        }
        LogFormat::Json => {
            let mut json = json_subscriber::JsonLayer::new(stderr);
            json.with_timer("timestamp", fmt::time::SystemTime);
            json.with_level("level");
            json.with_target("target");
            json.with_flattened_event();
            json.with_flattened_span_fields("span");
            registry.with(json).init();
        }
    }
}

/// Returns a token that SIGTERM or SIGINT cancels. A second signal ends the process at once.
fn stop_on_signal() -> io::Result<CancellationToken> {
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
        std::process::exit(TERMINATED);
    });
    Ok(stop)
}
