//! The program `spark-operator`: reads the flags, runs the command and returns an exit code.

use anyhow::Context;
use clap::Parser;
use spark_operator::{
    certs, definitions, gateway, manifests, operator, page,
    settings::{ClusterSettings, Command, Flags, Half, HalfCommand, HalfSettings, VERSION},
};
use std::{fs, io::Write, path::Path, process::ExitCode};
use tokio::runtime::{Builder, Runtime};

/// mimalloc is used because reviews, watches and statuses are trees of small objects, allocated by one thread and
/// dropped by another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Flags::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed, the message has no reader, so the failure to write it is ignored.
            writeln!(std::io::stderr(), "spark-operator: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(settings) => runtime()?.block_on(operator::run(*settings, &[])),
        Command::Controller(HalfCommand::Start(settings)) => start(*settings, Half::Controller),
        Command::Webhook(HalfCommand::Start(settings)) => start(*settings, Half::Webhook),
        Command::ConnectGateway(settings) => runtime()?.block_on(gateway::run(*settings)),
        Command::Page(settings) => runtime()?.block_on(page::run(&settings)),
        Command::Crds { directory: Some(directory), .. } => write_crds(&directory),
        Command::Crds { apply: true, without_spark_connect, leave_spark_connects, cluster, .. } => {
            runtime()?.block_on(apply_crds(&cluster, without_spark_connect && !leave_spark_connects))
        }
        Command::Crds { .. } => print(&manifests::crds()),
        Command::Manifests(settings) => print(&manifests::yaml(&settings)),
        Command::Certs(command) => print(&runtime()?.block_on(certs::run(&command))?),
        Command::Version { short: true } => print(&format!("{VERSION}\n")),
        Command::Version { short: false } => print(&format!(
            "spark-operator {VERSION}\nplatform: {}/{}\nserves: sparkoperator.k8s.io/v1beta2 and v1alpha1\n",
            std::env::consts::OS,
            std::env::consts::ARCH,
        )),
    }
}

fn start(settings: HalfSettings, half: Half) -> anyhow::Result<()> {
    let (settings, warnings) = settings.of(half)?;
    runtime()?.block_on(operator::run(settings, &warnings))
}

async fn apply_crds(cluster: &ClusterSettings, needs_no_spark_connects: bool) -> anyhow::Result<()> {
    let client = operator::client(cluster.kubeconfig.as_deref()).await?;
    if needs_no_spark_connects {
        definitions::check_spark_connects(&client).await?;
    }
    print(&definitions::apply(&client).await?)
}

fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build().context("cannot start threads")
}

/// Prints `text` to stdout. A reader that closes the pipe early is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn write_crds(directory: &Path) -> anyhow::Result<()> {
    for (plural, yaml) in manifests::CRDS {
        let path = directory.join(format!("sparkoperator.k8s.io_{plural}.yaml"));
        fs::write(&path, yaml).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
