//! Defines the reasons for which no objects are made for an application.

use std::fmt;

/// The reason for which no objects are made. Every reason is found before the first object exists, so no object has
/// been created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNative {
    /// `spark-submit` would refuse the submission too. The text names the property and what is wrong with it.
    #[error("{0}")]
    Refused(String),
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

/// The kinds of work that only Spark's own submission client does. The values of a metric's label are named after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The master is no API server, or the deploy mode is not `cluster`.
    Destination,
    /// Local files have to be uploaded to a place where the driver finds them.
    Upload,
    /// A pattern of file names has to be resolved on a remote file system.
    Glob,
    /// The main class has to be read from the jar.
    MainClass,
    /// A feature step is added that is code of the user, or a step of Spark's own is left out that cannot be left out
    /// here.
    FeatureSteps,
    /// A `${…}` refers to something that is not in the properties, or properties are set where only the JVM sees them.
    Substitution,
    /// The content of a submitter's file is needed, and it is not known here.
    SubmitterFile,
    /// Hadoop's security is on, or its tokens are used.
    Kerberos,
    /// The objects are to be created with an identity other than the operator's, or elsewhere.
    Identity,
    /// There is a setting of Spark on Kubernetes that is not known here.
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
    pub(super) fn refused(key: &str, problem: impl fmt::Display) -> Self {
        Self::Refused(format!("{key}: {problem}"))
    }

    pub(super) fn fallback(reason: Reason, field: &str, why: impl Into<String>) -> Self {
        Self::Fallback { reason, field: field.to_owned(), why: why.into() }
    }
}
