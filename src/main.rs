//! `spark-operator`: flags, then what they ask for, then an exit code.

use anyhow::Context;
use clap::Parser;
use spark_operator::{
    api::crds,
    operator,
    settings::{Command, Flags},
};
use std::{fs, io::Write, path::Path};

fn main() -> anyhow::Result<()> {
    match Flags::parse().command {
        Command::Run(settings) => tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?
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
