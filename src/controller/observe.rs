//! What is there, of one application? Facts for `plan::lifecycle`; nothing is decided here.

use super::{Context, Error};
use crate::{
    api::{Role, SparkApplication},
    plan::{
        Driver, Observed, SubmissionProgress, driver,
        lifecycle::{Questions, questions},
        pod_record::PodRecord,
        run::Run,
        submission::Surroundings,
    },
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, ResourceExt};

/// Looks at everything that the next decision about `application` depends on.
///
/// # Errors
///
/// When the API server does not answer a question that the decision depends on.
pub(super) async fn observe(context: &Context, application: &SparkApplication) -> Result<Observed, Error> {
    let namespace = application.namespace().unwrap_or_default();
    let status = application.status.as_ref();
    let cached = context.pods.of(&namespace, &application.name_any());
    let recorded_name = status.and_then(|status| status.driver_info.pod_name.clone());
    let driver_name = recorded_name.unwrap_or_else(|| driver::pod_name(application));
    let asked = questions(application.state());

    let submission = context.submitter.submission(&application.uid().unwrap_or_default());
    // Nobody has to look for what is being made, or is known to be there with all that there is to know of it.
    let is_told = submission.as_ref().is_some_and(|submission| {
        let tells = matches!(
            submission.progress,
            SubmissionProgress::Running | SubmissionProgress::Succeeded { spark_application_id: Some(_) }
        );
        tells && asked.surroundings && submission.id == Run::next(application).id
    });
    let driver = match cached.get(&driver_name) {
        _ if is_told => Driver::Unseen,
        // Whether to delete or to adopt is decided on the live pod, never on a copy.
        Some(pod) if !asked.complete => Driver::Pod { pod: Box::new(pod.clone()), complete: true },
        _ if asked.driver => live_driver(context, &namespace, &driver_name, asked).await?,
        _ => Driver::Unseen,
    };
    let surroundings = match &driver {
        Driver::Gone if asked.surroundings => context.surroundings.found().await?,
        _ => Surroundings::default(),
    };
    let submission_id = status.and_then(|status| status.submission_id.as_deref()).unwrap_or_default();
    Ok(Observed {
        driver,
        executors: cached.into_values().filter(|pod| pod.is_of(Role::Executor, submission_id)).collect(),
        submission,
        surroundings,
    })
}

async fn live_driver(
    context: &Context,
    namespace: &str,
    name: &str,
    asked: Questions,
) -> Result<Driver, Error> {
    let pods = Api::<Pod>::namespaced(context.client.clone(), namespace);
    let Some(pod) = pods.get_opt(name).await.map_err(Error::api("GET of the driver pod"))? else {
        return Ok(Driver::Gone);
    };
    let pod = Box::new(PodRecord::of(&pod));
    // `spark-submit` creates the driver's ConfigMap last of all objects (Spark's
    // KubernetesClientApplication), so that where it exists, everything does.
    let complete = match &pod.driver_config_map {
        Some(config_map) if asked.complete => {
            let config_maps = Api::<ConfigMap>::namespaced(context.client.clone(), namespace);
            let found = config_maps.get_metadata_opt(config_map).await;
            found.map_err(Error::api("GET of the driver's ConfigMap"))?.is_some()
        }
        _ => true,
    };
    Ok(Driver::Pod { pod, complete })
}
