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

/// The kinds of work that only Spark's own submission client can do. The values of a metric's label are named after
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The master is not a Kubernetes API server, or the deploy mode is not `cluster`.
    Destination,
    /// Local files have to be uploaded so that the driver can read them.
    Upload,
    /// A pattern of file names has to be resolved on a remote file system.
    Glob,
    /// The main class has to be read from the jar, because the user has not named it.
    MainClass,
    /// The user adds a feature step of their own, or excludes one of Spark's feature steps that cannot be excluded
    /// here.
    FeatureSteps,
    /// A `${…}` refers to something that is not in the properties, or properties are set in a place that only the JVM
    /// reads.
    Substitution,
    /// The content of a file of the submitter is needed, and it is not known here.
    SubmitterFile,
    /// Hadoop's security is on, or Hadoop's delegation tokens are used.
    Kerberos,
    /// The objects are to be created with an identity other than the operator's, or in another cluster.
    Identity,
    /// A setting of Spark on Kubernetes is not known here.
    UnknownSetting,
}

impl Reason {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Destination => "destination",
            Self::Upload => "upload",
            Self::Glob => "glob",
            Self::MainClass => "main-class",
            Self::FeatureSteps => "feature-steps",
            Self::Substitution => "substitution",
            Self::SubmitterFile => "submitter-file",
            Self::Kerberos => "kerberos",
            Self::Identity => "identity",
            Self::UnknownSetting => "unknown-setting",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl NotNative {
    /// Returns the error for a value of `key` that Spark refuses.
    #[must_use]
    pub fn refused(key: &str, problem: impl fmt::Display) -> Self {
        Self::Refused { field: key.to_owned(), why: problem.to_string() }
    }

    pub(super) fn fallback(reason: Reason, field: &str, why: impl Into<String>) -> Self {
        Self::Fallback { reason, field: field.to_owned(), why: why.into() }
    }
}
