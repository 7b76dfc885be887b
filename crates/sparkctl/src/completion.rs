//! Completes command lines: commands and flags from clap, and names from the cluster.

use super::{
    Flags as Line,
    cluster::{Cluster, ClusterFlags},
    is_called,
    show::print,
};
use api::{ScheduledSparkApplication, SparkApplication, SparkConnect};
use clap::{Args, Command, CommandFactory, FromArgMatches, builder::PossibleValuesParser};
use clap_complete::{ArgValueCompleter, CompletionCandidate, env::Shells};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;
use std::{
    env,
    ffi::{OsStr, OsString},
    fmt::{Debug, Write},
    time::Duration,
};
use tokio::{runtime, time::timeout};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  source <(sparkctl completion bash)
  sparkctl completion fish | source

Put your shell's line into its start-up file to have completion in each new shell. If sparkctl is linked as kubectl-spark, link it as
kubectl_complete-spark too: then kubectl's own completion runs it.")]
pub(super) struct Flags {
    /// The shell
    #[arg(value_parser = PossibleValuesParser::new(Shells::builtins().names()))]
    shell: String,
}

/// The environment variable by which the shell's completion script asks this program for candidates.
const ASKED: &str = "COMPLETE";

/// The file name under which kubectl's completion runs this program to get candidates. Users create a link with this
/// name.
const PLUGINS: &str = "kubectl_complete-spark";
/// The directive of Cobra (kubectl's library for command lines) for: no other candidates, and no file names.
const NO_FILES: &str = ":4";

/// The maximum time that a user who has pressed the completion key waits for the cluster.
const PATIENCE: Duration = Duration::from_secs(2);

/// The maximum number of names that are fetched: more are of no use to a user.
const MOST: u32 = 500;

pub(super) fn print_script(flags: &Flags) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let shell = shells.completer(&flags.shell).expect("clap accepts only the names of shells");
    let mut script = Vec::new();
    let program = env::current_exe()?;
    let name = Line::command().get_name().to_owned();
    shell.write_registration(ASKED, &name, &name, &program.to_string_lossy(), &mut script)?;
    print(&String::from_utf8_lossy(&script))
}

/// Prints the candidates if a shell or kubectl requests them. Returns whether kubectl has requested them; after the
/// answer to a shell, the process exits.
///
/// # Errors
///
/// When the reader of standard output has closed it.
pub fn complete() -> anyhow::Result<bool> {
    if is_called(PLUGINS) {
        return for_kubectl().map(|()| true);
    }
    clap_complete::CompleteEnv::with_factory(command).var(ASKED).complete();
    Ok(false)
}

/// Returns the commands and flags. The completions of the cluster's flags are added here, because they need a cluster
/// themselves; all other flags name their completions.
fn command() -> Command {
    Line::command()
        .mut_arg("namespace", |arg| arg.add(ArgValueCompleter::new(namespaces)))
        .mut_arg("context", |arg| arg.add(ArgValueCompleter::new(contexts)))
}

/// Answers kubectl as <https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/> describes: one candidate a
/// line, with its description behind a tab, and at the end a directive for the shell.
fn for_kubectl() -> anyhow::Result<()> {
    let words: Vec<_> = words().collect();
    let last = words.len().saturating_sub(1);
    let found = clap_complete::engine::complete(&mut command(), words, last, None)?;
    let mut answer = String::new();
    for candidate in found.iter().filter(|candidate| !candidate.is_hide_set()) {
        let help = candidate.get_help().map(|help| help.to_string().replace('\n', " ")).unwrap_or_default();
        writeln!(answer, "{}\t{help}", candidate.get_value().to_string_lossy())?;
    }
    writeln!(answer, "{NO_FILES}")?;
    print(&answer)
}

pub(super) fn applications(begun: &OsStr) -> Vec<CompletionCandidate> {
    names(begun, async |cluster| listed(&cluster.api::<SparkApplication>()).await)
}

pub(super) fn schedules(begun: &OsStr) -> Vec<CompletionCandidate> {
    names(begun, async |cluster| listed(&cluster.api::<ScheduledSparkApplication>()).await)
}

pub(super) fn connects(begun: &OsStr) -> Vec<CompletionCandidate> {
    names(begun, async |cluster| listed(&cluster.api::<SparkConnect>()).await)
}

/// Completes names of schedules if the command line has --schedule, else names of applications.
pub(super) fn applications_or_schedules(begun: &OsStr) -> Vec<CompletionCandidate> {
    let is_about_schedules = words().any(|word| word == "--schedule" || word == "-s");
    if is_about_schedules { schedules(begun) } else { applications(begun) }
}

fn namespaces(begun: &OsStr) -> Vec<CompletionCandidate> {
    names(begun, async |cluster| listed(&Api::<Namespace>::all(cluster.client)).await)
}

fn contexts(begun: &OsStr) -> Vec<CompletionCandidate> {
    let contexts = of_line().and_then(|flags| flags.contexts().ok()).unwrap_or_default();
    beginning(begun, contexts)
}

/// Returns those names that begin with `begun`, of all names that `found` reads from the cluster of the command line.
/// If the cluster cannot be reached the result is empty: an error cannot be shown during completion.
fn names(
    begun: &OsStr,
    found: impl AsyncFnOnce(Cluster) -> kube::Result<Vec<String>>,
) -> Vec<CompletionCandidate> {
    let all = async {
        let cluster = of_line()?.connect(true).await.ok()?;
        found(cluster).await.ok()
    };
    let Ok(runtime) = runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let all = runtime.block_on(async { timeout(PATIENCE, all).await.ok().flatten() });
    beginning(begun, all.unwrap_or_default())
}

fn beginning(begun: &OsStr, all: Vec<String>) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    all.into_iter().filter(|name| name.starts_with(&*begun)).map(CompletionCandidate::new).collect()
}

async fn listed<K: Resource + Clone + DeserializeOwned + Debug>(api: &Api<K>) -> kube::Result<Vec<String>> {
    let list = api.list_metadata(&ListParams::default().limit(MOST)).await?;
    Ok(list.items.iter().map(ResourceExt::name_any).collect())
}

/// Returns the words of the command line that is being completed: all arguments of this process if kubectl runs it, the
/// arguments after `--` if a shell runs it.
fn words() -> impl Iterator<Item = OsString> {
    let is_plugins = is_called(PLUGINS);
    env::args_os().skip_while(move |word| !is_plugins && word != "--").skip(usize::from(!is_plugins))
}

/// Returns the cluster flags of the command line, as far as it is written.
fn of_line() -> Option<ClusterFlags> {
    let matches = Line::command().ignore_errors(true).try_get_matches_from(words()).ok()?;
    ClusterFlags::from_arg_matches(&matches).ok()
}
