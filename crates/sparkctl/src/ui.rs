//! `sparkctl ui`: opens the web UI of an application: at its Ingress if it has one, else at a port of this machine that
//! is forwarded to the driver.

use super::{
    cluster::Cluster,
    completion,
    forward::{DEFAULT_PORT, LocalPort, has_ended, through, ui_port_of},
    log::{Whose, next_pod},
    names,
    show::{complain, print},
    yaml::line,
};
use anyhow::bail;
use api::names::conf;
use clap::Args;
use clap_complete::ArgValueCompleter;
use kube::ResourceExt;
use std::io::{self, IsTerminal};
use submission::exposure::is_ui_off;

#[derive(Debug, Args)]
#[command(after_help = "Example: sparkctl ui spark-pi")]
pub(super) struct Flags {
    /// The application
    #[arg(value_parser = names::application, add = ArgValueCompleter::new(completion::applications))]
    name: String,

    /// Print the URL, but open no browser; the default if the output is not a terminal
    #[arg(long)]
    no_browser: bool,

    /// The port of this machine, if there is no Ingress [default: 4040 if it is free, else any free port]
    #[arg(short, long, value_name = "PORT")]
    local_port: Option<u16>,
}

pub(super) async fn ui(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    let (name, whose) = (&flags.name, Whose::Application(&flags.name));
    let application = cluster.application(name).await?;
    if is_ui_off(&application) {
        bail!("{name} has no web UI: its sparkConf has {}=false", conf::UI_ENABLED);
    }
    let driver = application.status.map(|status| status.driver_info).unwrap_or_default();
    if let Some(address) = driver.web_ui_ingress_address {
        // Without a running driver the Ingress would show an error page, so a driver that has not ended is waited for.
        let mut driver = next_pod(cluster, whose, None).await?;
        while let Some(ended) = driver.as_ref().filter(|driver| has_ended(Some(driver))) {
            driver = next_pod(cluster, whose, ended.uid().as_deref()).await?;
        }
        if driver.is_none() {
            bail!(whose.without_pod(cluster).await?);
        }
        return open(&address, flags.no_browser);
    }
    let local = LocalPort::usual(flags.local_port, DEFAULT_PORT).await?;
    let port = ui_port_of(cluster, name).await?;
    through(cluster, whose, port, &local, async |to| {
        to.answers().await?;
        open(&format!("http://localhost:{}", local.port), flags.no_browser)
    })
    .await
}

/// Prints a URL, and opens it in the browser if the output is a terminal.
pub(super) fn open(address: &str, no_browser: bool) -> anyhow::Result<()> {
    print(&format!("{}\n", line(address)))?;
    let is_page = ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme));
    if is_page
        && !no_browser
        && io::stdout().is_terminal()
        && let Err(error) = ::open::that_detached(address)
    {
        complain(&format!("no browser could be opened ({error}): open the URL yourself"));
    }
    Ok(())
}
