//! Defines the input of a submission: the input of `spark-submit`, and the environment that `spark-submit` would have.

use super::line::Line;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// One submission, with all facts on which its objects depend.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// The release line of Spark whose objects are built, for example 4.0.
    pub line: Line,
    /// The version of the submitting Spark distribution, not of the image.
    pub spark_version: String,
    /// Spark's properties from all sources, including master and deploy mode. Lists that `spark-submit` takes as flags
    /// (`--jars` and the like) have the form that [`flag_list`](crate::flag_list) returns.
    pub properties: BTreeMap<String, String>,
    /// `--class`.
    pub main_class: Option<String>,
    /// The program (`mainApplicationFile`) as the user writes it. The end of its name determines the language of the
    /// program.
    pub primary_resource: String,
    pub arguments: Vec<String>,
    /// `--proxy-user`.
    pub proxy_user: Option<String>,
    /// The content of the file that the driver's `podTemplateFile` names.
    pub driver_template: Option<Value>,
    /// The exact text of the file that the executors' `podTemplateFile` names.
    pub executor_template: Option<String>,
    pub environment: Environment,
    pub ids: Ids,
    /// The time of the submission.
    pub now: Timestamp,
}

/// The environment variables and files that `spark-submit` would find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `SPARK_USER`.
    pub spark_user: Option<String>,
    /// `HADOOP_USER_NAME`.
    pub hadoop_user_name: Option<String>,
    /// The name of the operating system user that runs the process.
    pub os_user: String,
    /// `PYSPARK_PYTHON`.
    pub pyspark_python: Option<String>,
    /// `PYSPARK_DRIVER_PYTHON`.
    pub pyspark_driver_python: Option<String>,
    /// `SPARK_LOCAL_DIRS`.
    pub spark_local_dirs: Option<String>,
    /// `SPARK_SUBMIT_OPTS`.
    pub spark_submit_opts: Option<String>,
    /// `HADOOP_TOKEN_FILE_LOCATION`.
    pub hadoop_token_file: Option<String>,
    /// The files in `HADOOP_CONF_DIR` by name, if that variable is set.
    pub hadoop_conf: Option<BTreeMap<String, String>>,
    /// All files in Spark's configuration directory that are valid UTF-8, by name. The driver gets only some of them.
    pub spark_conf: BTreeMap<String, String>,
    pub files: Files,
}

/// The submitter's files to which properties refer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// The files have not been read.
    #[default]
    Unread,
    /// All files that exist, by path. A path that is not in the map does not exist.
    All(BTreeMap<String, Vec<u8>>),
}

/// The ids that Spark chooses at random for a submission. Here the caller computes them, so that a repeated submission
/// creates the same objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Spark's application id: `spark-` and 32 hexadecimal digits.
    pub application: String,
    /// The id that follows the application's name in most object names: 16 hexadecimal digits, like `service` and
    /// `config_map`.
    pub prefix: String,
    /// The id in the Service's name, used only if the application's name is too long for the Service's usual name.
    pub service: String,
    /// The id in the name of the driver's ConfigMap.
    pub config_map: String,
    /// The id in the path of the driver's scratch directory: a UUID.
    pub local_dir: String,
}

/// The language of an application's program. Every program that is neither Python nor R counts as Java.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Java,
    Python,
    R,
}

/// The primary resource of an application whose main class is in the image already (Spark's
/// `SparkLauncher.NO_RESOURCE`).
pub const NO_RESOURCE: &str = "spark-internal";

impl Kind {
    /// Returns the language by the end of the program's name. A URL with a query is therefore not recognised as a
    /// Python program.
    pub(super) fn of(primary_resource: &str) -> Self {
        if primary_resource.ends_with(".py") {
            Self::Python
        } else if primary_resource.ends_with(".R") || primary_resource.ends_with(".r") {
            Self::R
        } else {
            Self::Java
        }
    }

    /// Returns the value of the driver's property `spark.kubernetes.resource.type`.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Python => "python",
            Self::R => "r",
        }
    }
}

impl Submission {
    pub(super) fn kind(&self) -> Kind {
        Kind::of(&self.primary_resource)
    }
}
