//! `sparkctl create` and `sparkctl validate`: creates the objects in a file, or an application from a schedule's
//! template, with the files of this machine that they need. Everything is checked before anything is
//! uploaded, and everything is uploaded before anything is created.

#[cfg(feature = "upload")]
use super::upload;
use super::{
    change::make_room,
    cluster::Cluster,
    completion,
    failure::of_call,
    hadoop_conf::HadoopConf,
    log::{self, How, Whose},
    manifest::{self, Checks, Manifest},
    names,
    show::print,
    wait,
};
use anyhow::{Context, bail};
use api::{Identity, ScheduledSparkApplication, SparkApplication, SparkConnect};
use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;
use kube::{
    Api, Resource, ResourceExt,
    api::{DynamicObject, PostParams, Request},
};
use serde_json::json;
use std::{collections::BTreeSet, path::Path};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  sparkctl create app.yaml
  helm template pi chart | sparkctl create -
  sparkctl create nightly-by-hand --from nightly
  sparkctl create app.yaml --upload-to s3://jobs --upload-to-region eu-west-1

HADOOP_CONF_DIR, if it is set, is a folder whose files become the ConfigMap NAME-hadoop-config, for each application that \
names no hadoopConfigMap of its own.

Credentials for uploads are looked for where the programs of AWS and Google look for them: AWS_ACCESS_KEY_ID, then the profile \
AWS_PROFILE in ~/.aws; GOOGLE_APPLICATION_CREDENTIALS, then those of `gcloud auth application-default login`; then the \
metadata server of the cloud, on one of its machines.")]
pub(super) struct Flags {
    /// The file with applications, schedules and SparkConnects, or - for standard input; with --from, the name of the application
    #[arg(value_name = "FILE|NAME", value_hint = ValueHint::FilePath)]
    what: String,

    /// Create the application from the template of this schedule
    #[arg(short, long, value_name = "SCHEDULE", value_parser = names::template, add = ArgValueCompleter::new(completion::schedules))]
    from: Option<String>,

    /// Delete applications of the same names first, and wait until they are gone
    #[arg(short, long)]
    delete: bool,

    /// Follow the driver's log until the application has ended; fails if the application fails
    #[arg(short, long)]
    logs: bool,

    #[cfg(feature = "upload")]
    #[command(flatten)]
    upload: upload::UploadFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: sparkctl validate app.yaml")]
pub(super) struct ValidateFlags {
    #[command(flatten)]
    manifest: Manifest,
}

pub(super) async fn create(cluster: &Cluster, flags: &Flags, namespace: Option<&str>) -> anyhow::Result<()> {
    let mut objects = match &flags.from {
        Some(schedule) => vec![of_schedule(cluster, schedule, &flags.what).await?],
        None => of_file(cluster, Path::new(&flags.what), namespace)?,
    };
    let hadoop_conf = HadoopConf::of_environment()?;
    let wanted = objects
        .iter_mut()
        .map(|object| hadoop_conf.as_ref().map_or(Ok(None), |hadoop_conf| hadoop_conf.wanted_by(object)));
    let config_maps = manifest::all(wanted)?;
    #[cfg(feature = "upload")]
    let uploads = {
        let folder = Path::new(&flags.what).parent().filter(|folder| !folder.as_os_str().is_empty());
        // A template in the cluster comes from no folder of this machine.
        let folder = flags.from.is_none().then(|| folder.unwrap_or(Path::new(".")));
        upload::prepare(&mut objects, &flags.upload, folder).await?
    };
    #[cfg(not(feature = "upload"))]
    let uploads = None::<()>;
    let is_alone = objects.len() == 1 && !flags.delete;
    if !is_alone || uploads.is_some() || config_maps.iter().any(Option::is_some) {
        try_out(cluster, flags, &objects).await?;
    }
    let mut taken = BTreeSet::new();
    for (object, config_map) in objects.iter().zip(&config_maps) {
        if let Some(config_map) = config_map {
            if !taken.insert((object.namespace(), &config_map.name)) {
                bail!(
                    "{}: two objects would have the ConfigMap {}: rename one",
                    manifest::title(object),
                    config_map.name
                );
            }
            config_map.check(&place(cluster, object).0, object).await?;
        }
    }
    #[cfg(feature = "upload")]
    if let Some(uploads) = uploads {
        uploads.carry_out().await?;
    }
    let mut applications = Vec::new();
    for (object, config_map) in objects.iter().zip(config_maps) {
        let (place, api) = place(cluster, object);
        let name = object.name_any();
        if flags.delete && !name.is_empty() && is_application(object) {
            make_room(&place, &name).await?;
        }
        if let Some(config_map) = &config_map {
            config_map.make(&place).await?;
        }
        let made = post(&api, &PostParams::default(), object).await.map_err(of_call)?;
        if let Some(config_map) = &config_map {
            config_map.leave_to(&place, &made).await;
        }
        print(&format!("{} \"{}\" created\n", manifest::kind(object), made.name_any()))?;
        if is_application(object) {
            applications.push((place, made.name_any()));
        }
    }
    if flags.logs {
        for (place, name) in applications {
            log::of_driver(&place, Whose::Application(&name), &How::to_the_end()).await?;
            wait::ended_well(&place, &name).await?;
        }
    }
    Ok(())
}

/// Checks by a dry run that the API server accepts `objects`, so that a refusal is reported before anything is
/// uploaded, deleted or created. An application that exists already is no error if it will be deleted first (--delete).
async fn try_out(cluster: &Cluster, flags: &Flags, objects: &[DynamicObject]) -> anyhow::Result<()> {
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    for object in objects {
        let is_deleted_first = flags.delete && is_application(object);
        match post(&place(cluster, object).1, &parameters, object).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() && is_deleted_first => {}
            tried => drop(tried.map_err(of_call)?),
        }
    }
    Ok(())
}

/// Creates an object with strict field validation, as kubectl does: the API server refuses unknown fields instead of
/// dropping them.
async fn post(
    api: &Api<DynamicObject>,
    parameters: &PostParams,
    object: &DynamicObject,
) -> kube::Result<DynamicObject> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let mut request =
        Request::new(api.resource_url()).create(parameters, body).map_err(kube::Error::BuildRequest)?;
    let join = if request.uri().query().is_some() { "&" } else { "?" };
    let uri = format!("{}{join}fieldValidation=Strict", request.uri());
    *request.uri_mut() = uri.parse().map_err(|error| kube::Error::HttpError(Into::into(error)))?;
    api.clone().into_client().request(request).await
}

/// Returns the cluster with the namespace of `object`, and the API for the objects of its kind in that namespace.
fn place(cluster: &Cluster, object: &DynamicObject) -> (Cluster, Api<DynamicObject>) {
    let place = cluster.at(object.own_namespace().to_owned());
    let api = if is_application(object) {
        place.whole::<SparkApplication>()
    } else if manifest::kind(object) == SparkConnect::kind(&()) {
        place.whole::<SparkConnect>()
    } else {
        place.whole::<ScheduledSparkApplication>()
    };
    (place, api)
}

fn is_application(object: &DynamicObject) -> bool {
    manifest::kind(object) == SparkApplication::kind(&())
}

/// Reads the objects of a manifest, and adds the namespace where it is missing. Fails if any object has a mistake.
fn of_file(cluster: &Cluster, file: &Path, namespace: Option<&str>) -> anyhow::Result<Vec<DynamicObject>> {
    let found = manifest::of_file(file, namespace, Checks::BeforeCreation)?.into_iter();
    manifest::all(found.map(|found| {
        let found = found?;
        found.check()?;
        let mut object = found.object;
        if object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
            object["metadata"]["namespace"] = json!(cluster.namespace);
        }
        Ok(serde_json::from_value(object)?)
    }))
    .and_then(each_once)
}

/// Checks that no object is in the manifest twice.
fn each_once(objects: Vec<DynamicObject>) -> anyhow::Result<Vec<DynamicObject>> {
    let mut names = BTreeSet::new();
    for object in &objects {
        let Some(name) = &object.metadata.name else { continue };
        if !names.insert((manifest::kind(object), object.namespace(), name)) {
            bail!("{} is in the manifest twice: give one of them another name", manifest::title(object));
        }
    }
    Ok(objects)
}

/// Returns an application called `name` whose spec is the template of a schedule. The schedule owns the application, so
/// that both are deleted together; the application has neither the label nor the annotations of the schedule's own
/// runs.
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
    manifest::of_object(&object)?.check()?;
    serde_json::from_value(object).context("the schedule's template cannot be read")
}

/// Prints for each valid object in a file that it is valid. The mistakes of the other objects are the error.
pub(super) fn validate(flags: &ValidateFlags, namespace: Option<&str>) -> anyhow::Result<()> {
    let found = manifest::of_file(flags.manifest.file(), namespace, Checks::All)?.into_iter();
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
