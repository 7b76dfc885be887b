//! Collects the facts about one application for `plan::lifecycle`. Nothing is decided here.

use super::{
    Context, Error,
    calls::{Calls, Metadata},
    key,
    pods::KeptPod,
};
use api::{Identity, ObjectKind, Role, SparkApplication, names::label};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams, core::Request};
use plan::{
    Driver, Observed, SubmissionProgress,
    auxiliary::AskedAddresses,
    executor_trial::{Trial, answer, executor, is_due},
    lifecycle::{Questions, knows_all_pods, questions},
};
use pods::PodSummary;
use serde_json::Value;
use std::{collections::BTreeSet, ops::ControlFlow, time::Duration};
use submission::{SubmissionEnvironment, driver_pod_name, run::Run, submission_pod};
use tokio::time::timeout;
use tracing::{debug, warn};
use validation::is_object_name;

/// The timeout of one trial: a namespace may have slow webhooks of its own.
const TRIAL: Duration = Duration::from_secs(5);

/// Collects all facts on which the next decision about `application` depends.
///
/// # Errors
///
/// If the API server does not answer a question on which the decision depends, or a file of the admin's configuration
/// cannot be read.
pub(super) async fn observe(
    context: &Context,
    application: &SparkApplication,
    now: Timestamp,
) -> Result<Observed, Error> {
    let namespace = application.own_namespace();
    let uid = application.own_uid();
    let status = application.status.as_ref();
    let (mut cached, departed) = context.source.cluster.pods.of(&key(application));
    let asked = questions(application);
    let recorded_name =
        status.and_then(|status| status.driver_info.pod_name.clone()).filter(|_| !asked.launch);
    let driver_name = recorded_name.unwrap_or_else(|| driver_pod_name(application));

    let submission = context.submitter.submission(uid);
    let launching = asked.launch.then(|| Run::next(application));
    let of_next = |run: &&Run| submission.as_ref().is_some_and(|submission| submission.id == run.id);
    let progress = launching.as_ref().filter(of_next).and(submission.as_ref()).map(|known| &known.progress);
    // The API server is not asked for a driver that this process is creating now, or has created with a known Spark
    // application id.
    let is_told = matches!(
        progress,
        Some(SubmissionProgress::Running | SubmissionProgress::Succeeded { spark_application_id: Some(_) })
    );
    let others: Vec<_> = cached.values().filter(|pod| pod.other_role().is_some()).cloned().collect();
    cached.retain(|_, pod| pod.other_role().is_none());
    let mut submission_pods: Vec<_> = cached.values().filter(|pod| pod.submits).cloned().collect();
    let is_submitted =
        |run: &Run, pods: &[PodSummary]| pods.iter().any(|pod| pod.submits_for(uid, run.id.as_str()));
    if progress == Some(&SubmissionProgress::PodMade)
        && let Some(run) = launching.as_ref().filter(|run| !is_submitted(run, &submission_pods))
    {
        // The cache has not received the submission pod yet, or the pod is gone.
        let name = submission_pod::name(application, run);
        submission_pods.extend(live_pod(context, namespace, &name, "GET of the submission pod").await?);
    }
    // While a submission pod may still create a driver, the API server is not asked for the driver: the watch reports
    // it.
    let awaited = launching.as_ref().and_then(|run| {
        let mut pods = submission_pods.iter();
        let pod = pods.find(|pod| pod.submits_for(uid, run.id.as_str()));
        pod.filter(|pod| submission_pod::state(pod).may_go_on())
    });
    let is_new =
        progress.is_none() && launching.as_ref().is_some_and(|run| !is_submitted(run, &submission_pods));
    let submission_id = status.and_then(|status| status.submission_id.as_deref()).unwrap_or_default();
    let cached_driver = cached.get(&driver_name).map(|pod| pod.uid.clone());
    let driver = match cached.remove(&driver_name) {
        _ if is_told => Driver::Unseen,
        // Before a launch, the decision to delete or to adopt a pod needs the live pod, not a cached copy. During a
        // run, the submission id has to match, because the cache may still contain the driver of an earlier run.
        Some(pod) if asked.late_driver || !asked.launch && pod.is_of(Role::Driver, submission_id) => {
            Driver::Pod { pod: Box::new(pod), complete: true }
        }
        None if awaited.is_some() => Driver::Unseen,
        // A submission for which there is no room is not planned now.
        None if is_new && !context.submitter.has_room(application) => Driver::Unseen,
        _ if asked.driver => live_driver(context, namespace, &driver_name, asked).await?,
        _ => Driver::Unseen,
    };
    let submission_environment = match &driver {
        Driver::Gone if asked.launch => SubmissionEnvironment {
            served: served(context, application).await?,
            ..context.setup.submission_environment.found().await?
        },
        _ => SubmissionEnvironment::default(),
    };
    let pod = match &driver {
        Driver::Pod { pod, .. } => Some(&**pod),
        Driver::Unseen | Driver::Gone => None,
    };
    let needs_defaults =
        |pod| context.setup.policy.extensions.iter().any(|extension| extension.needs_defaults(pod));
    let defaults = if pod.is_some_and(needs_defaults) { defaults(context).await } else { None };
    let start_failure = match pod.or(awaited) {
        Some(pod) => context.source.cluster.start_failure(namespace, pod, now).await,
        None => None,
    };
    let memory = &context.source.memory;
    let (recorded, made_for, ended) =
        memory.with(uid, |note| (note.recorded, note.made_for.clone(), note.ended_driver.clone()));
    // A driver that is gone, and whose deletion the watch has not reported, may have created executors that the watch
    // has not reported either.
    let is_behind = cached_driver.is_some() && cached_driver != ended;
    let strays = match &driver {
        Driver::Gone
            if asked.strays
                && !cached.values().any(|pod| pod.is_made_for(uid))
                && (is_behind || !knows_all_pods(application, departed.as_deref(), ended.as_deref())) =>
        {
            live_pods(context, namespace, &application.name_any(), &driver_name).await?
        }
        _ if asked.strays => cached.values().cloned().collect(),
        _ => Vec::new(),
    };
    let known = pod.or(departed.as_deref()).filter(|pod| pod.is_of(Role::Driver, submission_id));
    let uid_of_driver = known.map(|pod| pod.uid.as_str());
    let is_of_run =
        |pod: &PodSummary| pod.is_of(Role::Executor, submission_id) && pod.is_executor_of(uid_of_driver);
    let executors: Vec<_> = cached.into_values().filter(is_of_run).collect();
    let executor_trial = match pod.filter(|_| executors.is_empty()) {
        Some(pod) => trial(context, application, pod, now).await,
        None => None,
    };
    let addresses = AskedAddresses::of(application, &context.setup.policy.submission.exposure);
    Ok(Observed {
        driver,
        executors,
        strays,
        submission_pods,
        others,
        // Filled in when the decision is made: see `Context::decide`.
        recalled: Vec::new(),
        departed,
        start_failure,
        executor_trial,
        recorded,
        made: made_for.as_deref() == Some(submission_id),
        auxiliary: context.source.auxiliary(application, addresses),
        submission,
        submission_environment,
        defaults,
        server_time: (context.setup.server_time)(),
    })
}

/// Returns the text of the admin's `spark-defaults.conf`; `None` if it cannot be read. The run continues without it:
/// only the objects of extensions are not repaired.
async fn defaults(context: &Context) -> Option<String> {
    let read = context.setup.submission_environment.defaults().await;
    read.inspect_err(|error| warn!(%error, "the objects of extensions are not repaired")).ok()
}

async fn live_driver(
    context: &Context,
    namespace: &str,
    name: &str,
    asked: Questions,
) -> Result<Driver, Error> {
    let Some(pod) = live_pod(context, namespace, name, "GET of the driver pod").await? else {
        return Ok(Driver::Gone);
    };
    let pod = Box::new(pod);
    // `spark-submit` creates the driver's ConfigMap as the last of all objects (Spark's KubernetesClientApplication),
    // so if this ConfigMap exists, all objects exist.
    let complete = match &pod.driver_config_map {
        Some(config_map) if asked.launch => {
            let config_maps = Calls::of::<ConfigMap>(&context.source.cluster.client, namespace);
            let found = config_maps.metadata(config_map).await;
            found.map_err(Error::api("GET of the driver's ConfigMap"))?.is_some()
        }
        _ => true,
    };
    Ok(Driver::Pod { pod, complete })
}

/// Returns a pod as the API server has it now; `None` if the pod does not exist.
async fn live_pod(
    context: &Context,
    namespace: &str,
    name: &str,
    what: &'static str,
) -> Result<Option<PodSummary>, Error> {
    if !is_object_name(name) {
        return Ok(None);
    }
    let pods = Api::<KeptPod>::namespaced(context.source.cluster.client.clone(), namespace);
    let pod = pods.get_opt(name).await.map_err(Error::api(what))?;
    Ok(pod.map(|pod| pod.kept))
}

/// Returns the records of all pods that have the application's name in their label, except the pod called `driver`. The
/// records contain only what the metadata contains.
async fn live_pods(
    context: &Context,
    namespace: &str,
    application: &str,
    driver: &str,
) -> Result<Vec<PodSummary>, Error> {
    let pods = Calls::of::<Pod>(&context.source.cluster.client, namespace);
    let ours = format!("{}={application},{}=true", label::APP_NAME, label::LAUNCHED_BY);
    let mut found = Vec::new();
    let (lists, ours) = (&context.source.cluster.lists, ListParams::default().labels(&ours));
    let listed = pods.list(lists, Request::list_metadata, ours, |pod: Metadata| {
        found.extend(Some(PodSummary::of_metadata(pod.meta())).filter(|pod| pod.name != driver));
        ControlFlow::Continue(())
    });
    listed.await.map_err(Error::api("LIST of the application's pods"))?;
    Ok(found)
}

/// Returns the kinds that the cluster serves, as far as the submission of `application` depends on them. The cluster is
/// asked each time, because an admin may have installed a kind since.
async fn served(context: &Context, application: &SparkApplication) -> Result<BTreeSet<ObjectKind>, Error> {
    let extensions = context.setup.policy.extensions.iter();
    let asked: Vec<_> = extensions.map(|extension| extension.alternatives(application)).collect();
    let mut served = BTreeSet::new();
    for alternatives in asked {
        for kind in alternatives {
            match context.source.cluster.client.list_api_group_resources(&kind.api_version).await {
                Ok(list) if list.resources.iter().any(|resource| resource.kind == kind.kind) => {
                    served.insert(kind);
                    break;
                }
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(Error::api("discovery of an API group")(error)),
            }
        }
    }
    Ok(served)
}

/// Tries an executor of the recorded run, whose driver is `driver`: see [`try_executor`]. Returns `None` if no trial is
/// due, or if the answer shows nothing about the executors.
async fn trial(
    context: &Context,
    application: &SparkApplication,
    driver: &PodSummary,
    now: Timestamp,
) -> Option<Trial> {
    let uid = application.own_uid();
    let tried = context.source.memory.with(uid, |note| note.executors_tried.clone());
    let tried = tried.filter(|(driver_uid, _)| *driver_uid == driver.uid).map(|(_, at)| at);
    if !context.setup.policy.tries_executors || !is_due(application, driver, tried, now) {
        return None;
    }
    context.source.memory.with(uid, |note| note.executors_tried = Some((driver.uid.clone(), now)));
    let defaults = context.setup.submission_environment.defaults().await.ok()?;
    let executor = executor(application, driver, &defaults, &context.setup.policy)?;
    let namespace = application.own_namespace();
    try_executor(&context.source.cluster.client, namespace, &executor).await
}

/// Asks the API server by a dry run whether it would accept this executor of a run or of a Spark Connect server: see
/// [`plan::executor_trial`]. Returns `None` if the answer shows nothing about the executor.
pub(super) async fn try_executor(client: &Client, namespace: &str, executor: &Value) -> Option<Trial> {
    let pods = Calls::of::<Pod>(client, namespace);
    match timeout(TRIAL, pods.dry_run(executor.to_string())).await {
        Ok(Ok(())) => Some(Trial::Accepted),
        Ok(Err(kube::Error::Api(status))) => {
            debug!(%status, "the API server answers the dry run of an executor with an error");
            answer(status.code, &status.reason, &status.message)
        }
        Ok(Err(error)) => {
            debug!(%error, "the dry run of an executor has failed");
            None
        }
        Err(_) => None,
    }
}
