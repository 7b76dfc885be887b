//! `spark-operator`: flags, then what they ask for, then an exit code.

use anyhow::Context;
use clap::Parser;
use spark_operator::{
    api::crds,
    operator,
    settings::{Command, Flags},
};
use std::{fs, io::Write, path::Path, process::ExitCode};

fn main() -> ExitCode {
    match run(Flags::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where stderr is closed nobody wants to know.
            writeln!(std::io::stderr(), "spark-operator: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(settings) => tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .context("cannot start threads")?
            .block_on(operator::run(*settings)),
        Command::Crds { directory: Some(directory) } => write_crds(&directory),
        Command::Crds { directory: None } => Ok(std::io::stdout().write_all(crds::yaml().as_bytes())?),
    }
}

fn write_crds(directory: &Path) -> anyhow::Result<()> {
    for (name, yaml) in crds::files() {
        let path = directory.join(name);
        fs::write(&path, yaml).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
