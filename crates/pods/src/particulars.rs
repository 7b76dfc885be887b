//! Labels, annotations, roles and gates that extensions put on pods and look for in the records of pods, and the mark of drivers
//! whose executors' template is written anew. Most pods have none.

use crate::pod_claim::{Amounts, PodClaim};
use api::{
    LONGEST_NAME, Role,
    names::{annotation, batch_scheduler, role},
};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde::Deserialize;

/// The annotations of drivers.
const ANNOTATIONS: [&str; 3] = [annotation::POD_GROUP, batch_scheduler::VOLCANO_GROUP, annotation::TEMPLATE];
/// The labels of drivers.
const LABELS: [&str; 1] = [batch_scheduler::COSCHEDULING_GROUP];
/// The values of the label `spark-role`, of pods that Spark does not know.
const ROLES: [&str; 1] = [role::PLACEHOLDER];
/// The scheduling gates.
const GATES: [&str; 1] = [batch_scheduler::GATE];

/// The particulars of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Particulars {
    /// Keys and values of a driver's labels and annotations.
    pub marks: Box<[(String, String)]>,
    /// The value of the label `spark-role` of a pod that is neither driver, executor nor submission pod; none if only the
    /// metadata of the pod is known.
    pub role: Option<String>,
    pub placement: Option<Placement>,
}

/// The place of a pod in the cluster. Known of a pod that Spark does not know, of one that has a gate of an extension, and
/// of one that has lost such a gate, is nominated and not placed yet; of no other pod, because the scheduler nominates every
/// pod whose volumes it waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Placement {
    /// The node on which the kubelet has accepted the pod. Before that, a client can write any node into it: until then
    /// none.
    pub node: Option<String>,
    /// The node to which the pod is nominated.
    pub nominated: Option<String>,
    /// The gate of an extension that still keeps the pod from being placed.
    pub gate: Option<String>,
    /// Whether the pod has gates of others, too.
    pub has_other_gates: bool,
    /// What the pod asks for, by the name of the resource, in thousandths of a unit; empty once the gate is gone.
    pub requests: Amounts,
}

impl Particulars {
    /// Returns what `pod` has; none if that is nothing.
    pub(crate) fn of(pod: &Pod, role: Option<Role>, spark_role: Option<&str>) -> Option<Self> {
        let annotations = ANNOTATIONS.map(|key| pod.metadata.annotations.as_ref()?.get_key_value(key));
        let labels = LABELS.map(|key| pod.metadata.labels.as_ref()?.get_key_value(key));
        let marks = annotations.into_iter().chain(labels).flatten().filter(|_| role == Some(Role::Driver));
        // The API server limits only labels.
        let marks = marks.filter(|(_, value)| value.len() <= LONGEST_NAME);
        let marks: Box<[_]> = marks.map(|(key, value)| (key.clone(), value.clone())).collect();
        let spec = pod.spec.as_ref();
        let role = spec.and(spark_role).filter(|role| ROLES.contains(role)).map(str::to_owned);
        let placement = spec.and_then(|spec| Placement::of(pod, spec, role.is_some()));
        (!marks.is_empty() || placement.is_some()).then_some(Self { marks, role, placement })
    }
}

impl Placement {
    fn of(Pod { metadata, status, .. }: &Pod, spec: &PodSpec, is_of_extension: bool) -> Option<Self> {
        let status = status.as_ref();
        let gates = || spec.scheduling_gates.iter().flatten().map(|gate| &gate.name);
        let gate = gates().find(|gate| GATES.contains(&gate.as_str()));
        let nominated = status.and_then(|status| status.nominated_node_name.as_ref());
        let was_gated = || metadata.annotations.as_ref()?.get(annotation::SCHEDULING_GATE);
        let is_tried = nominated.is_some() && spec.node_name.is_none() && was_gated().is_some();
        // The kubelet writes the time.
        let is_accepted = status.is_some_and(|status| status.start_time.is_some());
        let holds_room = is_of_extension || gate.is_some();
        (holds_room || is_tried).then(|| Self {
            node: spec.node_name.clone().filter(|_| is_accepted),
            nominated: nominated.cloned(),
            gate: gate.cloned(),
            has_other_gates: gates().any(|gate| !GATES.contains(&gate.as_str())),
            requests: if holds_room { PodClaim::requests_of(spec) } else { Amounts::new() },
        })
    }
}
