//! How does an application get into the cluster? From a file, or from a schedule's template. All is looked at before anything
//! is made.

use super::{
    change::make_room,
    cluster::Cluster,
    failure::of_call,
    log::{self, How},
    manifest,
    show::print,
    wait,
};
use crate::api::{ScheduledSparkApplication, SparkApplication};
use anyhow::Context;
use clap::Args;
use kube::{
    Resource, ResourceExt,
    api::{DynamicObject, PostParams},
};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sparkctl create app.yaml
  helm template pi chart | sparkctl create -
  sparkctl create nightly-by-hand --from nightly")]
pub(super) struct Flags {
    /// The file with applications and schedules, or - for standard input; with --from, the name of the application
    #[arg(value_name = "FILE|NAME")]
    what: String,

    /// Make the application from the template of this schedule
    #[arg(short, long, value_name = "SCHEDULE")]
    from: Option<String>,

    /// Delete applications of the same names first, and wait until they are gone
    #[arg(short, long)]
    delete: bool,

    /// Follow the driver's log until the application has ended; a failure if it has failed
    #[arg(short, long)]
    logs: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: sparkctl validate -f app.yaml")]
pub(super) struct ValidateFlags {
    /// The file with applications and schedules, or - for standard input
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
}

pub(super) async fn create(cluster: &Cluster, flags: &Flags, namespace: Option<&str>) -> anyhow::Result<()> {
    let objects = match &flags.from {
        Some(schedule) => vec![of_schedule(cluster, schedule, &flags.what).await?],
        None => of_file(cluster, Path::new(&flags.what), namespace)?,
    };
    let mut applications = Vec::new();
    for object in &objects {
        let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
        let place = Cluster { client: cluster.client.clone(), namespace };
        let api = if kind == ScheduledSparkApplication::kind(&()) {
            place.whole::<ScheduledSparkApplication>()
        } else {
            if flags.delete && !name.is_empty() {
                make_room(&place, &name).await?;
            }
            place.whole::<SparkApplication>()
        };
        let made = api.create(&PostParams::default(), object).await.map_err(of_call)?;
        print(&format!("{kind} \"{}\" created\n", made.name_any()))?;
        if kind == SparkApplication::kind(&()) {
            applications.push((place, made.name_any()));
        }
    }
    if flags.logs {
        for (place, name) in applications {
            log::of_driver(&place, &name, &How::to_the_end()).await?;
            wait::ended_well(&place, &name).await?;
        }
    }
    Ok(())
}

/// The objects of a manifest, as they are written there, if nothing is wrong with any.
fn of_file(cluster: &Cluster, file: &Path, namespace: Option<&str>) -> anyhow::Result<Vec<DynamicObject>> {
    let found = manifest::of_file(file, namespace)?.into_iter();
    manifest::all(found.map(|found| {
        let found = found?;
        found.check()?;
        let mut object = found.object;
        if object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
            object["metadata"]["namespace"] = json!(cluster.namespace);
        }
        Ok(serde_json::from_value(object)?)
    }))
}

/// An application called `name`, with the template of a schedule for its spec. The schedule owns it, and does not count it
/// among those that it keeps.
async fn of_schedule(cluster: &Cluster, schedule: &str, name: &str) -> anyhow::Result<DynamicObject> {
    let schedules = cluster.whole::<ScheduledSparkApplication>();
    let schedule = schedules.get(schedule).await.map_err(of_call)?;
    let object = json!({
        "apiVersion": SparkApplication::api_version(&()),
        "kind": SparkApplication::kind(&()),
        "metadata": {
            "name": name,
            "namespace": cluster.namespace,
            "ownerReferences": [{
                "apiVersion": ScheduledSparkApplication::api_version(&()),
                "kind": ScheduledSparkApplication::kind(&()),
                "name": schedule.name_any(),
                "uid": schedule.uid(),
            }],
        },
        "spec": schedule.data["spec"]["template"],
    });
    serde_json::from_value(object).context("the schedule's template cannot be read")
}

/// Says of each object in a file what admission would.
pub(super) fn validate(flags: &ValidateFlags, namespace: Option<&str>) -> anyhow::Result<()> {
    let found = manifest::of_file(&flags.filename, namespace)?.into_iter();
    let (valid, complaints): (Vec<_>, Vec<_>) = found
        .map(|found| {
            let found = found?;
            found.check().map(|()| found.title)
        })
        .partition(Result::is_ok);
    let lines: String = valid.iter().flatten().map(|title| format!("{title} is valid\n")).collect();
    print(&lines)?;
    manifest::all(complaints.into_iter()).map(drop)
}
