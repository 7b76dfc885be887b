//! Driver or executor: the role of a pod of Spark, and the parts of a spec that belong to the role.

use crate::{
    SparkApplicationSpec, SparkPodSpec,
    names::{container, role},
};

/// Which of Spark's two kinds of pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The pod that runs the program's main function and asks for executors. One a run.
    Driver,
    /// A pod that does the work.
    Executor,
}

impl Role {
    /// Both, driver first: the order of Spark's arguments.
    pub const ALL: [Self; 2] = [Self::Driver, Self::Executor];

    /// The value of the `spark-role` label and the word in Spark's configuration keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Driver => role::DRIVER,
            Self::Executor => role::EXECUTOR,
        }
    }

    /// The role that the value of a `spark-role` label names.
    #[must_use]
    pub fn from_label(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == value)
    }

    /// The name of Spark's container since Spark 3.
    #[must_use]
    pub const fn container(self) -> &'static str {
        match self {
            Self::Driver => container::DRIVER,
            Self::Executor => container::EXECUTOR,
        }
    }

    /// What a spec says of pods of this role.
    #[must_use]
    pub const fn pod(self, spec: &SparkApplicationSpec) -> &SparkPodSpec {
        match self {
            Self::Driver => &spec.driver.pod,
            Self::Executor => &spec.executor.pod,
        }
    }
}
