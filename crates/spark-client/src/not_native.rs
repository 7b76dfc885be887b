//! The reasons for which no objects can be computed.

use std::fmt;

/// Why nothing is made. Nothing has been made then: all is found out before the first object exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNative {
    /// `spark-submit` would refuse it too: which property, and what is wrong with it.
    #[error("{0}")]
    Refused(String),
    /// Only the JVM can do it.
    #[error("{field}: {why} ({reason})")]
    Fallback {
        reason: Reason,
        /// The property, flag or variable that asks for it.
        field: String,
        /// What only the JVM can do.
        why: String,
    },
}

/// The kinds of work that only Spark's own submission client does, as a metric's label names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The master is no API server, or the deploy mode is not `cluster`.
    Destination,
    /// Local files have to be brought to where the driver finds them.
    Upload,
    /// A pattern of file names has to be resolved on a remote file system.
    Glob,
    /// The main class stands in the jar.
    MainClass,
    /// Code of the user's takes part, or a part of Spark's own does not.
    FeatureSteps,
    /// A `${…}` refers to what is not in the properties.
    Substitution,
    /// A file of the submitter's that is not known here.
    SubmitterFile,
    /// Hadoop's security.
    Kerberos,
    /// The objects are created by somebody else than the operator.
    Identity,
    /// A setting of Spark on Kubernetes that is not known here.
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
    /// `key` has a value that Spark refuses.
    pub(super) fn refused(key: &str, problem: impl fmt::Display) -> Self {
        Self::Refused(format!("{key}: {problem}"))
    }

    pub(super) fn fallback(reason: Reason, field: &str, why: impl Into<String>) -> Self {
        Self::Fallback { reason, field: field.to_owned(), why: why.into() }
    }
}
