//! Finds what belongs to a role: the section of an application's spec, and the container of a pod.

use crate::{
    SparkApplicationSpec, SparkPodSpec,
    names::{container, role::Role},
};
use k8s_openapi::api::core::v1::{Container, Pod};
use std::collections::BTreeSet;

/// Returns the index of the container in which Spark or `spark-submit` runs: the one with one of `names`, which Spark uses
/// by itself, else the only one, else the first whose first argument is `driver` or `executor`, as Spark sets it; none if
/// nothing tells. Of each container, `containers` has the name and the first argument; the last two rules leave out those
/// whose name is in `sidecars`. Spark keeps the name that the container has in the user's template, where it takes the
/// first one (`KubernetesUtils.selectSparkContainer`).
pub fn spark_container<'a>(
    names: &[&str],
    containers: impl IntoIterator<Item = (Option<&'a str>, Option<&'a str>)>,
    sidecars: &BTreeSet<String>,
) -> Option<usize> {
    let (mut begun, mut only, mut others) = (None, None, 0);
    for (i, (name, argument)) in containers.into_iter().enumerate() {
        if name.is_some_and(|name| names.contains(&name)) {
            return Some(i);
        }
        if name.is_some_and(|name| sidecars.contains(name)) {
            continue;
        }
        if begun.is_none() && argument.and_then(Role::from_label).is_some() {
            begun = Some(i);
        }
        only = Some(i);
        others += 1;
    }
    if others == 1 { only } else { begun }
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
