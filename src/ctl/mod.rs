//! `sparkctl`: what can be asked of applications from a terminal?

mod list;
mod render;

use clap::{Parser, Subcommand};
use kube::{Client, Config, config::KubeConfigOptions};

/// Work with Spark applications on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "sparkctl", version)]
pub struct Flags {
    /// The namespace [default: the context's; what is rendered is in `default`]
    #[arg(short, long, global = true)]
    namespace: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List applications
    List(list::Flags),
    /// Show, without a cluster, what is created or run for an application, as YAML that kubectl takes
    Render(render::Flags),
}

/// Carries out what the flags ask for; the result goes to stdout.
///
/// # Errors
///
/// When the cluster cannot be reached or refuses.
pub async fn run(flags: Flags) -> anyhow::Result<()> {
    match flags.command {
        Command::List(list) => {
            let (client, namespace) = cluster(flags.namespace).await?;
            list::list(client, &namespace, &list).await
        }
        Command::Render(render) => render::render(&render, flags.namespace.as_deref()),
    }
}

/// The cluster of the current context, and the namespace to look in.
async fn cluster(namespace: Option<String>) -> anyhow::Result<(Client, String)> {
    let config = match Config::from_kubeconfig(&KubeConfigOptions::default()).await {
        Ok(config) => config,
        Err(error) => Config::incluster().map_err(|_| error)?,
    };
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    Ok((Client::try_from(config)?, namespace))
}
