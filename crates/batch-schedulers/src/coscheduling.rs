//! The coscheduling plugin of scheduler-plugins: one PodGroup for each application, which all of its pods name in a
//! label.

use super::{GroupApi, for_roles, quantities};
use api::{LONGEST_LABEL, SparkApplication, names::batch_scheduler};
use plan::pod_requests::PodRequests;
use serde_json::{Value, json};

/// Returns the name of the PodGroup, which is that of Kubeflow's operator.
pub(super) fn name(application: &SparkApplication) -> String {
    name_of(application.metadata.name.as_deref().unwrap_or_default())
}

/// Returns the name of the PodGroup of the application with this name.
pub(super) fn name_of(application: &str) -> String {
    format!("{application}-pg")
}

/// Puts the pods of `application` into their PodGroup, and returns the PodGroup.
///
/// `minMember` is 1, because the driver starts before its executors exist. The plugin lets the group in once the cluster
/// has room for `minResources`, which includes the executors.
///
/// # Errors
///
/// When the name of the PodGroup is too long for a label.
pub(super) fn group(application: &mut SparkApplication, requests: &PodRequests) -> Result<Value, String> {
    let name = name(application);
    if name.len() > LONGEST_LABEL {
        return Err(format!(
            "metadata.name: the pods would have the label {}={name}, and a label has at most {LONGEST_LABEL} characters: take a \
             name of at most {} characters",
            batch_scheduler::COSCHEDULING_GROUP,
            LONGEST_LABEL - "-pg".len()
        ));
    }
    for_roles(application, |_, pod| {
        pod.labels.insert(batch_scheduler::COSCHEDULING_GROUP.to_owned(), name.clone());
    });
    let resources = quantities(&requests.initial_sum());
    Ok(GroupApi::Coscheduling.group(&name, &json!({"minMember": 1, "minResources": resources})))
}
