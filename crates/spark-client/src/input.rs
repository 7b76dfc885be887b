//! The input of a submission: what `spark-submit` would be given, and what it would find around it.

use super::line::Line;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// One submission, with all that makes its objects what they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// As which Spark's the objects are made.
    pub line: Line,
    /// The version that Spark's label names: that of the distribution, not of the image.
    pub spark_version: String,
    /// Spark's properties from all sources, master and deploy mode among them, the lists of flags as
    /// [`flag_list`](crate::flag_list) gives them.
    pub properties: BTreeMap<String, String>,
    /// `--class`.
    pub main_class: Option<String>,
    /// The program as it is written: it tells what kind of application it is.
    pub primary_resource: String,
    pub arguments: Vec<String>,
    /// `--proxy-user`.
    pub proxy_user: Option<String>,
    /// What is in the file that `podTemplateFile` of the driver names.
    pub driver_template: Option<Value>,
    /// The same of the executors, to the byte.
    pub executor_template: Option<String>,
    pub environment: Environment,
    pub ids: Ids,
    /// When the application is submitted.
    pub now: Timestamp,
}

/// What `spark-submit` would find around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `SPARK_USER`.
    pub spark_user: Option<String>,
    /// `HADOOP_USER_NAME`.
    pub hadoop_user_name: Option<String>,
    /// As whom the process runs.
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
    /// The files in `HADOOP_CONF_DIR`, where that is set.
    pub hadoop_conf: Option<BTreeMap<String, String>>,
    /// The files in Spark's configuration directory: those that are text in UTF-8, not only those that the
    /// driver gets.
    pub spark_conf: BTreeMap<String, String>,
    pub files: Files,
}

/// The files that properties name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// Nobody has looked.
    #[default]
    Unread,
    /// Those that there are, by path: others there are not.
    All(BTreeMap<String, Vec<u8>>),
}

/// What is random in a submission of Spark's. Here it is derived by the caller, so that who repeats a
/// submission makes the same objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Spark's id of the application: `spark-` and 32 hexadecimal digits.
    pub application: String,
    /// In most names, behind the application's: 16 hexadecimal digits, as the next two.
    pub prefix: String,
    /// In the Service's name, if the application's is too long for it.
    pub service: String,
    /// In the name of the driver's ConfigMap.
    pub config_map: String,
    /// In the path of the driver's scratch directory: a UUID.
    pub local_dir: String,
}

/// What kind of application it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Java,
    Python,
    R,
}

/// No program at all: what is in the image already.
pub const NO_RESOURCE: &str = "spark-internal";

impl Kind {
    /// By the end of the program's name as it is written, so a Python program behind a URL with a query is
    /// none.
    pub(super) fn of(primary_resource: &str) -> Self {
        if primary_resource.ends_with(".py") {
            Self::Python
        } else if primary_resource.ends_with(".R") || primary_resource.ends_with(".r") {
            Self::R
        } else {
            Self::Java
        }
    }

    /// As the driver's properties name it.
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
