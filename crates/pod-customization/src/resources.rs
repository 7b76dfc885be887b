//! Sets the limits of Spark's container that the application asks for beyond those that Spark sets: memory and GPUs.

use super::{Concern, Problem, SparkPod, annotation_value::Json, pod::as_object};
use api::{GpuSpec, Role, SparkApplication, memory, names::annotation, quantity};
use serde_json::Value;

pub(super) struct MemoryLimit;

impl Concern for MemoryLimit {
    const KEY: &'static str = annotation::MEMORY_LIMIT;
    type Value = String;

    fn asked(application: &SparkApplication, role: Role) -> Option<String> {
        role.pod(&application.spec).memory_limit.as_deref().map(memory::quantity)
    }

    fn apply(pod: &mut SparkPod, limit: String) -> Result<(), Problem> {
        if quantity::amount(&limit).is_none() {
            return Err(Problem::new("", format!("`{limit}` is not a Kubernetes quantity (try `2Gi`)")));
        }
        set_limit(pod, "memory", limit.into());
        Ok(())
    }
}

pub(super) struct Gpu;

impl Concern for Gpu {
    const KEY: &'static str = annotation::GPU;
    type Value = Json<GpuSpec>;

    /// Returns none if the name is empty or the quantity is not positive, as in Kubeflow's operator.
    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        let gpu = role.pod(&application.spec).gpu.clone()?;
        (!gpu.name.is_empty() && gpu.quantity > 0).then_some(Json(gpu))
    }

    fn apply(pod: &mut SparkPod, Json(gpu): Self::Value) -> Result<(), Problem> {
        if gpu.name.is_empty() {
            return Err(Problem::new("name", "is required (try `nvidia.com/gpu`)"));
        }
        if gpu.quantity < 1 {
            return Err(Problem::new("quantity", "must be at least 1"));
        }
        set_limit(pod, &gpu.name, gpu.quantity.to_string().into());
        Ok(())
    }
}

fn set_limit(pod: &mut SparkPod, resource: &str, limit: Value) {
    let mut resources = pod.container.object("resources");
    let limits = as_object(resources.entry("limits").or_insert(Value::Null));
    let there = limits.get(resource).and_then(Value::as_str).and_then(quantity::amount);
    // The API server rewrites quantities: an equal amount that is written differently is the same limit.
    if there.is_none() || there != limit.as_str().and_then(quantity::amount) {
        limits.insert(resource.to_owned(), limit);
        pod.container.set("resources", resources);
    }
}
