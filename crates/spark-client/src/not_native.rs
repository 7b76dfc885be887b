//! Defines the reasons why this crate cannot build the objects of an application.

use std::fmt;

/// The reason why no objects are built. Every reason is found before the first object is created, so nothing has to be
/// cleaned up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNative {
    /// `spark-submit` would refuse the submission too.
    #[error("{field}: {why}")]
    Refused {
        /// The property, flag, class or file that is wrong.
        field: String,
        why: String,
    },
    /// The submission needs something that only the JVM can do.
    #[error("{field}: {why} ({reason})")]
    Fallback {
        reason: Reason,
        /// The property, flag or environment variable that needs the JVM.
        field: String,
        /// The work that only the JVM can do.
        why: String,
    },
}

api::words! {
    /// The kinds of work that only Spark's own submission client can do. The texts are the values of a metric's
    /// label.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Reason {
        /// The master is not a Kubernetes API server, or the deploy mode is not `cluster`.
        Destination = "destination",
        /// Local files have to be uploaded so that the driver can read them.
        Upload = "upload",
        /// A glob pattern has to be expanded on a remote file system.
        Glob = "glob",
        /// The main class has to be read from the jar, because the user has not named it.
        MainClass = "main-class",
        /// The user adds a feature step of their own, or excludes one of Spark's feature steps that cannot be
        /// excluded here.
        FeatureSteps = "feature-steps",
        /// A `${…}` refers to something that is not in the properties, or `SPARK_SUBMIT_OPTS` sets properties.
        Substitution = "substitution",
        /// The content of a file is needed that only `spark-submit` can read.
        SubmitterFile = "submitter-file",
        /// Hadoop's security is on, or Hadoop's delegation tokens are used.
        Kerberos = "kerberos",
        /// The objects are to be created with an identity other than the operator's, or in another cluster.
        Identity = "identity",
        /// A Spark newer than all known release lines has a setting on Kubernetes that this crate does not know.
        UnknownSetting = "unknown-setting",
    }
}

impl NotNative {
    /// Returns the error for a value of `key` that Spark refuses.
    pub fn refused(key: &str, problem: impl fmt::Display) -> Self {
        Self::Refused { field: key.to_owned(), why: problem.to_string() }
    }

    pub(super) fn fallback(reason: Reason, field: &str, why: impl Into<String>) -> Self {
        Self::Fallback { reason, field: field.to_owned(), why: why.into() }
    }
}
