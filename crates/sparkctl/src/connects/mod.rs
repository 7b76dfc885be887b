//! `sparkctl connect`: lists, shows, suspends, resumes and deletes servers of Spark Connect, prints their logs, and opens
//! them for clients of this machine.

mod open;
mod shown;

use super::{
    change::{deleted, suspended},
    cluster::Cluster,
    completion,
    list::{Selection, listed},
    log::{self, What, Whose},
    names,
    show::Output,
};
use api::SparkConnect;
use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;

#[derive(Debug, Args)]
pub(super) struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List servers, with their states
    List(Selection),
    /// Show how a server is and why, and the latest events
    Status(StatusFlags),
    /// Show what the server or its executors say; the server is waited for
    Log(LogFlags),
    /// Let a port of this machine lead to the server, and to each that replaces it, and print how a client connects
    Open(open::Flags),
    /// Delete servers and their executors, and create none until they are resumed
    Suspend(Named),
    /// End a suspension
    Resume(Named),
    /// Delete SparkConnects, with their servers and executors
    Delete(DeleteFlags),
}

#[derive(Debug, Args)]
struct StatusFlags {
    /// The SparkConnect
    #[arg(value_parser = names::connect, add = ArgValueCompleter::new(completion::connects))]
    name: String,

    /// In another form than for people
    #[arg(short, long, value_name = "FORM")]
    output: Option<Output>,
}

#[derive(Debug, Args)]
struct LogFlags {
    /// The SparkConnect
    #[arg(value_parser = names::connect, add = ArgValueCompleter::new(completion::connects))]
    name: String,

    #[command(flatten)]
    what: What,
}

#[derive(Debug, Args)]
struct Named {
    /// The SparkConnects
    #[arg(required = true, value_name = "NAME", value_parser = names::connect, add = ArgValueCompleter::new(completion::connects))]
    names: Vec<String>,
}

#[derive(Debug, Args)]
struct DeleteFlags {
    #[command(flatten)]
    which: Named,

    /// Wait until they are gone
    #[arg(long)]
    wait: bool,
}

pub(super) async fn connect(cluster: &Cluster, flags: &Flags) -> anyhow::Result<()> {
    match &flags.command {
        Command::List(which) => {
            let table = |found: &[_], style| shown::table(found, which, style);
            listed::<SparkConnect>(cluster, which, "SparkConnects", table).await
        }
        Command::Status(flags) => shown::status(cluster, &flags.name, flags.output).await,
        Command::Log(flags) => log::print(cluster, Whose::Connect(&flags.name), &flags.what).await,
        Command::Open(flags) => open::open(cluster, flags).await,
        Command::Suspend(which) => suspended::<SparkConnect>(cluster, &which.names, true).await,
        Command::Resume(which) => suspended::<SparkConnect>(cluster, &which.names, false).await,
        Command::Delete(flags) => deleted::<SparkConnect>(cluster, &flags.which.names, flags.wait).await,
    }
}
