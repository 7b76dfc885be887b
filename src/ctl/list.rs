//! Which applications are there, and how are they?

use crate::api::SparkApplication;
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client, ResourceExt, api::ListParams, core::DeserializeGuard};
use std::io::{self, Write};
use tabwriter::TabWriter;

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Applications of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

/// What a column without a value shows, as in kubectl.
const NONE: &str = "<none>";

pub(super) async fn list(client: Client, namespace: &str, flags: &Flags) -> anyhow::Result<()> {
    let applications =
        if flags.all_namespaces { Api::all(client) } else { Api::namespaced(client, namespace) };
    let applications = applications.list(&ListParams::default()).await?;
    if applications.items.is_empty() {
        let place = if flags.all_namespaces { "any namespace" } else { &format!("namespace {namespace}") };
        writeln!(io::stderr(), "No applications found in {place}.")?;
        return Ok(());
    }
    io::stdout().write_all(table(&applications.items, flags.all_namespaces, now())?.as_bytes())?;
    Ok(())
}

fn table(
    applications: &[DeserializeGuard<SparkApplication>],
    with_namespace: bool,
    now: Timestamp,
) -> anyhow::Result<String> {
    let mut table = TabWriter::new(Vec::new()).minwidth(0).padding(3);
    let namespace = |name: &str| if with_namespace { format!("{name}\t") } else { String::new() };
    writeln!(table, "{}NAME\tSTATE\tSUBMITTED\tENDED\tAGE", namespace("NAMESPACE"))?;
    for guarded in applications {
        let age = |time: Option<&Time>| {
            time.map_or_else(|| NONE.to_owned(), |time| short(now.duration_since(time.0)))
        };
        let status = guarded.0.as_ref().ok().and_then(|application| application.status.as_ref());
        let state = match &guarded.0 {
            Ok(application) => match application.state().as_str() {
                "" => "NEW",
                state => state,
            },
            Err(_) => "UNREADABLE",
        };
        writeln!(
            table,
            "{}{}\t{state}\t{}\t{}\t{}",
            namespace(&guarded.namespace().unwrap_or_default()),
            guarded.name_any(),
            age(status.and_then(|status| status.last_submission_attempt_time.as_ref())),
            age(status.and_then(|status| status.termination_time.as_ref())),
            age(guarded.creation_timestamp().as_ref()),
        )?;
    }
    let bytes = table.into_inner().map_err(|error| anyhow::anyhow!(error.to_string()))?;
    Ok(String::from_utf8(bytes)?)
}

/// An age as the old sparkctl wrote it: whole seconds, minutes, hours, days or years, whichever is the
/// largest that is not zero.
fn short(age: jiff::SignedDuration) -> String {
    let seconds = age.as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

#[expect(clippy::disallowed_methods, reason = "ages are told from the moment at which somebody asks")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn an_application_that_cannot_be_read_is_listed_too() {
        let application = |name: &str, kind: &str, state: &str| {
            from_value(json!({
                "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-11-21T10:00:00Z"},
                "spec": {"type": kind, "sparkVersion": "4.0.1", "mainApplicationFile": "x", "driver": {}, "executor": {}},
                "status": {
                    "applicationState": {"state": state},
                    "driverInfo": {},
                    "lastSubmissionAttemptTime": "2026-11-21T11:58:30Z",
                },
            }))
            .unwrap()
        };
        let applications = [
            application("pi", "Scala", "RUNNING"),
            application("new", "Java", ""),
            application("odd", "Ruby", ""),
        ];
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        assert_eq!(
            table(&applications, false, now).unwrap(),
            "NAME   STATE        SUBMITTED   ENDED    AGE\n\
             pi     RUNNING      1m          <none>   2h\n\
             new    NEW          1m          <none>   2h\n\
             odd    UNREADABLE   <none>      <none>   2h\n"
        );
    }
}
