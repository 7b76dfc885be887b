//! The submission pod: a pod of the application's own, in which Spark's `spark-submit` runs for one run.
//!
//! The operator never runs Spark itself, since `spark-submit` runs code and reads files that the application names.
//! What native submission cannot do is done by a pod with the driver's image and service account, in the application's
//! namespace: it can do what a driver of that application can do, and no more. [`objects`] plans the pod and the
//! ConfigMap with the properties and pod templates of the run; [`state()`] reads from the pod how far the submission is.
//! Everything is named after the run, so that whoever repeats a submission finds what the first try has made.

mod pod;
mod state;

use super::{
    Policy,
    pod_record::PodRecord,
    run::Run,
    submission::{SparkSubmit, Surroundings, spark_submit},
};
use api::{
    SparkApplication,
    names::{annotation, label, role},
    owner_reference,
};
use serde_json::{Map, Value, json};
use spark_client::{Child, Objects};
pub use state::{State, state};
use std::time::Duration;

/// Where the ConfigMap is mounted: the properties, the pod templates, and the two directories below.
pub const DIRECTORY: &str = "/etc/spark-submission";
/// Below [`DIRECTORY`]: the files of the admin's `SPARK_CONF_DIR`.
const SPARK_CONF: &str = "conf";
/// Below [`DIRECTORY`]: the files of the admin's `HADOOP_CONF_DIR`.
const HADOOP_CONF: &str = "hadoop";

/// What the admin decides about submission pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The CPU request, a Kubernetes quantity.
    pub cpu: String,
    /// The memory request and limit, a Kubernetes quantity.
    pub memory: String,
    /// The path of `spark-submit` in the applications' images.
    pub program: String,
    /// How long a submission pod may work, from the moment a node has it.
    pub deadline: Duration,
}

impl Default for Settings {
    /// `spark-submit` takes about 300 MB and five seconds of one core (measured with Spark 4.0.1); the heap of its JVM
    /// is a quarter of the memory limit. The path is that of the public Spark images.
    fn default() -> Self {
        Self {
            cpu: "250m".to_owned(),
            memory: "1Gi".to_owned(),
            program: "/opt/spark/bin/spark-submit".to_owned(),
            deadline: Duration::from_secs(180),
        }
    }
}

/// The objects by which `run` is submitted: the ConfigMap, and the submission pod in place of the driver.
///
/// # Errors
///
/// When the application cannot be run as it is written, with the fields that are wrong.
pub fn objects(
    application: &SparkApplication,
    run: &Run,
    policy: &Policy,
    surroundings: &Surroundings,
) -> Result<Objects, String> {
    let command = spark_submit(application, run, policy, &surroundings.defaults);
    let command = command.map_err(|refusal| refusal.brief())?;
    let files = files(&command, surroundings);
    let metadata = metadata(application, run);
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": pod::spec(application, &command, policy, surroundings, volume_source(application, run, &files))?,
    });
    pod["metadata"]["labels"][annotation::ISTIO_INJECT] = "false".into();
    // Nobody needs a mesh for one call of the API server, and a proxy that goes on would keep the pod from ending.
    pod["metadata"]["annotations"] =
        json!({annotation::ISTIO_INJECT: "false", annotation::LINKERD_INJECT: "disabled"});
    let data: Map<_, _> = files.into_iter().map(|file| (file.key, Value::from(file.content))).collect();
    let config_map = json!({
        "apiVersion": "v1",
        "kind": CONFIG_MAP,
        "metadata": metadata,
        "immutable": true,
        "data": data,
    });
    Ok(Objects { pod, children: vec![config_map] })
}

const CONFIG_MAP: &str = "ConfigMap";

/// The name of the submission pod of `run` and of its ConfigMap: `<application>-<16 hexadecimal digits>-submission`. It
/// follows from the application and the run's number alone, so that of two runs that are made from one edit after the
/// other, without either being recorded, only one can have a pod.
#[must_use]
pub fn name(application: &SparkApplication, run: &Run) -> String {
    // Validation lets no name of an application be so long that this were too long for a pod.
    let application = application.metadata.name.as_deref().unwrap_or_default();
    format!("{application}-{}-submission", run.ids().prefix)
}

/// The ConfigMap of the submission pod called `name`.
#[must_use]
pub fn config_map(name: &str) -> Child {
    Child { kind: CONFIG_MAP.to_owned(), name: name.to_owned() }
}

impl PodRecord {
    /// Whether it is the submission pod of the run with this id, made for the application with this uid.
    #[must_use]
    pub fn submits_for(&self, application_uid: &str, submission_id: &str) -> bool {
        self.submits
            && self.is_controlled_by(application_uid)
            && self.submission_id.as_deref() == Some(submission_id)
    }
}

fn metadata(application: &SparkApplication, run: &Run) -> Value {
    json!({
        "name": name(application, run),
        "labels": {
            label::APP_NAME: application.metadata.name,
            label::SUBMISSION_ID: run.id,
            label::LAUNCHED_BY: "true",
            label::SPARK_ROLE: role::SUBMISSION,
        },
        "ownerReferences": [owner_reference(application)],
    })
}

/// A file that `spark-submit` reads.
struct File {
    /// Its key in the ConfigMap, where there are no directories.
    key: String,
    /// Its path below [`DIRECTORY`].
    path: String,
    content: String,
}

fn files(command: &SparkSubmit, surroundings: &Surroundings) -> Vec<File> {
    let environment = &surroundings.environment;
    let of_run = command.files.iter().map(|(name, content)| File {
        key: (*name).to_owned(),
        path: (*name).to_owned(),
        content: content.clone(),
    });
    let admins =
        [(SPARK_CONF, Some(&environment.spark_conf)), (HADOOP_CONF, environment.hadoop_conf.as_ref())];
    let admins = admins.into_iter().flat_map(|(directory, files)| {
        files.into_iter().flatten().map(move |(name, content)| File {
            key: format!("{directory}.{name}"),
            path: format!("{directory}/{name}"),
            content: content.clone(),
        })
    });
    of_run.chain(admins).collect()
}

/// The volume's source, with each file at its path.
fn volume_source(application: &SparkApplication, run: &Run, files: &[File]) -> Value {
    let items: Vec<_> = files.iter().map(|file| json!({"key": file.key, "path": file.path})).collect();
    json!({"configMap": {"name": name(application, run), "items": items}})
}
