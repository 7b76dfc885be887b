//! `sparkctl page`: shows the page of all applications in the browser, at an address of this machine that nobody can guess,
//! with the credentials of the kubeconfig.

use super::{cluster::Cluster, ui::open};
use ::page::{Credentials, Page, Settings};
use anyhow::{Context, anyhow};
use clap::Args;
use std::{net::Ipv4Addr, sync::Arc};
use tokio::net::TcpListener;

#[derive(Debug, Args)]
#[command(after_help = "Example: sparkctl page --read-only")]
pub(super) struct Flags {
    /// Print the address, but open no browser; so it is where the output is not a terminal
    #[arg(long)]
    no_browser: bool,

    /// The port of this machine, on its loopback address alone [default: any that is free]
    #[arg(short, long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    local_port: u16,

    /// Only show: without the buttons that suspend, resume, run again, trigger and delete
    #[arg(long)]
    read_only: bool,
}

pub(super) async fn page(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let port = flags.local_port;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| {
        anyhow!(
            "port {port} of this machine cannot be listened on: {error}: choose another with --local-port"
        )
    })?;
    let settings = Settings { allows_actions: !flags.read_only, history_server: None };
    let page = Arc::new(Page::new(Credentials::Own(cluster.client.clone()), settings));
    open(&format!("http://{}{}", listener.local_addr()?, page.entrance()), flags.no_browser)?;
    axum::serve(listener, page.router()).await.context("the page cannot be served")
}
