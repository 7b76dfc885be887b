//! Values of the label [`spark-role`](super::label::SPARK_ROLE), and those of Spark's own pods as a type.

use super::container;

/// The pod that runs the program's main function.
pub const DRIVER: &str = "driver";
/// A pod that does the work.
pub const EXECUTOR: &str = "executor";
/// A pod in which `spark-submit` runs for one run of an application.
pub const SUBMISSION: &str = "submission";
/// A pod in which a server of Spark Connect runs.
pub const CONNECT_SERVER: &str = "connect-server";
/// A pod that holds room for an executor until the driver has created it.
pub const PLACEHOLDER: &str = "placeholder";

crate::words! {
    /// One of the two kinds of pod that Spark runs, in the order in which their settings are written. The text is the
    /// value of the `spark-role` label, which is also the part of Spark's configuration keys that names the role.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Role {
        /// The pod that runs the program's main function and creates the executors. Each run has one driver.
        Driver = DRIVER,
        /// A pod that does the work.
        Executor = EXECUTOR,
    }
}

impl Role {
    /// Returns the role for the value of a `spark-role` label; `None` if the value is not a role.
    pub fn from_label(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == value)
    }

    /// Returns the name of Spark's container since Spark 3.
    pub const fn container(self) -> &'static str {
        match self {
            Self::Driver => container::DRIVER,
            Self::Executor => container::EXECUTOR,
        }
    }
}
