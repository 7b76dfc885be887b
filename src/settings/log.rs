//! The flags of the log.

use super::values::log_filter;
use clap::Args;

/// How, and what, the process logs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Probes, metrics, logs")]
pub struct LogSettings {
    /// How logs are written: for people, or one JSON object a line
    #[arg(long, value_name = "FORMAT", visible_alias = "log-format", value_enum, default_value_t = LogFormat::Console)]
    pub zap_encoder: LogFormat,

    /// What is logged: a level, or directives as RUST_LOG has them (`info,spark_operator=debug`)
    #[arg(long, env = "RUST_LOG", visible_alias = "log-level", value_name = "LEVEL", default_value = "info", value_parser = log_filter)]
    pub zap_log_level: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    #[value(alias = "text")]
    Console,
    Json,
}
