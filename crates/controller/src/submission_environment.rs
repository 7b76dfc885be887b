//! Reads the settings of the admin for all submissions: environment variables of the operator, and the operator's Spark
//! and Hadoop configuration files. They apply both to drivers that the operator creates itself and to drivers that
//! `spark-submit` creates in a submission pod.

use api::names::env;
use spark_client::Environment;
use std::{
    collections::BTreeMap,
    env as process_env, fs, io,
    path::{Path, PathBuf},
};
use submission::SubmissionEnvironment as Found;
use tokio::task::spawn_blocking;

/// The file of default properties, which is read together with the other configuration files. Drivers do not get this
/// file.
const DEFAULTS: &str = "spark-defaults.conf";
/// The user name of drivers if no variable sets one: that of the public Spark images, and of Kubeflow's operator, which
/// runs in such an image. Executors use Hadoop file systems under this name, but the driver under the user name in its
/// image, so the two have to be equal. The user of this process has another name in the operator's image, where no
/// Spark runs.
const USER: &str = "spark";

/// The directories to read, and the environment, which does not change while the process runs.
#[derive(Clone, Debug)]
pub struct SubmissionEnvironment {
    /// Spark's configuration directory (`--spark-conf-dir` or `$SPARK_CONF_DIR`), if it is set.
    spark_conf: Option<PathBuf>,
    hadoop_conf: Option<PathBuf>,
    environment: Environment,
}

/// A configuration file or directory that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

impl SubmissionEnvironment {
    /// Returns the submission environment of this process; `spark_conf` is Spark's configuration directory, if there is
    /// one.
    pub fn of_process(spark_conf: Option<PathBuf>) -> Self {
        let variable = |name| process_env::var(name).ok().filter(|value| !value.is_empty());
        let environment = Environment {
            spark_user: variable(env::SPARK_USER),
            hadoop_user_name: variable(env::HADOOP_USER_NAME),
            os_user: USER.to_owned(),
            pyspark_python: variable(env::PYSPARK_PYTHON),
            pyspark_driver_python: variable(env::PYSPARK_DRIVER_PYTHON),
            spark_local_dirs: variable(env::SPARK_LOCAL_DIRS),
            ..Environment::default()
        };
        Self { spark_conf, hadoop_conf: variable(env::HADOOP_CONF_DIR).map(PathBuf::from), environment }
    }

    /// Reads the configuration files as they are now: the directories may be mounted ConfigMaps, which change.
    ///
    /// # Errors
    ///
    /// If a file or a directory exists and cannot be read.
    pub async fn found(&self) -> Result<Found, Unreadable> {
        if self.spark_conf.is_none() && self.hadoop_conf.is_none() {
            return Ok(Found { environment: self.environment.clone(), ..Found::default() });
        }
        let Self { spark_conf, hadoop_conf, mut environment } = self.clone();
        let read = spawn_blocking(move || {
            environment.hadoop_conf = hadoop_conf.as_deref().map(texts).transpose()?;
            environment.spark_conf = spark_conf.as_deref().map(texts).transpose()?.unwrap_or_default();
            let defaults = environment.spark_conf.get(DEFAULTS).cloned().unwrap_or_default();
            Ok::<_, Unreadable>(Found { defaults, environment, ..Found::default() })
        });
        read.await.expect("reading files does not panic")
    }

    /// Reads `spark-defaults.conf` as it is now, and nothing else; empty if there is no such file.
    ///
    /// # Errors
    ///
    /// If the file exists and cannot be read.
    pub(super) async fn defaults(&self) -> Result<String, Unreadable> {
        let Some(path) = self.spark_conf.as_ref().map(|directory| directory.join(DEFAULTS)) else {
            return Ok(String::new());
        };
        let read = spawn_blocking(move || text(&path)).await.expect("reading a file does not panic");
        Ok(read?.unwrap_or_default())
    }
}

/// Returns the files in `directory` that are UTF-8 text, by name; empty if the directory does not exist.
fn texts(directory: &Path) -> Result<BTreeMap<String, String>, Unreadable> {
    let failed = |path: &Path, source| Unreadable { path: path.to_owned(), source };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries.map_err(|error| failed(directory, error))?,
    };
    let mut texts = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(directory, error))?;
        let (path, name) = (entry.path(), entry.file_name());
        // In a mounted ConfigMap the entries are links, which `is_file` follows.
        let (Some(name), true) = (name.to_str(), path.is_file()) else { continue };
        if let Some(text) = text(&path)? {
            texts.insert(name.to_owned(), text);
        }
    }
    Ok(texts)
}

/// Returns the content of a file; `None` if the file does not exist or is not UTF-8 text.
fn text(path: &Path) -> Result<Option<String>, Unreadable> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Unreadable { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::SubmissionEnvironment;

    /// In an earlier version, drivers had the user name `nonroot`, that of the operator's image.
    #[test]
    fn drivers_do_not_have_the_user_name_of_the_operator() {
        assert_eq!(SubmissionEnvironment::of_process(None).environment.os_user, "spark");
    }
}
