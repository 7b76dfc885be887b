//! Defines the two roles of Spark pods, driver and executor, and finds the section of an application's spec for each
//! role.

use crate::{
    SparkApplicationSpec, SparkPodSpec,
    names::{container, role},
};
use k8s_openapi::api::core::v1::Container;

/// One of the two kinds of pod that Spark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The pod that runs the program's main function and asks for executors. Each run has one driver.
    Driver,
    /// A pod that does the work.
    Executor,
}

/// Returns the container in which Spark or `spark-submit` runs: the one with a name that Spark uses by itself, else the first
/// whose first argument is `driver` or `executor`, as Spark sets it, else the first one. Spark keeps the name that the
/// container has in the user's template.
#[must_use]
pub fn spark_container(containers: &[Container]) -> Option<&Container> {
    const NAMES: [&str; 4] =
        [container::DRIVER, container::EXECUTOR, container::EXECUTOR_SPARK_2, container::SPARK_SUBMIT];
    let named = containers.iter().find(|container| NAMES.contains(&&*container.name));
    let first_argument = |container: &Container| container.args.as_ref()?.first().cloned();
    let begins = |container: &&Container| {
        first_argument(container).is_some_and(|first| Role::from_label(&first).is_some())
    };
    named.or_else(|| containers.iter().find(begins)).or(containers.first())
}

impl Role {
    /// Both roles, driver first, which is also the order in Spark's arguments.
    pub const ALL: [Self; 2] = [Self::Driver, Self::Executor];

    /// Returns the value of the `spark-role` label, which is also the part of Spark's configuration keys that names the
    /// role.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Driver => role::DRIVER,
            Self::Executor => role::EXECUTOR,
        }
    }

    /// Returns the role for the value of a `spark-role` label; none if the value is not a role.
    #[must_use]
    pub fn from_label(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == value)
    }

    /// Returns the name of Spark's container since Spark 3.
    #[must_use]
    pub const fn container(self) -> &'static str {
        match self {
            Self::Driver => container::DRIVER,
            Self::Executor => container::EXECUTOR,
        }
    }

    /// Returns the section of `spec` for pods of this role.
    #[must_use]
    pub const fn pod(self, spec: &SparkApplicationSpec) -> &SparkPodSpec {
        match self {
            Self::Driver => &spec.driver.pod,
            Self::Executor => &spec.executor.pod,
        }
    }
}
