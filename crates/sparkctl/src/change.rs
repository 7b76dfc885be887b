//! The commands that suspend, resume, rerun, trigger and delete applications and schedules. All but deletion change a
//! field or an annotation of the object, which the operator reads.

use super::{
    cluster::{Cluster, Kind},
    completion,
    events::gone,
    failure::{Failure, of_call, together},
    names::{self, Either},
    show::{now, print},
    waiting::Waiting,
};
use anyhow::bail;
use api::{Identity, ScheduledSparkApplication, SparkApplication, names::annotation};
use clap::Args;
use clap_complete::ArgValueCompleter;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The applications
    #[arg(required = true, value_name = "NAME", value_parser = names::application, add = ArgValueCompleter::new(completion::applications))]
    names: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Schedules {
    /// The schedules
    #[arg(required = true, value_name = "NAME", value_parser = names::schedule, add = ArgValueCompleter::new(completion::schedules))]
    names: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct NamedOrSchedule {
    /// The applications
    #[arg(required = true, value_name = "NAME", value_parser = names::either, add = ArgValueCompleter::new(completion::applications_or_schedules))]
    names: Vec<Either>,

    /// The names are those of schedules
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

/// Suspends or resumes applications and schedules: `is_to_be` is the new value of `spec.suspend`.
pub(super) async fn suspend(
    cluster: &Cluster,
    which: &NamedOrSchedule,
    is_to_be: bool,
) -> anyhow::Result<()> {
    let (applications, schedules) = which.by_kind()?;
    together(vec![
        suspended::<SparkApplication>(cluster, &applications, is_to_be).await,
        suspended::<ScheduledSparkApplication>(cluster, &schedules, is_to_be).await,
    ])
}

/// Suspends or resumes objects of one kind.
pub(super) async fn suspended<K: Kind>(
    cluster: &Cluster,
    names: &[String],
    is_to_be: bool,
) -> anyhow::Result<()> {
    let done = if is_to_be { "suspended" } else { "resumed" };
    patched::<K>(cluster, names, &json!({"spec": {"suspend": is_to_be}}), done).await
}

impl NamedOrSchedule {
    /// Returns the names of applications, and the names of schedules.
    fn by_kind(&self) -> anyhow::Result<(Vec<String>, Vec<String>)> {
        let (mut applications, mut schedules) = (Vec::new(), Vec::new());
        for Either { name, is_schedule } in &self.names {
            if self.schedule && *is_schedule == Some(false) {
                bail!("{name} is given as an application, but with --schedule all are schedules");
            }
            let names = if is_schedule.unwrap_or(self.schedule) { &mut schedules } else { &mut applications };
            names.push(name.clone());
        }
        Ok((applications, schedules))
    }
}

/// Requests another run of applications. The operator starts it when the present run has ended.
pub(super) async fn rerun(cluster: &Cluster, which: &Named) -> anyhow::Result<()> {
    let patch = patch_with_time(annotation::RERUN);
    patched::<SparkApplication>(cluster, &which.names, &patch, "is to run again").await
}

/// Requests one application of each schedule, in addition to those that are due.
pub(super) async fn trigger(cluster: &Cluster, which: &Schedules) -> anyhow::Result<()> {
    let patch = patch_with_time(annotation::TRIGGER);
    patched::<ScheduledSparkApplication>(cluster, &which.names, &patch, "triggered").await
}

/// Returns a patch that sets `annotation` to the present time: the operator acts once for each value of the annotation.
fn patch_with_time(annotation: &str) -> Value {
    json!({"metadata": {"annotations": {annotation: now().to_string()}}})
}

async fn patched<K: Kind>(
    cluster: &Cluster,
    names: &[String],
    patch: &Value,
    done: &str,
) -> anyhow::Result<()> {
    let objects = cluster.whole::<K>();
    let mut results = Vec::new();
    for name in names {
        let patched = objects.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        let tell = |_| print(&format!("{} \"{name}\" {done}\n", K::kind(&())));
        results.push(patched.map_err(of_call).and_then(tell));
    }
    together(results)
}

pub(super) async fn delete(cluster: &Cluster, flags: &DeleteFlags) -> anyhow::Result<()> {
    let (applications, schedules) = flags.which.by_kind()?;
    together(vec![
        deleted::<SparkApplication>(cluster, &applications, flags.wait).await,
        deleted::<ScheduledSparkApplication>(cluster, &schedules, flags.wait).await,
    ])
}

/// Deletes all objects; with `wait`, then waits until all of them are gone.
pub(super) async fn deleted<K: Kind>(cluster: &Cluster, names: &[String], wait: bool) -> anyhow::Result<()> {
    let (objects, mut results, mut left) = (cluster.whole::<K>(), Vec::new(), Vec::new());
    for name in names {
        results.push(match objects.delete(name, &DeleteParams::default()).await {
            Ok(deleted) => match deleted.left().filter(|_| wait) {
                Some(object) => {
                    left.push((name, object.own_uid().to_owned()));
                    continue;
                }
                None => tell_deleted::<K>(name),
            },
            Err(error) => Err(of_call(error)),
        });
    }
    for (name, uid) in left {
        let gone = gone(&cluster.api::<K>(), name, &uid, Some(Waiting::default())).await;
        results.push(gone.map_err(of_call).and_then(|()| tell_deleted::<K>(name)));
    }
    together(results)
}

fn tell_deleted<K: Kind>(name: &str) -> anyhow::Result<()> {
    print(&format!("{} \"{name}\" deleted\n", K::kind(&())))
}

/// Deletes an application, if it exists, and waits until its name is free.
pub(super) async fn make_room(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    match deleted::<SparkApplication>(cluster, &[name.to_owned()], true).await {
        // An application that does not exist needs no deletion. If the reader of standard output has closed it, the
        // command continues nevertheless: creating the new application is more important than reporting the deletion.
        Err(error) if matches!(error.downcast_ref(), Some(Failure::NotFound(_) | Failure::Unread)) => Ok(()),
        deleted => deleted,
    }
}
