//! Records what extensions set on pods and read from the records of pods (labels, annotations, roles and scheduling
//! gates), and the annotation of drivers whose executors' pod template is updated after edits. Most pods have none of
//! these.

use crate::pod_claim::{Amounts, PodClaim};
use api::{
    LONGEST_NAME, Role,
    names::{annotation, batch_scheduler, role},
};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde::Deserialize;

/// The recorded annotations of drivers.
const ANNOTATIONS: [&str; 3] = [annotation::POD_GROUP, batch_scheduler::VOLCANO_GROUP, annotation::TEMPLATE];
/// The recorded labels of drivers.
const LABELS: [&str; 1] = [batch_scheduler::COSCHEDULING_GROUP];
/// The values of the label `spark-role` of pods that extensions create.
const ROLES: [&str; 1] = [role::PLACEHOLDER];
/// The scheduling gates of extensions.
const GATES: [&str; 1] = [batch_scheduler::GATE];

/// What extensions have set on a pod, and the placement of the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Particulars {
    /// The keys and values of a driver's recorded labels and annotations.
    pub marks: Box<[(String, String)]>,
    /// The value of the label `spark-role` of a pod that an extension has created; `None` for any other pod, and if
    /// only the metadata of the pod is known.
    pub role: Option<String>,
    pub placement: Option<Placement>,
}

/// The placement of a pod in the cluster. Recorded for a pod that an extension has created, for a pod with a scheduling
/// gate of an extension, and for a pod whose gate was removed and that is nominated to a node but not bound yet. Not
/// recorded for any other pod, because the scheduler nominates every pod whose volumes it waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Placement {
    /// The node whose kubelet has accepted the pod; `None` before that, because a client can write the name of any node
    /// into a pod's spec.
    pub node: Option<String>,
    /// The node to which the pod is nominated.
    pub nominated: Option<String>,
    /// The scheduling gate of an extension that the pod still has.
    pub gate: Option<String>,
    /// Whether the pod also has scheduling gates that are not an extension's.
    pub has_other_gates: bool,
    /// The pod's resource requests, by the name of the resource, in thousandths of a unit; empty after the gate of an
    /// executor was removed.
    pub requests: Amounts,
}

impl Particulars {
    /// Returns the particulars of `pod`; `None` if it has neither marks nor a recorded placement.
    pub(crate) fn of(pod: &Pod, role: Option<Role>, spark_role: Option<&str>) -> Option<Self> {
        let annotations = ANNOTATIONS.map(|key| pod.metadata.annotations.as_ref()?.get_key_value(key));
        let labels = LABELS.map(|key| pod.metadata.labels.as_ref()?.get_key_value(key));
        let marks = annotations.into_iter().chain(labels).flatten().filter(|_| role == Some(Role::Driver));
        // The API server limits the length of labels, but not of single annotations.
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
        // The kubelet writes the start time when it accepts the pod.
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
