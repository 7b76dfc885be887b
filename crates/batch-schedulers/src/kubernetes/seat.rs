//! The room of one executor, as its placeholder and the executor itself show it, and the changes of it.

use api::{
    names::{batch_scheduler, role},
    quantity,
};
use plan::{Action, PodPatch};
use pods::{Placement, PodSummary};
use serde_json::json;

/// Whether the pod is a placeholder: it holds room for an executor.
pub fn is_placeholder(pod: &PodSummary) -> bool {
    pod.other_role() == Some(role::PLACEHOLDER)
}

/// Whether the gate of gangs still keeps the pod from being placed.
pub fn is_gated(pod: &PodSummary) -> bool {
    pod.placement().is_some_and(|own| own.gate.as_deref() == Some(batch_scheduler::GATE))
}

/// Returns what an executor at the place `own` asks for beyond what its placeholder holds: `2Gi memory instead of 1408Mi`;
/// none if it fits. If the operator reserved room for one that does not fit, whoever may create pods would get more room on
/// a node than they have there.
pub fn excess(own: &Placement, placeholder: &Placement) -> Option<String> {
    let held = |name: &String| placeholder.requests.get(name).copied().unwrap_or(0);
    let (name, asked) = own.requests.iter().find(|(name, asked)| **asked > held(name))?;
    let [asked, held] = [*asked, held(name)].map(|amount| quantity::of_resource(name, amount));
    Some(format!("{asked} {name} instead of {held}"))
}

/// Returns the action that makes the scheduler reserve room for a pod that is not placed yet, on this node.
pub(super) fn nominate(pod: &PodSummary, node: &str) -> Action {
    patched(pod, PodPatch::Status(json!({"status": {"nominatedNodeName": node}})))
}

/// Returns the uid of the pod that `action` nominates, and the node; none if it is another action.
pub(super) fn nomination(action: &Action) -> Option<(&str, &str)> {
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
