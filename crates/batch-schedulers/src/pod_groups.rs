//! The PodGroups of Volcano and of the coscheduling plugin of scheduler-plugins: one for each application. All of its pods name
//! it, those of Volcano in an annotation and those of the plugin in a label.
//!
//! `minMember` is 1, because the driver starts before its executors exist. The scheduler admits the group once the cluster,
//! and the queue of Volcano, have room for `minResources`, which includes the executors.

use super::{COSCHEDULING, VOLCANO, canonical, for_roles, quantities};
use api::{Identity, LONGEST_LABEL, ObjectKind, SparkApplication, batch_scheduler, stated, without_nulls};
use plan::pod_requests::PodRequests;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns the name of Volcano's PodGroup of the application with this name, which is that of Kubeflow's operator.
pub(super) fn volcano_name(application: &str) -> String {
    format!("spark-{application}-pg")
}

/// Returns the name of the plugin's PodGroup of the application with this name, which is that of Kubeflow's operator.
pub(super) fn coscheduling_name(application: &str) -> String {
    format!("{application}-pg")
}

/// Puts the pods of `application` into their PodGroup of Volcano, and returns the PodGroup.
pub(super) fn volcano(application: &mut SparkApplication, requests: &PodRequests) -> Value {
    let name = volcano_name(application.own_name());
    for_roles(application, |_, pod| {
        pod.annotations.insert(batch_scheduler::VOLCANO_GROUP.to_owned(), name.clone());
    });
    let options = application.spec.batch_scheduler_options.clone().unwrap_or_default();
    let given = options.resources.iter().map(|(name, quantity)| (name.clone(), canonical(&quantity.0)));
    let mut resources: BTreeMap<_, _> = given.collect();
    if resources.is_empty() {
        resources = quantities(&requests.sum(requests.initial));
    }
    let (queue, class) = (stated(&options.queue), stated(&options.priority_class_name));
    let spec = json!({"minMember": 1, "minResources": resources, "queue": queue, "priorityClassName": class});
    group(&VOLCANO, &name, &without_nulls(spec))
}

/// Puts the pods of `application` into their PodGroup of the plugin, and returns the PodGroup.
///
/// # Errors
///
/// When the name of the PodGroup is too long for a label.
pub(super) fn coscheduling(
    application: &mut SparkApplication,
    requests: &PodRequests,
) -> Result<Value, String> {
    let name = coscheduling_name(application.own_name());
    if name.len() > LONGEST_LABEL {
        let (label, longest) = (batch_scheduler::COSCHEDULING_GROUP, LONGEST_LABEL - "-pg".len());
        return Err(format!(
            "metadata.name: the pods would have the label {label}={name}, and a label has at most {LONGEST_LABEL} characters: take \
             a name of at most {longest} characters"
        ));
    }
    for_roles(application, |_, pod| {
        pod.labels.insert(batch_scheduler::COSCHEDULING_GROUP.to_owned(), name.clone());
    });
    let resources = quantities(&requests.sum(requests.initial));
    Ok(group(&COSCHEDULING, &name, &json!({"minMember": 1, "minResources": resources})))
}

fn group(ObjectKind { api_version, kind }: &ObjectKind, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}
