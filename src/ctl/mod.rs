//! `sparkctl`: what can be asked of applications from a terminal?

mod list;

use clap::{Parser, Subcommand};
use kube::{Client, Config, config::KubeConfigOptions};

/// Work with Spark applications on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "sparkctl", version)]
pub struct Flags {
    /// The namespace [default: the context's]
    #[arg(short, long, global = true)]
    namespace: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List applications
    List(list::Flags),
}

/// Carries out what the flags ask for; the result goes to stdout.
///
/// # Errors
///
/// When the cluster cannot be reached or refuses.
pub async fn run(flags: Flags) -> anyhow::Result<()> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("another crypto provider was installed before ours"))?;
    let config = match Config::from_kubeconfig(&KubeConfigOptions::default()).await {
        Ok(config) => config,
        Err(error) => Config::incluster().map_err(|_| error)?,
    };
    let namespace = flags.namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config)?;
    match flags.command {
        Command::List(flags) => list::list(client, &namespace, &flags).await,
    }
}
