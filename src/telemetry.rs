//! How does the process log?

use crate::settings::LogFormat;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// kube-runtime wraps every reconcile in a span of its own, which says less than ours.
const DEFAULT_FILTER: &str = "info,kube_runtime=warn";

/// Logs to stderr from now on; RUST_LOG says what.
pub fn init(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => {
            registry.with(fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal())).init()
        }
        LogFormat::Json => registry.with(fmt::layer().json().with_writer(stderr)).init(),
    }
}
