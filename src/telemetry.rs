//! How does the process log?

use crate::settings::LogFormat;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// kube-runtime wraps every reconcile in a span of its own, which says less than ours; and what kube's client
/// complains of, whoever asked complains of too.
const BELOW_ALL: &str = "kube_runtime=warn,kube_client=off";

/// Logs to stderr from now on; `level` says what, as RUST_LOG would.
pub fn init(format: LogFormat, level: &str) {
    let registry = tracing_subscriber::registry().with(EnvFilter::new(format!("{BELOW_ALL},{level}")));
    match format {
        LogFormat::Console => {
            registry.with(fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal())).init()
        }
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(stderr)).init(),
    }
}
