//! `spark-operator`: flags, then what they ask for, then an exit code.

use anyhow::{Context, ensure};
use clap::Parser;
use jiff::Timestamp;
use spark_operator::{
    api::crds,
    manifests, operator,
    settings::{CertsCommand, Command, Flags, VERSION},
    webhook::Certificates,
};
use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

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
        Command::Crds { directory: None } => print(&crds::yaml()),
        Command::Manifests(settings) => print(&manifests::yaml(&settings)),
        Command::Certs { command: CertsCommand::Generate { directory, dns_names } } => {
            write_certificates(&directory, &dns_names)
        }
        Command::Version { short: true } => print(&format!("{VERSION}\n")),
        Command::Version { short: false } => print(&format!(
            "spark-operator {VERSION}\nplatform: {}/{}\nserves: sparkoperator.k8s.io/v1beta2\n",
            std::env::consts::OS,
            std::env::consts::ARCH,
        )),
    }
}

/// A reader that has seen enough is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn write_crds(directory: &Path) -> anyhow::Result<()> {
    for (name, yaml) in crds::files() {
        let path = directory.join(name);
        fs::write(&path, yaml).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Files as the Secret has them; the keys can be read by their owner alone.
fn write_certificates(directory: &Path, dns_names: &[String]) -> anyhow::Result<()> {
    let made = Certificates::generate(dns_names, now()).context("--dns-name")?;
    let files: Vec<(PathBuf, String)> =
        made.files().into_iter().map(|(name, pem)| (directory.join(name), pem)).collect();
    for (path, _) in &files {
        ensure!(!path.exists(), "{} exists already and is left as it is", path.display());
    }
    for (path, pem) in &files {
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(pem.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        print(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the clock of the certificates that are made by hand")]
fn now() -> Timestamp {
    Timestamp::now()
}
