//! The room of one executor, as its placeholder and the executor itself show it.

use api::names::{batch_scheduler, label, role};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

/// The room that a placeholder holds, or that is held for an executor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Seat {
    /// Whether the pod is a placeholder.
    pub is_placeholder: bool,
    /// Whether the gate still keeps the pod from being placed.
    pub is_gated: bool,
    /// The node on which the pod is placed.
    pub node: Option<String>,
    /// The node to which the pod is nominated.
    pub nominated: Option<String>,
}

impl Seat {
    /// Returns the seat of a placeholder, of a gated pod, or of a pod that is nominated and not placed yet; none for any
    /// other pod.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let is_placeholder = pod
            .metadata
            .labels
            .as_ref()?
            .get(label::SPARK_ROLE)
            .is_some_and(|role| role == role::PLACEHOLDER);
        let is_gated = spec.scheduling_gates.iter().flatten().any(|gate| gate.name == batch_scheduler::GATE);
        let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_ref());
        let is_tried = nominated.is_some() && spec.node_name.is_none();
        (is_placeholder || is_gated || is_tried).then(|| Self {
            is_placeholder,
            is_gated,
            node: spec.node_name.clone(),
            nominated: nominated.cloned(),
        })
    }
}
