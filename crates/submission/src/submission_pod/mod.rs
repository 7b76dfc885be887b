//! Contains the submission pod: a pod in the application's namespace in which Spark's `spark-submit` runs for one run
//! of the application.
//!
//! The operator never runs `spark-submit` itself, because `spark-submit` runs code and reads files that the application
//! names. A submission that only Spark's own client can carry out runs in a pod with the driver's image and service
//! account, in the application's namespace. That pod has the same rights as a driver of that application, and no more.
//! [`objects`] builds the pod and the ConfigMap with the properties and pod templates of the run; [`state()`] reads the
//! progress of the submission from the pod. All names are derived from the run, so that a repeated submission finds the
//! objects that the first attempt created.

mod pod;
mod state;

use crate::{DIRECTORY, SparkSubmit, SubmissionEnvironment, findings::Validated, owned::owned, run::Run};
use api::{Identity, ObjectKey, ObjectKind, SparkApplication, annotation, label, role};
use serde_json::{Map, Value, json};
use spark_client::{Environment, Objects};
pub use state::{State, state};
use std::time::Duration;

/// The subdirectory of [`DIRECTORY`] with the files of the admin's `SPARK_CONF_DIR`.
const SPARK_CONF: &str = "conf";
/// The subdirectory of [`DIRECTORY`] with the files of the admin's `HADOOP_CONF_DIR`.
const HADOOP_CONF: &str = "hadoop";

/// The admin's settings for submission pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The CPU request, a Kubernetes quantity.
    pub cpu: String,
    /// The memory request and limit, a Kubernetes quantity.
    pub memory: String,
    /// The path of `spark-submit` in the applications' images.
    pub program: String,
    /// How long a submission pod may run after its start (`activeDeadlineSeconds`).
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

/// Returns the objects that submit `run`: the ConfigMap, and the submission pod in the field for the driver's pod.
///
/// # Errors
///
/// When an annotation of a pod template cannot be applied.
pub fn objects(
    application: &Validated,
    run: &Run,
    settings: &crate::Settings,
    submission_environment: &SubmissionEnvironment,
) -> Result<Objects, String> {
    let command = crate::spark_submit(application, run, settings, &submission_environment.defaults);
    let command = command.map_err(|refusal| refusal.brief())?;
    let environment = &submission_environment.environment;
    let files = files(&command, environment);
    // The key of a ConfigMap cannot contain a slash.
    let key = |path: &str| path.replace('/', ".");
    let items: Vec<_> = files.iter().map(|(path, _)| json!({"key": key(path), "path": path})).collect();
    let data: Map<_, _> = files.iter().map(|(path, content)| (key(path), Value::from(*content))).collect();
    let name = name(application, run);
    let volume = json!({"configMap": {"name": name, "items": items}});
    let metadata = json!({"name": name, "labels": {label::SPARK_ROLE: role::SUBMISSION}});
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": pod::spec(application, &command, &settings.submission_pod, environment, volume)?,
    });
    pod["metadata"]["labels"][annotation::ISTIO_INJECT] = "false".into();
    // A few requests to the API server need no service mesh, and a sidecar that keeps running would prevent the pod
    // from completing.
    pod["metadata"]["annotations"] =
        json!({annotation::ISTIO_INJECT: "false", annotation::LINKERD_INJECT: "disabled"});
    let config_map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": true,
        "data": data,
    });
    let own = |object| owned(object, application, Some(run.id.as_str()), label::LAUNCHED_BY);
    Ok(Objects { pod: own(pod), children: vec![own(config_map)] })
}

/// Returns the name of the submission pod of `run` and of its ConfigMap: `<application>-<16 hexadecimal
/// digits>-submission`. The name depends only on the application and the run's ordinal. So if the spec is edited twice
/// in a row and neither of the two runs is recorded, only one of them can have a submission pod.
pub fn name(application: &SparkApplication, run: &Run) -> String {
    // Validation limits the length of an application's name, so this name is not too long for a pod.
    let application = application.own_name();
    format!("{application}-{}-submission", run.ids().prefix)
}

/// Returns the ConfigMap of the submission pod called `name`.
pub fn config_map(name: &str) -> ObjectKey {
    ObjectKind::CONFIG_MAP.named(name)
}

/// Returns the files that `spark-submit` reads: their paths below [`DIRECTORY`], and their contents.
fn files<'a>(command: &'a SparkSubmit, environment: &'a Environment) -> Vec<(String, &'a str)> {
    let of_run = command.files.iter().map(|(name, content)| ((*name).to_owned(), &**content));
    let admins =
        [(SPARK_CONF, Some(&environment.spark_conf)), (HADOOP_CONF, environment.hadoop_conf.as_ref())];
    let admins = admins.into_iter().flat_map(|(directory, files)| {
        let files = files.into_iter().flatten();
        files.map(move |(name, content)| (format!("{directory}/{name}"), &**content))
    });
    of_run.chain(admins).collect()
}
