//! YuniKorn: two task groups in annotations of the driver. Before YuniKorn places the driver, it places its own placeholder
//! pods for the groups, and replaces these by driver and executors as they are created.

use super::{for_roles, quantities};
use api::{Role, SparkApplication, batch_scheduler, quantity, stated};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A task group, with the fields and in the order of Kubeflow's operator.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskGroup<'a> {
    name: String,
    min_member: u32,
    min_resource: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_empty")]
    node_selector: &'a Value,
    #[serde(skip_serializing_if = "is_empty")]
    tolerations: &'a Value,
    #[serde(skip_serializing_if = "is_empty")]
    affinity: &'a Value,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
}

/// Writes the task groups and the queue into the annotations and labels of the pods of `application`.
pub(super) fn group(application: &mut SparkApplication, requests: &plan::pod_requests::PodRequests) {
    const MIB: i128 = 1000 << 20;
    let options = application.spec.batch_scheduler_options.clone().unwrap_or_default();
    let labelled = Role::ALL.map(|role| !role.pod(&application.spec).labels.is_empty());
    if let Some(queue) = &options.queue {
        for_roles(application, |_, pod| {
            pod.labels.insert(batch_scheduler::YUNIKORN_QUEUE.to_owned(), queue.clone());
        });
    }
    let task_group = |role: Role| format!("spark-{}", role.as_str());
    let mut groups = Vec::new();
    let nothing = BTreeMap::new();
    let roles = [(Role::Driver, &requests.driver, 1), (Role::Executor, &requests.executor, requests.initial)];
    for ((role, planned, number), is_labelled) in roles.into_iter().zip(labelled) {
        // YuniKorn refuses a group of no members.
        if number == 0 {
            continue;
        }
        let pod = role.pod(&application.spec);
        // Memory is written in MiB, and the CPU as the user has written it if no other container requests any, as Kubeflow's
        // operator does.
        let mut resources = quantities(planned.claim.requests());
        let amount = |name: &str| planned.claim.requests().get(name).copied().unwrap_or(0);
        let is_all = |text: &&String| quantity::amount(text) == Some(amount("cpu"));
        if let Some(text) = stated(&pod.core_request).filter(is_all) {
            resources.insert("cpu".to_owned(), text.clone());
        }
        if amount("memory") % MIB == 0 {
            resources.insert("memory".to_owned(), format!("{}Mi", amount("memory") / MIB));
        }
        groups.push(TaskGroup {
            name: task_group(role),
            min_member: number,
            min_resource: resources,
            node_selector: &planned.spec["nodeSelector"],
            tolerations: &planned.spec["tolerations"],
            affinity: &planned.spec["affinity"],
            // As in Kubeflow's operator, the group has the label of the queue only if the user has set other labels.
            labels: if is_labelled { &pod.labels } else { &nothing },
        });
    }
    let groups = serde_json::to_string(&groups).expect("the groups are JSON");
    for_roles(application, |role, pod| {
        pod.annotations.insert(batch_scheduler::YUNIKORN_TASK_GROUP.to_owned(), task_group(role));
        if role == Role::Driver {
            pod.annotations.insert(batch_scheduler::YUNIKORN_TASK_GROUPS.to_owned(), groups.clone());
        }
    });
}

fn is_empty(value: &Value) -> bool {
    [Value::Null, json!([]), json!({})].contains(value)
}
