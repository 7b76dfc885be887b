//! Which applications are there, and how are they?

use crate::{api::SparkApplication, plan::takeover};
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

    /// Only those that run under another operator and whose executors get by its webhook what they would lack under
    /// this one: let them end before you put this one in its place
    #[arg(long)]
    needs_drain: bool,
}

/// What a column without a value shows, as in kubectl.
const NONE: &str = "<none>";

pub(super) async fn list(client: Client, namespace: &str, flags: &Flags) -> anyhow::Result<()> {
    let applications =
        if flags.all_namespaces { Api::all(client) } else { Api::namespaced(client, namespace) };
    let mut applications = applications.list(&ListParams::default()).await?.items;
    if flags.needs_drain {
        applications.retain(|guarded| !lacking(guarded).is_empty());
    }
    if applications.is_empty() {
        let place = if flags.all_namespaces { "any namespace" } else { &format!("namespace {namespace}") };
        let which = if flags.needs_drain { "applications that need to be drained" } else { "applications" };
        writeln!(io::stderr(), "No {which} found in {place}.")?;
        return Ok(());
    }
    io::stdout().write_all(table(&applications, flags, now())?.as_bytes())?;
    Ok(())
}

/// What its executors would lack. Nobody knows that of one that cannot be read.
fn lacking(guarded: &DeserializeGuard<SparkApplication>) -> Vec<String> {
    guarded.0.as_ref().map(takeover::lacking).unwrap_or_default()
}

fn table(
    applications: &[DeserializeGuard<SparkApplication>],
    flags: &Flags,
    now: Timestamp,
) -> anyhow::Result<String> {
    let mut table = TabWriter::new(Vec::new()).minwidth(0).padding(3);
    let namespace = |name: &str| if flags.all_namespaces { format!("{name}\t") } else { String::new() };
    let lack = |what: &str| if flags.needs_drain { format!("\t{what}") } else { String::new() };
    let (first, last) = (namespace("NAMESPACE"), lack("EXECUTORS LACK"));
    writeln!(table, "{first}NAME\tSTATE\tSUBMITTED\tENDED\tAGE{last}")?;
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
            "{}{}\t{state}\t{}\t{}\t{}{}",
            namespace(&guarded.namespace().unwrap_or_default()),
            guarded.name_any(),
            age(status.and_then(|status| status.last_submission_attempt_time.as_ref())),
            age(status.and_then(|status| status.termination_time.as_ref())),
            age(guarded.creation_timestamp().as_ref()),
            lack(&lacking(guarded).join(", ")),
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
            table(&applications, &Flags { all_namespaces: false, needs_drain: false }, now).unwrap(),
            "NAME   STATE        SUBMITTED   ENDED    AGE\n\
             pi     RUNNING      1m          <none>   2h\n\
             new    NEW          1m          <none>   2h\n\
             odd    UNREADABLE   <none>      <none>   2h\n"
        );
    }
}
