//! `sparkctl page`: shows the page of all applications in the browser, at an address of this machine that nobody can guess,
//! with the credentials of the kubeconfig.

use super::{cluster::Cluster, forward::LocalPort, render, ui::open};
use ::page::{Credentials, Page, Settings};
use anyhow::Context;
use clap::Args;
use std::sync::Arc;

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
    // The port is ours for both families, but the address is that of IPv4, which every machine has.
    let mut local = LocalPort::open(flags.local_port).await?;
    let settings = Settings {
        allows_actions: !flags.read_only,
        render: Some(|application| render::of_object(application).map_err(|error| format!("{error:#}"))),
        ..Settings::default()
    };
    let page = Arc::new(Page::new(Credentials::Own(cluster.client.clone()), settings));
    open(&format!("http://127.0.0.1:{}{}", local.port, page.entrance()), flags.no_browser)?;
    axum::serve(local.listeners.swap_remove(0), page.router()).await.context("the page cannot be served")
}
