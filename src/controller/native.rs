//! How are the objects of a native submission made? By plain creation, what belongs to the driver first and the
//! driver's pod last, so that no pod ever waits for what is not there. Each can be repeated: the names follow
//! from the run.

use super::submitter::Error;
use crate::{
    api::names::label,
    plan::native::{Child, Objects},
};
use k8s_openapi::api::{
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service},
    networking::v1::NetworkPolicy,
};
use kube::{
    Client, Resource, ResourceExt,
    api::{DeleteParams, PostParams},
    core::{PartialObjectMeta, Request},
};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

/// How long an API server may fail by itself, or for another's webhook, before a submission does.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after a failure; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

type Metadata = PartialObjectMeta<Pod>;

/// Creates `objects` in `namespace` for the application with the uid `owner`.
///
/// # Errors
///
/// When the API server refuses one of them, or it is somebody else's. What was made before stays.
pub(super) async fn create(
    client: &Client,
    namespace: &str,
    owner: &str,
    objects: &Objects,
) -> Result<(), Error> {
    // The ConfigMap, which every run has, comes first: whoever finds it knows that there may be more.
    for child in objects.children.iter().rev() {
        match post(client, namespace, child).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                check_ours(client, namespace, owner, child).await?;
            }
            made => made.map_err(|error| failed("create", child, &error))?,
        }
    }
    match post(client, namespace, &objects.pod).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Err(Error::DriverExists),
        made => made.map_err(|error| failed("create", &objects.pod, &error)),
    }
}

/// Deletes children of a run; what is gone already is as good.
pub(super) async fn delete(client: &Client, namespace: &str, children: &[Child]) -> Result<(), kube::Error> {
    for Child { kind, name } in children {
        let request = Request::new(path(kind, namespace)).delete(name, &DeleteParams::default());
        let request = request.map_err(kube::Error::BuildRequest)?;
        match client.request_text(request).await {
            Ok(_) => debug!(kind, name, "deleted"),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Creates one object. Tries again where the API server could not do it, for as long as it does not answer at
/// all: an application does not fail for that.
async fn post(client: &Client, namespace: &str, object: &Value) -> Result<(), kube::Error> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let path = path(object["kind"].as_str().unwrap_or_default(), namespace);
    let (begun, mut pause) = (Instant::now(), PAUSE);
    loop {
        let request = Request::new(&*path).create(&PostParams::default(), body.clone());
        let error = match client.request_text(request.map_err(kube::Error::BuildRequest)?).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let is_worth_a_try = match &error {
            kube::Error::Api(status) => match status.code {
                429 | 502..=504 => true,
                // A quota that is being changed is a conflict, a webhook that cannot be called an error of
                // the server's.
                409 | 500 => !status.is_already_exists() && begun.elapsed() < PATIENCE,
                _ => false,
            },
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => true,
            _ => false,
        };
        if !is_worth_a_try {
            return Err(error);
        }
        warn!(%error, path, "tried again");
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// An object that was there already must have been made by an earlier try of the same run; a claim may be
/// anybody's, and is used as it is.
async fn check_ours(client: &Client, namespace: &str, owner: &str, child: &Value) -> Result<(), Error> {
    let Some(Child { kind, name }) = Child::of(child) else { return Ok(()) };
    if kind == "PersistentVolumeClaim" {
        return Ok(());
    }
    let request = Request::new(path(&kind, namespace)).get_metadata(&name, &Default::default());
    let request = request.map_err(|error| failed("read", child, &kube::Error::BuildRequest(error)))?;
    let there: Metadata = client.request(request).await.map_err(|error| failed("read", child, &error))?;
    let run = child["metadata"]["labels"][label::SUBMISSION_ID].as_str();
    let is_of_run = there.labels().get(label::SUBMISSION_ID).map(String::as_str) == run;
    if is_of_run && there.owner_references().iter().any(|reference| reference.uid == owner) {
        return Ok(());
    }
    Err(Error::Failed(format!("{kind} {name} already exists and is not this application's: delete it")))
}

/// In words for the user: what was to be made, and the API server's own.
fn failed(what: &str, object: &Value, error: &kube::Error) -> Error {
    let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
    let (kind, name) = (kind.as_str().unwrap_or_default(), name.as_str().unwrap_or_default());
    let why = match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    };
    Error::Failed(format!("failed to {what} {kind} {name}: {why}"))
}

fn path(kind: &str, namespace: &str) -> String {
    let namespace = Some(namespace);
    match kind {
        "ConfigMap" => ConfigMap::url_path(&(), namespace),
        "Service" => Service::url_path(&(), namespace),
        "Secret" => Secret::url_path(&(), namespace),
        "PersistentVolumeClaim" => PersistentVolumeClaim::url_path(&(), namespace),
        "NetworkPolicy" => NetworkPolicy::url_path(&(), namespace),
        _ => Pod::url_path(&(), namespace),
    }
}
