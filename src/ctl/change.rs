//! How is an application stopped, let go on, run again or deleted? By a word in its object, which the operator reads.

use super::{
    cluster::{Cluster, Kind},
    completion,
    events::gone,
    failure::of_call,
    show::{now, print},
};
use crate::api::{ScheduledSparkApplication, SparkApplication, names::annotation};
use clap::Args;
use clap_complete::ArgValueCompleter;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The applications
    #[arg(required = true, value_name = "NAME", add = ArgValueCompleter::new(completion::applications))]
    names: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Schedules {
    /// The schedules
    #[arg(required = true, value_name = "NAME", add = ArgValueCompleter::new(completion::schedules))]
    names: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct NamedOrSchedule {
    /// The applications
    #[arg(required = true, value_name = "NAME", add = ArgValueCompleter::new(completion::applications_or_schedules))]
    names: Vec<String>,

    /// They are schedules
    #[arg(short, long)]
    schedule: bool,
}

#[derive(Debug, Args)]
pub(super) struct DeleteFlags {
    #[command(flatten)]
    which: NamedOrSchedule,

    /// Wait until they are gone
    #[arg(long)]
    wait: bool,
}

/// Whether to begin or to end a suspension.
pub(super) async fn suspend(
    cluster: &Cluster,
    which: &NamedOrSchedule,
    is_to_be: bool,
) -> anyhow::Result<()> {
    let patch = json!({"spec": {"suspend": is_to_be}});
    let done = if is_to_be { "suspended" } else { "resumed" };
    if which.schedule {
        patched::<ScheduledSparkApplication>(cluster, &which.names, &patch, done).await
    } else {
        patched::<SparkApplication>(cluster, &which.names, &patch, done).await
    }
}

/// Asks for another run of applications that have ended, or for an end and another run of those that have not.
pub(super) async fn rerun(cluster: &Cluster, which: &Named) -> anyhow::Result<()> {
    let patch = asked(annotation::RERUN);
    patched::<SparkApplication>(cluster, &which.names, &patch, "is to run again").await
}

/// Asks schedules for one application beside those that are due.
pub(super) async fn trigger(cluster: &Cluster, which: &Schedules) -> anyhow::Result<()> {
    let patch = asked(annotation::TRIGGER);
    patched::<ScheduledSparkApplication>(cluster, &which.names, &patch, "triggered").await
}

/// What the operator does once for each value of `annotation`.
fn asked(annotation: &str) -> Value {
    json!({"metadata": {"annotations": {annotation: now().to_string()}}})
}

async fn patched<K: Kind>(
    cluster: &Cluster,
    names: &[String],
    patch: &Value,
    done: &str,
) -> anyhow::Result<()> {
    let objects = cluster.whole::<K>();
    for name in names {
        objects.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map_err(of_call)?;
        print(&format!("{} \"{name}\" {done}\n", K::kind(&())))?;
    }
    Ok(())
}

pub(super) async fn delete(cluster: &Cluster, flags: &DeleteFlags) -> anyhow::Result<()> {
    let DeleteFlags { which: NamedOrSchedule { names, schedule }, wait } = flags;
    for name in names {
        if *schedule {
            deleted::<ScheduledSparkApplication>(cluster, name, *wait).await.map_err(of_call)?;
        } else {
            deleted::<SparkApplication>(cluster, name, *wait).await.map_err(of_call)?;
        }
    }
    Ok(())
}

async fn deleted<K: Kind>(cluster: &Cluster, name: &str, wait: bool) -> Result<(), kube::Error> {
    let objects = cluster.whole::<K>();
    let deleted = objects.delete(name, &DeleteParams::default()).await?;
    if wait && let Some(left) = deleted.left() {
        gone(cluster.api::<PartialObjectMeta<K>>(), name, &left.uid().unwrap_or_default()).await;
    }
    print(&format!("{} \"{name}\" deleted\n", K::kind(&()))).ok();
    Ok(())
}

/// Deletes an application, if there is one, and waits until its name is free.
pub(super) async fn make_room(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    match deleted::<SparkApplication>(cluster, name, true).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => deleted.map_err(of_call),
    }
}
