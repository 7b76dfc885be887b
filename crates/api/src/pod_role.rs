//! Finds what belongs to a role: the section of an application's spec, and the container of a pod.

use crate::{Role, SparkApplicationSpec, SparkPodSpec, container};
use k8s_openapi::api::core::v1::{Container, Pod};
use std::collections::BTreeSet;

/// Returns the index of the container in which Spark or `spark-submit` runs: the container with one of `names`, which
/// are Spark's own, else the only container, else the first one whose first argument is `driver` or `executor`, as
/// Spark sets it; `None` if no rule applies. `containers` has the name and the first argument of each container; the
/// last two rules ignore containers whose names are in `sidecars`. The name can be any: Spark takes the first container
/// of the user's template and keeps its name (`KubernetesUtils.selectSparkContainer`).
pub fn spark_container<'a>(
    names: &[&str],
    containers: impl IntoIterator<Item = (Option<&'a str>, Option<&'a str>), IntoIter: Clone>,
    sidecars: &BTreeSet<String>,
) -> Option<usize> {
    let all = containers.into_iter().enumerate();
    let named = all.clone().find(|(_, (name, _))| name.is_some_and(|name| names.contains(&name)));
    let mut others = all.filter(|(_, (name, _))| !name.is_some_and(|name| sidecars.contains(name)));
    let begun = others.clone().find(|(_, (_, argument))| argument.and_then(Role::from_label).is_some());
    let only = others.next().filter(|_| others.next().is_none());
    named.or(only).or(begun).map(|(i, _)| i)
}

/// Returns the container of a pod in which Spark or `spark-submit` runs, as [`spark_container`] does, else the first one.
pub fn spark_container_of(pod: &Pod) -> Option<&Container> {
    let containers = &pod.spec.as_ref()?.containers;
    let signs = containers.iter().map(|container| {
        let argument = container.args.as_ref().and_then(|arguments| arguments.first());
        (Some(container.name.as_str()), argument.map(String::as_str))
    });
    containers.get(spark_container(&container::ALL, signs, &BTreeSet::new()).unwrap_or(0))
}

impl Role {
    /// Returns the section of `spec` for pods of this role.
    pub const fn pod(self, spec: &SparkApplicationSpec) -> &SparkPodSpec {
        match self {
            Self::Driver => &spec.driver.pod,
            Self::Executor => &spec.executor.pod,
        }
    }
}
