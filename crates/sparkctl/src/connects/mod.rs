//! `sparkctl connect`: lists, shows, suspends, resumes and deletes servers of Spark Connect, prints their logs, and opens
//! them for clients of this machine.

mod format;
mod open;

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
    /// Show the state of a server, its reason and the latest events
    Status(StatusFlags),
    /// Print the log of the server or of its executors; waits until the server has started
    Log(LogFlags),
    /// Forward a port of this machine to the server, and to each server that replaces it, and print how a client
    /// connects
    Open(open::Flags),
    /// Delete servers and their executors, and create none until they are resumed
    Suspend(Named),
    /// Resume suspended servers
    Resume(Named),
    /// Delete SparkConnects, with their servers and executors
    Delete(DeleteFlags),
}

#[derive(Debug, Args)]
struct StatusFlags {
    /// The SparkConnect
    #[arg(value_parser = names::connect, add = ArgValueCompleter::new(completion::connects))]
    name: String,

    /// The form of the output [default: text for people]
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
            let table = |found: &[_], style| format::table(found, which, style);
            listed::<SparkConnect>(cluster, which, "SparkConnects", table).await
        }
        Command::Status(flags) => format::status(cluster, &flags.name, flags.output).await,
        Command::Log(flags) => log::print(cluster, Whose::Connect(&flags.name), &flags.what).await,
        Command::Open(flags) => open::open(cluster, flags).await,
        Command::Suspend(which) => suspended::<SparkConnect>(cluster, &which.names, true).await,
        Command::Resume(which) => suspended::<SparkConnect>(cluster, &which.names, false).await,
        Command::Delete(flags) => deleted::<SparkConnect>(cluster, &flags.which.names, flags.wait).await,
    }
}
