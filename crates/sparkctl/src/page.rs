//! `sparkctl page`: shows the page of all applications in the browser, at an address of this machine that nobody can guess,
//! with the credentials of the kubeconfig.

use super::{cluster::Cluster, forward::LocalPort, render, ui::open};
use ::page::{Credentials, Page, Settings};
use clap::Args;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::sleep};

/// The most connections. A browser keeps six; all that runs on this machine, and each site in its browser, can open others.
const CONNECTIONS: usize = 256;
/// The longest time for which a connection may be silent between two requests, or have sent a part of a head.
const SILENT: Duration = Duration::from_secs(60);
/// The most bytes of a head; as many as the page in the cluster allows.
const LARGEST_HEAD: usize = 16 << 10;
/// The pause after a connection that could not be accepted, as when no files are left.
const PAUSE: Duration = Duration::from_millis(100);

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
    let (listener, router) = (local.listeners.swap_remove(0), page.router());
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(SILENT).max_buf_size(LARGEST_HEAD);
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = Arc::clone(&room).acquire_owned().await?;
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            // How a connection ends matters to the browser alone, which shows it.
            served.await.ok();
            drop(place);
        });
    }
}
