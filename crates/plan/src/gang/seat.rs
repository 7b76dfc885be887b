//! The room of one executor, as its placeholder and the executor itself show it.

use crate::{
    Action, PodPatch,
    pod_requests::{Amounts, PodClaim},
    pod_summary::PodSummary,
};
use api::{
    names::{annotation, batch_scheduler, label, role},
    quantity,
};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::json;

/// The room that a placeholder holds, or that is held for an executor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Seat {
    /// Whether the pod is a placeholder.
    pub is_placeholder: bool,
    /// Whether the gate still keeps the pod from being placed.
    pub is_gated: bool,
    /// Whether the pod has gates of others, too.
    pub has_other_gates: bool,
    /// The node on which the pod is placed. A placeholder holds room only once the kubelet has accepted it, and a client
    /// can write any node into the pod before: until then none.
    pub node: Option<String>,
    /// The node to which the pod is nominated.
    pub nominated: Option<String>,
    /// The requests of a placeholder or of a gated pod, by the name of the resource, in thousandths of a unit.
    pub requests: Amounts,
}

impl Seat {
    /// Returns the seat of a placeholder, of a gated pod, or of a pod that has lost its gate, is nominated and not placed
    /// yet; none for any other pod. Pods that never had the gate do not belong to a gang: the scheduler nominates every
    /// pod whose volumes it waits for.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref());
        let is_placeholder = pod
            .metadata
            .labels
            .as_ref()?
            .get(label::SPARK_ROLE)
            .is_some_and(|role| role == role::PLACEHOLDER);
        let gates = || spec.scheduling_gates.iter().flatten();
        let is_gated = gates().any(|gate| gate.name == batch_scheduler::GATE);
        let nominated = status.and_then(|status| status.nominated_node_name.as_ref());
        let was_gated = || pod.metadata.annotations.as_ref()?.get(annotation::SCHEDULING_GATE);
        let is_tried = nominated.is_some() && spec.node_name.is_none() && was_gated().is_some();
        // The kubelet writes the time.
        let is_accepted = status.is_some_and(|status| status.start_time.is_some());
        let holds_room = is_placeholder || is_gated;
        (holds_room || is_tried).then(|| Self {
            is_placeholder,
            is_gated,
            has_other_gates: gates().any(|gate| gate.name != batch_scheduler::GATE),
            node: spec.node_name.clone().filter(|_| is_accepted || !is_placeholder),
            nominated: nominated.cloned(),
            requests: if holds_room { PodClaim::requests_of(spec) } else { Amounts::new() },
        })
    }

    /// Returns what an executor with this seat asks for beyond what `placeholder` holds: `2Gi memory instead of 1408Mi`;
    /// none if it fits. If the operator reserved room for one that does not fit, whoever may create pods would get more
    /// room on a node than they have there.
    #[must_use]
    pub fn excess(&self, placeholder: &Self) -> Option<String> {
        let held = |name: &String| placeholder.requests.get(name).copied().unwrap_or(0);
        let (name, asked) = self.requests.iter().find(|(name, asked)| **asked > held(name))?;
        let [asked, held] = [*asked, held(name)].map(|amount| quantity::of_resource(name, amount));
        Some(format!("{asked} {name} instead of {held}"))
    }
}

/// Returns the action that makes the scheduler reserve room for a pod that is not placed yet, on this node.
pub(crate) fn nominate(pod: &PodSummary, node: &str) -> Action {
    patched(pod, PodPatch::Status(json!({"status": {"nominatedNodeName": node}})))
}

/// Returns the uid of the pod that `action` nominates, and the node; none if it is another action.
pub(crate) fn nomination(action: &Action) -> Option<(&str, &str)> {
    let Action::PatchPod { uid, patch: PodPatch::Status(patch), .. } = action else { return None };
    Some((uid, patch["status"]["nominatedNodeName"].as_str()?))
}

/// Returns the action that lets the scheduler place an executor: it removes the gate with which the executor was created,
/// and no gate of others.
pub(crate) fn ungate(pod: &PodSummary) -> Action {
    let gates = json!([{"$patch": "delete", "name": batch_scheduler::GATE}]);
    patched(pod, PodPatch::Spec(json!({"spec": {"schedulingGates": gates}})))
}

fn patched(PodSummary { name, uid, .. }: &PodSummary, patch: PodPatch) -> Action {
    Action::PatchPod { name: name.clone(), uid: uid.clone(), patch }
}
