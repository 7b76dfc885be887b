//! Volcano: one PodGroup for each application, which all of its pods name in an annotation.

use super::{GroupApi, canonical, for_roles, quantities};
use api::{SparkApplication, names::batch_scheduler, stated};
use plan::pod_requests::PodRequests;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns the name of the PodGroup, which is that of Kubeflow's operator.
pub(super) fn name(application: &SparkApplication) -> String {
    format!("spark-{}-pg", application.metadata.name.as_deref().unwrap_or_default())
}

/// Puts the pods of `application` into their PodGroup, and returns the PodGroup.
///
/// `minMember` is 1, because the driver starts before its executors exist. Volcano lets the group in once the cluster and
/// the queue have room for `minResources`, which includes the executors.
pub(super) fn group(application: &mut SparkApplication, requests: &PodRequests) -> Value {
    let name = name(application);
    for_roles(application, |_, pod| {
        pod.annotations.insert(batch_scheduler::VOLCANO_GROUP.to_owned(), name.clone());
    });
    let options = application.spec.batch_scheduler_options.clone().unwrap_or_default();
    let stated_resources = options.resources.iter();
    let mut resources: BTreeMap<_, _> =
        stated_resources.map(|(name, quantity)| (name.clone(), canonical(&quantity.0))).collect();
    if resources.is_empty() {
        resources = quantities(&requests.initial_sum());
    }
    let mut spec = json!({"minMember": 1, "minResources": resources});
    for (field, value) in [("queue", &options.queue), ("priorityClassName", &options.priority_class_name)] {
        if let Some(value) = stated(value) {
            spec[field] = value.as_str().into();
        }
    }
    GroupApi::Volcano.group(&name, &spec)
}
