//! Asks the API server whether it would accept the executors of a run or of a server: see [`plan::executor_trial`].

use super::{Context, calls::Calls};
use api::SparkApplication;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
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
    let tried = context.source.memory.with(&uid, |note| note.executors_tried.clone());
    let tried = tried.filter(|(driver_uid, _)| *driver_uid == driver.uid).map(|(_, at)| at);
    if !context.setup.policy.tries_executors || !is_due(application, driver, tried, now) {
        return None;
    }
    context.source.memory.with(&uid, |note| note.executors_tried = Some((driver.uid.clone(), now)));
    let defaults = context.setup.submission_environment.defaults().await.ok()?;
    let executor = executor(application, driver, &defaults, &context.setup.policy)?;
    let namespace = application.namespace().unwrap_or_default();
    answered(&context.source.cluster.client, &namespace, &executor).await
}

/// Tries this executor. Returns nothing if the answer says nothing about it.
pub(super) async fn answered(client: &Client, namespace: &str, executor: &Value) -> Option<Trial> {
    let pods = Calls::of::<Pod>(client, namespace);
    match timeout(PATIENCE, pods.dry_run(executor.to_string())).await {
        Ok(Ok(())) => Some(Trial::Accepted),
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
