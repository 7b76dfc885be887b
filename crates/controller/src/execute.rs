//! Carries out the actions of a plan without any decision of its own. Each action can be repeated, and an action that
//! was done before counts as a success.

use super::{
    Context, Error,
    calls::{self, Calls},
    objects::{self, Encoded, InFlight, Maker},
};
use api::{
    Identity, ObjectKey, SparkApplication,
    names::{annotation, finalizer},
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Patch, Preconditions},
    core::Status,
};
use plan::{Action, PodPatch, events};
use serde_json::{Value, json};
use std::{ops::ControlFlow, time::Duration};
use submission::executor_template::ExecutorTemplate;
use tokio::time::timeout;
use tracing::{info, warn};

/// The maximum number of children that are deleted in one turn, so that other applications do not wait for one that has
/// a thousand.
const CHILDREN: usize = 64;

/// Carries out an action, or as much of it as fits into one turn. Breaks if the rest, and the steps that follow the
/// action, are left to the next turn of the application.
pub(super) async fn execute(
    context: &Context,
    application: &SparkApplication,
    action: Action,
) -> Result<ControlFlow<()>, Error> {
    let namespace = application.own_namespace();
    let uid = application.own_uid();
    match action {
        Action::Submit(request) => context.submitter.start(&context.background, application, *request),
        Action::StopSubmission => context.submitter.stop_one(uid),
        Action::Make(objects) => {
            let run = run_of(application);
            if make(context, application, objects.into_iter(), events::RUNS_ON).await {
                context.source.memory.with(uid, |note| note.made_for = Some(run));
            }
        }
        Action::MakeCopies { copies, numbers } => {
            let missing = numbers.into_iter().map(|number| copies.with_number(number));
            make(context, application, missing, copies.meanwhile).await;
        }
        Action::DeleteChildren(mut children) => {
            context.source.memory.with(uid, |note| children.retain(|child| !note.deleted.contains(child)));
            let is_all = children.len() <= CHILDREN;
            children.truncate(CHILDREN);
            let deleted = objects::delete(&context.source.cluster.client, namespace, uid, &children).await;
            deleted.map_err(Error::api("DELETE of an object of a driver"))?;
            if !is_all {
                context.source.memory.with(uid, |note| note.deleted.extend(children));
                return Ok(ControlFlow::Break(()));
            }
        }
        Action::RenewTemplate { template, driver, uid } => {
            renew(context, application, &template, &driver, &uid).await;
        }
        Action::DeleteApplication => {
            let applications = Calls::of::<SparkApplication>(&context.source.cluster.client, namespace);
            let preconditions =
                Preconditions { uid: Some(uid.to_owned()), resource_version: application.resource_version() };
            delete(&applications, &application.name_any(), preconditions).await?;
            info!("deleted: its time to live is over");
        }
        action @ (Action::DeletePod { .. } | Action::PatchPod { .. } | Action::ProtectDriver { .. }) => {
            let cluster = &context.source.cluster;
            let is_deletion = matches!(action, Action::DeletePod { .. });
            let done = about_pods(&cluster.client, namespace, action).await;
            if let Err(Error::Api { what, source }) = &done
                && let kube::Error::Api(status) = &**source
                && is_deletion
                && objects::is_refused(status)
            {
                let why = format!("{what} failed: {}", status.message);
                let event = events::not_made(why, "the application waits");
                cluster.send_event(application, &run_of(application), &event, super::now()).await;
            }
            done?;
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Carries out an action about pods, even if their application does not exist any more. Ignores all other actions.
pub(super) async fn about_pods(client: &Client, namespace: &str, action: Action) -> Result<(), Error> {
    let pods = Calls::of::<Pod>(client, namespace);
    let (what, done) = match &action {
        Action::DeletePod { name, uid } => {
            let deleted = pods.delete(name, &calls::only(Some(uid.clone()))).await;
            ("DELETE of a pod", deleted.map(|()| info!(pod = name, "pod deleted")))
        }
        Action::ProtectDriver { name, uid, protect } => {
            // A strategic merge patch adds to the list, or deletes from it: finalizers of other programs are kept.
            let field = if *protect { "finalizers" } else { "$deleteFromPrimitiveList/finalizers" };
            let patch = json!({"metadata": {"uid": uid, field: [finalizer::DRIVER_OUTCOME]}});
            ("PATCH of the driver pod's finalizers", pods.patch(name, &Patch::Strategic(patch)).await)
        }
        Action::PatchPod { name, uid, patch } => {
            let only = |patch: &Value| {
                let mut patch = patch.clone();
                patch["metadata"]["uid"] = uid.as_str().into();
                patch
            };
            let done = match patch {
                PodPatch::Spec(patch) => pods.patch(name, &Patch::Strategic(only(patch))).await,
                PodPatch::Status(patch) => pods.patch_status(name, only(patch)).await.map(drop),
            };
            ("PATCH of a pod", done)
        }
        _ => return Ok(()),
    };
    match done {
        Err(kube::Error::Api(status))
            if status.is_forbidden()
                && matches!(action, Action::PatchPod { patch: PodPatch::Status(_), .. }) =>
        {
            warn!(%status, "the status of a pod is not changed");
            Ok(())
        }
        Err(kube::Error::Api(status))
            if matches!(action, Action::ProtectDriver { .. }) && is_too_late(&status) =>
        {
            Ok(())
        }
        done => calls::done_or_gone(done).map_err(Error::api(what)),
    }
}

/// Whether finalizers cannot be changed because another pod has the name by now (no patch can change the uid), or
/// because the pod is being deleted (no finalizer can be added any more).
fn is_too_late(refusal: &Status) -> bool {
    let mut causes = refusal.details.iter().flat_map(|details| &details.causes);
    refusal.is_invalid()
        && causes.any(|cause| ["metadata.uid", "metadata.finalizers"].contains(&&*cause.field))
}

/// Creates objects. After the first failure, reports it to the user by an event, which says what the application does
/// `meanwhile`, and skips the remaining objects. Returns whether all objects exist.
async fn make(
    context: &Context,
    application: &SparkApplication,
    objects: impl Iterator<Item = Value>,
    meanwhile: &str,
) -> bool {
    /// The timeout of the creation of one object. The next reconcile retries.
    const PATIENCE: Duration = Duration::from_secs(5);
    let namespace = application.own_namespace();
    let uid = application.own_uid();
    let maker = Maker {
        client: &context.source.cluster.client,
        namespace,
        owner: uid,
        extensions: &context.setup.policy.extensions,
        pod: None,
        in_flight: &InFlight::default(),
    };
    for object in objects {
        let why = match timeout(PATIENCE, maker.make(&Encoded::of(&object))).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(_) => {
                let object = ObjectKey::of(&object).unwrap_or_default();
                format!("failed to create {object}: the API server does not answer")
            }
        };
        warn!(why, "an object was not created");
        let event = events::not_made(&why, meanwhile);
        context.source.cluster.send_event(application, &run_of(application), &event, super::now()).await;
        return false;
    }
    true
}

/// Brings the executors' template of a driver up to date. Reports a failure to the user.
async fn renew(
    context: &Context,
    application: &SparkApplication,
    template: &ExecutorTemplate,
    driver: &str,
    uid: &str,
) {
    let cluster = &context.source.cluster;
    let namespace = application.own_namespace();
    let Err(error) = renewed(&cluster.client, namespace, template, driver, uid).await else { return };
    let why =
        format!("failed to write ConfigMap {}, the template of executors: {error}", template.config_map);
    warn!(why, "the template of executors was not updated");
    let event = events::not_made(&why, events::RUNS_ON);
    cluster.send_event(application, &run_of(application), &event, super::now()).await;
}

/// Writes the executors' template into its ConfigMap, and then its fingerprint into an annotation of the driver: a
/// change of the pod makes the kubelet update the mounted ConfigMap at once. Before the write the annotation is
/// emptied, so that the template is written again after a failure in between, even if an edit brings back the former
/// template.
async fn renewed(
    client: &Client,
    namespace: &str,
    template: &ExecutorTemplate,
    driver: &str,
    uid: &str,
) -> Result<(), kube::Error> {
    let (pods, config_maps) =
        (Calls::of::<Pod>(client, namespace), Calls::of::<ConfigMap>(client, namespace));
    let mark = |mark: &str| json!({"metadata": {"uid": uid, "annotations": {annotation::TEMPLATE: mark}}});
    pods.patch(driver, &Patch::Merge(mark(""))).await?;
    config_maps.patch(&template.config_map, &Patch::Merge(template.patch())).await?;
    pods.patch(driver, &Patch::Merge(mark(&template.fingerprint()))).await
}

/// Returns the id of the recorded run.
fn run_of(application: &SparkApplication) -> String {
    application.status.as_ref().and_then(|status| status.submission_id.clone()).unwrap_or_default()
}

/// Deletes an object if `preconditions` hold. An object that is gone counts as deleted.
///
/// # Errors
///
/// [`Error::Conflict`] if `preconditions` do not hold any more.
pub(super) async fn delete(
    objects: &Calls<'_>,
    name: &str,
    preconditions: Preconditions,
) -> Result<(), Error> {
    match objects.delete(name, &DeleteParams::default().preconditions(preconditions)).await {
        Ok(()) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(kube::Error::Api(status)) if status.is_conflict() => Err(Error::Conflict),
        Err(error) => Err(Error::api("DELETE with preconditions")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::api_server;
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// In an earlier version, an edit back to the former template left the executors with the template of an edit whose
    /// write had failed in between.
    #[tokio::test]
    async fn a_driver_names_no_template_while_its_config_map_may_have_another() {
        let template =
            |text: &str| ExecutorTemplate { config_map: "pi-conf".to_owned(), text: text.to_owned() };
        let [former, edited] = ["former", "edited"].map(template);
        for allowed in 0..=3 {
            let stored = Arc::new(Mutex::new((former.fingerprint(), former.text.clone(), 0)));
            let objects = Arc::clone(&stored);
            let client = api_server(move |request| {
                let objects = Arc::clone(&objects);
                async move {
                    let body = request.into_body().collect_bytes().await.unwrap();
                    let patch: Value = serde_json::from_slice(&body).unwrap();
                    let (mark, text, asked) = &mut *objects.lock();
                    *asked += 1;
                    if *asked > allowed {
                        return (403, json!({"kind": "Status", "reason": "Forbidden", "code": 403}));
                    }
                    if let Some(new) = patch["metadata"]["annotations"][annotation::TEMPLATE].as_str() {
                        *mark = new.to_owned();
                    }
                    if let Some(new) = patch["data"][spark_client::TEMPLATE_KEY].as_str() {
                        *text = new.to_owned();
                    }
                    (200, json!({"metadata": {}}))
                }
            });
            let done = renewed(&client, "ours", &edited, "pi-driver", "u").await;
            let (mark, text, _) = stored.lock().clone();
            assert_eq!((done.is_ok(), mark == edited.fingerprint()), (allowed == 3, allowed == 3));
            assert!(mark.is_empty() || mark == template(&text).fingerprint(), "{allowed}: {mark} of {text}");
        }
    }
}
