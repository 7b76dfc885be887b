//! Sets up the log.

use crate::settings::LogFormat;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// The log levels of some dependencies; directives of the user override these levels. kube-runtime wraps every
/// reconcile in a span that contains less than the operator's own. An error that kube's client logs is also reported by
/// the caller. Every client that can reach the webhook can make h2 and hyper log warnings.
const BELOW_ALL: &str = "kube_runtime=warn,kube_client=off,h2=error,hyper=error";

/// Starts logging to stderr. `level` selects the messages, in the syntax of RUST_LOG.
///
/// A JSON line has `timestamp`, `level`, `target`, `message` and the event's own fields, and under `span` the subject
/// of the event: kind, namespace and name of the object, and the like.
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
