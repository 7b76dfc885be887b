//! Defines the commands and flags of `sparkctl`, and calls the function that carries out each command.

mod change;
mod cluster;
mod completion;
mod connects;
pub mod crds;
mod create;
mod diff;
mod embedded;
mod events;
mod failure;
mod forward;
mod hadoop_conf;
mod list;
mod log;
mod manifest;
mod names;
mod page;
mod render;
mod schema;
mod show;
mod status;
mod top;
mod ui;
#[cfg(feature = "upload")]
mod upload;
mod wait;
mod waiting;
mod yaml;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cluster::ClusterFlags;
pub use completion::complete;
pub use failure::{Failure, exit_code};
pub use render::predicted;
use std::{
    env,
    path::{Path, PathBuf},
};

/// Work with Spark applications on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "sparkctl", version, after_help = failure::EXIT_CODES)]
pub struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,

    #[command(subcommand)]
    command: Command,
}

impl Flags {
    /// Parses the command line of this process. Wrong flags, --help and --version end the process.
    pub fn of_process() -> Self {
        let mut command = Self::command();
        if is_called(PLUGIN) {
            command = command.bin_name(AS_PLUGIN);
        }
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

/// The file name under which kubectl finds this program as a plugin: for `kubectl NAME`, kubectl runs the program
/// `kubectl-NAME`. Users create a link with this name.
const PLUGIN: &str = "kubectl-spark";
const AS_PLUGIN: &str = "kubectl spark";

/// Whether this program was started under the file name `name`, through a link for instance.
fn is_called(name: &str) -> bool {
    let program = env::args_os().next().unwrap_or_default();
    Path::new(&program).file_name().is_some_and(|program| program == name)
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create applications, schedules and SparkConnects from a file, or an application from a schedule
    Create(create::Flags),
    /// List applications, or schedules
    List(list::Flags),
    /// Show the state of an application, its runs and its latest events
    Status(status::Flags),
    /// Show the events of an application
    #[command(visible_alias = "events")]
    Event(events::Flags),
    /// Print the log of the driver or of executors; waits until the driver has started
    Log(log::Flags),
    /// Forward a port of this machine to a port of the driver, by default to that of its web UI
    Forward(forward::Flags),
    /// Open the web UI of an application in the browser
    Ui(ui::Flags),
    /// Show applications, schedules, logs and the web UIs of drivers on a page in the browser
    Page(page::Flags),
    /// Watch applications on a screen that stays up to date
    Top(top::Flags),
    /// Wait until applications have reached a state
    Wait(wait::Flags),
    /// Delete the pods of applications and create none until they are resumed; or suspend schedules
    #[command(after_help = "Example: sparkctl suspend --schedule nightly")]
    Suspend(change::NamedOrSchedule),
    /// Resume suspended applications or schedules
    #[command(after_help = "Example: sparkctl resume --schedule nightly")]
    Resume(change::NamedOrSchedule),
    /// Run applications again, from the beginning
    #[command(after_help = "Example: sparkctl rerun spark-pi && sparkctl wait spark-pi")]
    Rerun(change::Named),
    /// Create an application of each schedule now, in addition to those that are due
    #[command(after_help = "Example: sparkctl trigger nightly")]
    Trigger(change::Schedules),
    /// List, show, suspend, resume, delete and open servers of Spark Connect
    #[command(after_help = "Example: sparkctl connect open notebook")]
    Connect(connects::Flags),
    /// Delete applications or schedules
    #[command(after_help = "Example: sparkctl delete spark-pi --wait")]
    Delete(change::DeleteFlags),
    /// Check, without a cluster, whether applications, schedules and SparkConnects would be admitted, and report their
    /// mistakes
    Validate(create::ValidateFlags),
    /// Show what an edit would change in applications and SparkConnects of the cluster, and what that does to their runs
    /// and servers
    Diff(diff::Flags),
    /// Show, without a cluster, what is created or run for an application or a SparkConnect, as YAML that kubectl
    /// accepts
    Render(render::Flags),
    /// Print a shell script that completes commands, flags and names in the cluster
    Completion(completion::Flags),
    /// Write a manual page of each command into a directory
    #[command(after_help = "Example:\n  sparkctl manual ~/.local/share/man/man1")]
    Manual {
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
}

/// Runs the command that `flags` name, and prints its result to standard output.
///
/// # Errors
///
/// When the command fails, for instance because the API server cannot be reached or refuses a request. The error is a
/// [`Failure`] if it has an exit code of its own, by which scripts recognize it.
pub async fn run(flags: Flags) -> anyhow::Result<()> {
    let namespace = flags.cluster.namespace();
    // A command that needs no cluster does not await this, so no kubeconfig is read for it.
    let cluster = flags.cluster.connect(!matches!(flags.command, Command::Create(_)));
    match &flags.command {
        Command::Create(flags) => create::create(&cluster.await?, flags, namespace).await,
        Command::List(flags) => list::list(&cluster.await?, flags).await,
        Command::Status(flags) => status::status(&cluster.await?, flags).await,
        Command::Event(flags) => events::event(&cluster.await?, flags).await,
        Command::Log(flags) => log::log(&cluster.await?, flags).await,
        Command::Forward(flags) => forward::forward(&cluster.await?, flags).await,
        Command::Ui(flags) => ui::ui(&cluster.await?, flags).await,
        Command::Page(flags) => page::page(&cluster.await?, flags).await,
        Command::Top(flags) => top::top(&cluster.await?, flags).await,
        Command::Wait(flags) => wait::wait(&cluster.await?, flags).await,
        Command::Suspend(which) => change::suspend(&cluster.await?, which, true).await,
        Command::Resume(which) => change::suspend(&cluster.await?, which, false).await,
        Command::Rerun(which) => change::rerun(&cluster.await?, which).await,
        Command::Trigger(which) => change::trigger(&cluster.await?, which).await,
        Command::Connect(flags) => connects::connect(&cluster.await?, flags).await,
        Command::Delete(flags) => change::delete(&cluster.await?, flags).await,
        Command::Diff(flags) => diff::diff(&cluster.await?, flags, namespace).await,
        Command::Validate(flags) => create::validate(flags, namespace),
        Command::Render(flags) => render::render(flags, namespace),
        Command::Completion(flags) => completion::print_script(flags),
        Command::Manual { directory } => clap_mangen::generate_to(Flags::command(), directory)
            .with_context(|| format!("cannot write manual pages into {}", directory.display())),
    }
}
