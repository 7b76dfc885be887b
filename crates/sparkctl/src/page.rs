//! `sparkctl page`: serves the page of all applications on this machine, under a URL that nobody can guess, and opens
//! it in the browser. The page reads the cluster with the credentials of the kubeconfig.

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

/// The maximum number of connections. A browser opens six, but any program on this machine and any site in its browser
/// can open others.
const CONNECTIONS: usize = 256;
/// The maximum time for which a connection may be idle between two requests, or take to send the head of a request.
const SILENT: Duration = Duration::from_secs(60);
/// The maximum size of the head of a request in bytes, as for the page in the cluster.
const LARGEST_HEAD: usize = 16 << 10;
/// The pause after a connection could not be accepted, for instance because the process has no file descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "Example: sparkctl page --read-only")]
pub(super) struct Flags {
    /// Print the URL, but open no browser; the default if the output is not a terminal
    #[arg(long)]
    no_browser: bool,

    /// The port of this machine, on its loopback address alone [default: any free port]
    #[arg(short, long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    local_port: u16,

    /// Leave out the buttons that suspend, resume, run again, trigger and delete
    #[arg(long)]
    read_only: bool,
}

pub(super) async fn page(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    // The port is opened for IPv4 and IPv6, but the URL has the address of IPv4, which every machine has.
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
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        tokio::spawn(async move {
            // Errors of a connection are ignored: the browser shows them.
            served.await.ok();
            drop(permit);
        });
    }
}
