//! The coscheduling plugin of scheduler-plugins: one PodGroup for each application, which all of its pods name in a
//! label.

use super::{GroupApi, for_roles, quantities};
use crate::pod_requests::PodRequests;
use api::{SparkApplication, names::batch_scheduler};
use serde_json::{Value, json};

/// Returns the name of the PodGroup, which is that of Kubeflow's operator.
pub(super) fn name(application: &SparkApplication) -> String {
    format!("{}-pg", application.metadata.name.as_deref().unwrap_or_default())
}

/// Puts the pods of `application` into their PodGroup, and returns the PodGroup.
///
/// `minMember` is 1: the driver creates its executors, so that it has to start alone. The plugin lets the group in once
/// the cluster has room for `minResources`, which includes the executors.
pub(super) fn group(application: &mut SparkApplication, requests: &PodRequests) -> Value {
    let name = name(application);
    for_roles(application, |_, pod| {
        pod.labels.insert(batch_scheduler::COSCHEDULING_GROUP.to_owned(), name.clone());
    });
    let resources = quantities(&requests.initial_sum());
    GroupApi::Coscheduling.group(&name, &json!({"minMember": 1, "minResources": resources}))
}
