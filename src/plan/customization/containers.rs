//! Which containers run beside or before Spark's?

use super::{Concern, Problem, SparkPod};
use crate::api::{Embedded, Role, SparkApplication, names::annotation};
use k8s_openapi::api::core::v1::Container;
use serde_json::Value;

pub(super) struct InitContainers;

impl Concern for InitContainers {
    const KEY: &'static str = annotation::INIT_CONTAINERS;
    type Value = Embedded<Vec<Container>>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        Embedded::list(&role.pod(&application.spec).init_containers)
    }

    fn apply(pod: &mut SparkPod, containers: Self::Value) -> Result<(), Problem> {
        add(pod, "initContainers", containers.entries())
    }
}

pub(super) struct Sidecars;

impl Concern for Sidecars {
    const KEY: &'static str = annotation::SIDECARS;
    type Value = Embedded<Vec<Container>>;

    fn asked(application: &SparkApplication, role: Role) -> Option<Self::Value> {
        Embedded::list(&role.pod(&application.spec).sidecars)
    }

    fn apply(pod: &mut SparkPod, containers: Self::Value) -> Result<(), Problem> {
        add(pod, "containers", containers.entries())
    }
}

/// Appends each container unless one of the same name and image is there: other webhooks may have changed the
/// rest of it since.
fn add(pod: &mut SparkPod, field: &'static str, containers: &[Value]) -> Result<(), Problem> {
    for (i, container) in containers.iter().enumerate() {
        let Some(name) = container["name"].as_str().filter(|name| !name.is_empty()) else {
            return Err(Problem::new(format!("[{i}].name"), "is required"));
        };
        if containers[i + 1..].iter().any(|later| later["name"] == name) {
            continue;
        }
        match pod.spec.list(field)?.find(|there| there["name"] == name) {
            Some(there) if there["image"] == container["image"] => {}
            Some(there) => {
                return Err(Problem::new(
                    format!("[{i}]"),
                    format!(
                        "container `{name}` is in the pod already, with image {}: choose another name",
                        there["image"]
                    ),
                ));
            }
            None => pod.spec.append(field, [container.clone()]),
        }
    }
    Ok(())
}
