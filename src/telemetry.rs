//! Sets up the log.

use crate::settings::LogFormat;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// kube-runtime wraps every reconcile in a span of its own, which says less than ours; and what kube's client
/// complains of, whoever asked complains of too. Whoever can reach the webhook can make h2 and hyper warn.
const BELOW_ALL: &str = "kube_runtime=warn,kube_client=off,h2=error,hyper=error";

/// Logs to stderr from now on; `level` says what, as RUST_LOG would.
///
/// A JSON line has `timestamp`, `level`, `target`, `message` and the event's own fields, and under `span` what
/// the event is about: kind, namespace and name of the object, and the like.
pub fn init(format: LogFormat, level: &str) {
    let registry = tracing_subscriber::registry().with(EnvFilter::new(format!("{BELOW_ALL},{level}")));
    match format {
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
