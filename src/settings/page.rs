//! The flags of `spark-operator page`.

use super::{LogSettings, usual, values::checked};
use clap::Args;
use std::{net::SocketAddr, path::PathBuf};

/// How the page is served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Page", mut_args(usual))]
pub struct PageSettings {
    /// Where the page is served, without TLS: an Ingress, a Gateway or an authenticating proxy in front of it
    /// terminates TLS
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8080")]
    pub bind_address: SocketAddr,

    /// The API server, to which every request is sent with the caller's token
    #[arg(long, value_name = "URL", default_value = "https://kubernetes.default.svc")]
    pub api_server: String,

    /// The CA certificates of the API server
    #[arg(long, value_name = "FILE", default_value = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")]
    pub certificate_authority: PathBuf,

    /// Show buttons that suspend, resume, run again, trigger and delete, with the caller's rights
    #[arg(long)]
    pub allow_actions: bool,

    /// The URL of Spark's history server, to which the page links for applications that have ended
    #[arg(long, value_name = "URL", value_parser = web_address)]
    pub history_server: Option<String>,

    /// The URL of a dashboard with the metrics of an application; {namespace} and {name} in it stand for the
    /// application's
    #[arg(long, value_name = "URL", value_parser = web_address)]
    pub dashboard: Option<String>,

    #[command(flatten)]
    pub log: LogSettings,
}

fn web_address(text: &str) -> Result<String, String> {
    let is_one = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
    checked(text, is_one, "has to begin with https:// or http://")
}
