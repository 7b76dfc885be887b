//! Asks the API server whether it would accept the executors of a run or of a server: see [`plan::executor_trial`].

use super::{Context, calls};
use api::SparkApplication;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, Resource, ResourceExt, api::PostParams, core::Request};
use plan::executor_trial::{Trial, answer, executor, is_due};
use pods::PodSummary;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;
use tracing::debug;

/// The longest time that one trial may take: a namespace may have slow webhooks of its own.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tries the executors of the recorded run, whose driver this is. Returns nothing if they are not to be tried now, or the
/// answer says nothing about them.
pub(super) async fn trial(
    context: &Context,
    application: &SparkApplication,
    driver: &PodSummary,
    now: Timestamp,
) -> Option<Trial> {
    let uid = application.uid().unwrap_or_default();
    let tried = context.memory.with(&uid, |note| note.executors_tried.clone());
    let tried = tried.filter(|(driver_uid, _)| *driver_uid == driver.uid).map(|(_, at)| at);
    if !context.policy.tries_executors || !is_due(application, driver, tried, now) {
        return None;
    }
    context.memory.with(&uid, |note| note.executors_tried = Some((driver.uid.clone(), now)));
    let defaults = context.submission_environment.defaults().await.ok()?;
    let executor = executor(application, driver, &defaults, &context.policy)?;
    answered(&context.cluster.client, application.namespace().as_deref(), &executor).await
}

/// Tries this executor. Returns nothing if the answer says nothing about it.
pub(super) async fn answered(client: &Client, namespace: Option<&str>, executor: &Value) -> Option<Trial> {
    let keep_nothing = PostParams { dry_run: true, ..PostParams::default() };
    let path = Pod::url_path(&(), namespace);
    let request = Request::new(path).create(&keep_nothing, executor.to_string().into_bytes());
    match timeout(PATIENCE, calls::send(client, request)).await {
        Ok(Ok(_)) => Some(Trial::Accepted),
        Ok(Err(kube::Error::Api(status))) => {
            debug!(%status, "the executors as a dry run");
            answer(status.code, &status.reason, &status.message)
        }
        Ok(Err(error)) => {
            debug!(%error, "the executors were not tried");
            None
        }
        Err(_) => None,
    }
}
