//! Sets the limits of Spark's container that the application sets by `memoryLimit` and `gpu`.

use super::{Problem, SparkPod, Step, value};
use api::{GpuSpec, names::annotation, quantity};
use serde_json::Value;

pub(super) const MEMORY_LIMIT: Step = Step {
    key: annotation::MEMORY_LIMIT,
    asked: |pod, _, _| pod.memory_limit.as_deref().map(quantity::from_java),
    apply: |pod, text| {
        let limit = value::name(text)?;
        if quantity::amount(limit).is_none() {
            return Err(Problem::new("", format!("`{limit}` is not a Kubernetes quantity (try `2Gi`)")));
        }
        set_limit(pod, "memory", limit.into());
        Ok(())
    },
};

pub(super) const GPU: Step = Step {
    key: annotation::GPU,
    // Returns `None` if the name is empty or the quantity is not positive, as in Kubeflow's operator.
    asked: |pod, _, _| {
        let gpu = pod.gpu.as_ref()?;
        (!gpu.name.is_empty() && gpu.quantity > 0).then(|| value::written(gpu))
    },
    apply: |pod, text| {
        let gpu: GpuSpec = value::typed(text)?;
        if gpu.name.is_empty() {
            return Err(Problem::new("name", "is required (try `nvidia.com/gpu`)"));
        }
        if gpu.quantity < 1 {
            return Err(Problem::new("quantity", "must be at least 1"));
        }
        set_limit(pod, &gpu.name, gpu.quantity.to_string().into());
        Ok(())
    },
};

fn set_limit(pod: &mut SparkPod, resource: &str, limit: Value) {
    let mut resources = pod.container.object("resources");
    let limits = resources.get_mut("limits").and_then(Value::as_object_mut);
    let mut limits = limits.map(std::mem::take).unwrap_or_default();
    let there = limits.get(resource).and_then(Value::as_str).and_then(quantity::amount);
    // The API server rewrites quantities: an equal amount that is written differently is the same limit.
    if there.is_none() || there != limit.as_str().and_then(quantity::amount) {
        limits.insert(resource.to_owned(), limit);
        resources.insert("limits".to_owned(), limits.into());
        pod.container.set("resources", resources);
    }
}
