//! What would be submitted for an application? Told offline, from its manifest alone.

use crate::{
    api::SparkApplication,
    plan::{Policy, run::Run, submission},
};
use anyhow::{Context, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use std::{
    fmt::Write as _,
    fs,
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// The file with the application, or - for standard input
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,

    /// The API server as Spark is to reach it
    #[arg(long, default_value = "k8s://https://kubernetes.default.svc:443")]
    master: String,
}

/// Prints what is submitted for each application in the file; other objects in it are passed over.
pub(super) fn render(flags: &Flags) -> anyhow::Result<()> {
    let text = contents(&flags.filename)?;
    let shown = flags.filename.display();
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("{shown}: not YAML"))?;
    let is_application = |document: &&Value| document["kind"] == "SparkApplication";
    let applications = documents
        .iter()
        .filter(is_application)
        .map(|document| {
            let name = document["metadata"]["name"].as_str().unwrap_or("without a name");
            SparkApplication::deserialize(document)
                .with_context(|| format!("{shown}: SparkApplication {name}"))
        })
        .collect::<anyhow::Result<Vec<SparkApplication>>>()?;
    if applications.is_empty() {
        bail!("{shown}: no SparkApplication in it");
    }
    for application in &applications {
        io::stdout().write_all(rendered(application, &flags.master)?.as_bytes())?;
    }
    Ok(())
}

fn contents(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The command line and the files that it names. The submission's id, and so the paths, are those of an
/// application without uid: the cluster gives it one.
fn rendered(application: &SparkApplication, master: &str) -> anyhow::Result<String> {
    let policy = Policy::new(master);
    let name = application.metadata.name.as_deref().unwrap_or_default();
    let command = submission::spark_submit(application, &Run::next(application), &policy)
        .with_context(|| format!("SparkApplication {name} cannot be submitted"))?;

    let mut text = format!("# SparkApplication {name}\nspark-submit");
    let mut arguments = command.arguments.iter().map(|argument| quoted(argument)).peekable();
    // Flags first, each on a line with its value; then the application and its own arguments.
    while let Some(flag) = arguments.next_if(|argument| argument.starts_with("--")) {
        write!(text, " \\\n  {flag} {}", arguments.next().unwrap_or_default())?;
    }
    write!(text, " \\\n  {}", arguments.collect::<Vec<_>>().join(" "))?;
    text.push('\n');
    for (file, content) in &command.files {
        writeln!(text, "\n# {}/{file}", command.directory)?;
        match serde_json::from_str::<Value>(content) {
            Ok(template) => text.push_str(&serde_saphyr::to_string(&template)?),
            Err(_) => text.push_str(content),
        }
    }
    Ok(text)
}

/// `argument` as a POSIX shell takes it for one word.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn arguments_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("local:///opt/spark/pi.jar"), "local:///opt/spark/pi.jar");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }
}
