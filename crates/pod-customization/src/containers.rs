//! Adds the containers that run beside Spark's container (sidecars) or before it (init containers).

use super::{Problem, SparkPod, Step, entries, value};
use api::names::annotation;
use entries::OnClash;
use k8s_openapi::api::core::v1::Container;
use serde_json::Value;

pub(super) const INIT_CONTAINERS: Step = Step {
    key: annotation::INIT_CONTAINERS,
    asked: |pod, _, _| value::written_list(&pod.init_containers),
    apply: |pod, text| add(pod, "initContainers", value::list::<Container>(text)?),
};

pub(super) const SIDECARS: Step = Step {
    key: annotation::SIDECARS,
    asked: |pod, _, _| value::written_list(&pod.sidecars),
    apply: |pod, text| add(pod, "containers", value::list::<Container>(text)?),
};

/// Appends each container unless the pod already has a container of that name. Kubernetes does not accept two
/// containers of one name. If the existing container differs, even in its image, other webhooks have changed it since
/// the first call of this webhook: mirrors of registries rewrite images. The name of Spark's own container is refused,
/// because an earlier call cannot have appended that container.
fn add(pod: &mut SparkPod, field: &'static str, containers: Vec<Value>) -> Result<(), Problem> {
    let sparks = pod.container.get("name").and_then(Value::as_str);
    for (i, container) in containers.iter().enumerate() {
        if let Some(name) = container["name"].as_str().filter(|name| sparks == Some(*name)) {
            let text = format!("`{name}` is Spark's own container: choose another name");
            return Err(Problem::new(format!("[{i}].name"), text));
        }
    }
    entries::add(&mut pod.spec, field, containers, &["name"], OnClash::Keep)
}
