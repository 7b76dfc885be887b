//! Builds the objects that Spark's own submission client would create for an application: the driver's pod, its
//! ConfigMap, its Service and the other objects that the pod needs. The objects equal those of a real `spark-submit` of
//! the same release line of Spark, for example 4.0.
//!
//! [`objects`] is a pure function from a [`Submission`], which contains the input of `spark-submit`, to [`Objects`]. It
//! returns either all objects or an error, so that nothing is created for a submission that cannot be completed. The
//! error is a [`NotNative`], which distinguishes between submissions that `spark-submit` would refuse too and
//! submissions that only the JVM can carry out.
//!
//! The steps are Spark's feature steps, one file each, listed in [`STEPS`] in Spark's order. They are based on
//! recordings of real submissions: the tests compare every object with `tests/it/recordings`.
//!
//! The caller adds owner references, its own labels and the customization of the pod. In the operator the caller is
//! `submission::native`: it passes the properties and pod templates that it would pass to `spark-submit`.
//!
//! # Deliberate differences from Spark
//!
//! - **D1** The existence of jars and files on remote file systems is not checked, so no Hadoop library is needed for
//!   `s3a://…`. A directory in a list of jars or files stays in the list.
//! - **D2** `spark.jars.packages` are resolved only by the driver, which resolves them in any case. So wrong
//!   coordinates make the driver fail, not the submission.
//! - **D3** Letters of all languages are kept; a JVM under the POSIX locale replaces non-ASCII letters with question
//!   marks.
//! - **D4** No temporary directories are left behind.
//! - **D5** A carriage return in an argument is kept; Spark's shell script deletes it.
//! - **D6** The caller creates the objects. Spark creates the pod first and the other objects after it, with a forced
//!   apply.
//! - **D7** Where Spark uses the order of its hash maps or a random order, the order here is fixed, and sorted where
//!   there is a key to sort by: environment variables, Secrets, volumes (and with them the number in a claim's name),
//!   directories, properties.
//! - **D8** R applications may have remote jars; Spark fails on them.
//!
//! In addition, a `waitAppCompletion` that is neither true nor false is refused before any object is created. Spark
//! refuses such a value only after all objects are created.

mod command;
mod conf;
mod config_map;
mod credentials;
mod dependencies;
mod double;
mod driver_in_progress;
mod executor;
mod executor_template;
mod expansion;
pub mod failure;
mod hadoop;
mod input;
mod kerberos;
mod line;
mod local_dirs;
pub mod memory;
mod names;
mod network_policy;
mod not_native;
mod pod;
mod properties_file;
mod properties_text;
mod resources;
mod secrets;
mod service;
mod settings;
mod submit_conf;
mod submitter_file;
mod template;
mod uri;
mod validation;
mod volumes;

use api::names::conf as key;
pub use conf::{Conf, elements as list_elements};
pub use dependencies::flag_list;
use driver_in_progress::Driver;
pub use executor::{RESERVED as RESERVED_LABELS, executor};
pub use executor_template::{KEY as TEMPLATE_KEY, text as template_text};
pub use expansion::{expanded, unbounded};
pub use input::{Environment, Files, Ids, NO_RESOURCE, Submission};
pub use line::Line;
use names::Names;
pub use names::{possible_children, template_config_map};
pub use not_native::{NotNative, Reason};
pub use pod::place;
pub use properties_file::{keys_alone, read_properties, trimmed};
pub use properties_text::{file_text, properties_beside_file, without_times};
pub use resources::set_resources;
use serde_json::Value;
pub use settings::{IN_CLUSTER, belongs, is_setting, settings};
use std::collections::BTreeMap;
pub use uri::is_scheme;
pub use volumes::existing_volumes;

/// The objects of one submission.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects {
    /// The driver's pod.
    pub pod: Value,
    /// The other objects, which the pod needs, in the order in which Spark creates them: the driver's ConfigMap is the
    /// last.
    pub children: Vec<Value>,
}

/// One of Spark's feature steps: a function that adds the fields for one concern to the driver.
type Step = fn(&Context, &mut Driver) -> Result<(), NotNative>;

/// Spark's feature steps in Spark's order, each with the name of its class in Spark.
const STEPS: [(&str, Step); 12] = [
    ("BasicDriverFeatureStep", pod::basic),
    ("DriverKubernetesCredentialsFeatureStep", credentials::credentials),
    ("DriverServiceFeatureStep", service::service),
    ("NetworkPolicyFeatureStep", network_policy::network_policy),
    ("MountSecretsFeatureStep", secrets::mounts),
    ("EnvSecretsFeatureStep", secrets::environment),
    ("MountVolumesFeatureStep", volumes::mounts),
    ("DriverCommandFeatureStep", command::command),
    ("HadoopConfDriverFeatureStep", hadoop::configuration),
    ("KerberosConfDriverFeatureStep", kerberos::kerberos),
    ("PodTemplateConfigMapStep", executor_template::config_map),
    ("LocalDirsFeatureStep", local_dirs::local_dirs),
];

/// The input of a step.
struct Context<'a> {
    submission: &'a Submission,
    line: Line,
    /// The driver's properties, without the properties that steps add.
    conf: Conf,
    names: Names,
    namespace: String,
    /// The location of the program as the driver sees it.
    program: String,
    /// The driver's labels that Spark and the user's properties set, without the labels of a pod template.
    labels: BTreeMap<String, String>,
}

impl<'a> Context<'a> {
    fn new(submission: &'a Submission, conf: Conf, program: String) -> Result<Self, NotNative> {
        let app_name = conf.raw(key::APP_NAME).unwrap_or_default();
        let names = Names::new(&conf, app_name, &submission.ids)?;
        let labels = pod::labels(submission, &conf, &names)?;
        let namespace = conf.text(key::NAMESPACE)?.unwrap_or_else(|| "default".to_owned());
        if namespace.is_empty() {
            return Err(NotNative::refused(key::NAMESPACE, "the namespace is not specified"));
        }
        Ok(Self { submission, line: submission.line, conf, names, namespace, program, labels })
    }
}

/// Returns the objects of a submission.
///
/// # Errors
///
/// When the objects cannot be built: see [`NotNative`].
pub fn objects(submission: &Submission) -> Result<Objects, NotNative> {
    let (context, excluded) = context(submission)?;
    volumes::check_executors(&context)?;

    let (pod, container) = template::starting_point(&context)?;
    let mut driver = Driver { pod, container, properties: BTreeMap::new(), children: Vec::new() };
    for (class, step) in STEPS {
        // Spark also checks the settings of an excluded step, so such a step runs on a copy of the driver, which is
        // discarded.
        let mut copy = excluded.iter().any(|excluded| excluded == class).then(|| driver.clone());
        step(&context, copy.as_mut().unwrap_or(&mut driver))?;
    }
    config_map::config_map(&context, &mut driver)?;

    let Driver { mut pod, container, children, .. } = driver;
    driver_in_progress::list(&mut pod["spec"], "containers").push(container);
    Ok(Objects { pod, children })
}

/// Checks the command line of a submission. Returns the input of the steps, and the names of the excluded steps.
fn context(submission: &Submission) -> Result<(Context<'_>, Vec<String>), NotNative> {
    let mut conf = Conf(submission.properties.clone(), submission.line);
    let excluded = settings::excluded_steps(submission, &conf)?;
    validation::check(submission, &conf)?;
    let program = dependencies::resolve(submission, &mut conf)?;
    set_common_properties(submission, &mut conf)?;
    Ok((Context::new(submission, conf, program)?, excluded))
}

/// Sets the properties that every submission has: the app name and the submit time, unless they are set already, and
/// the master with its scheme. Removes `spark.driver.host`: Spark ignores the user's value in cluster mode, too.
fn set_common_properties(submission: &Submission, conf: &mut Conf) -> Result<(), NotNative> {
    conf.0.remove(submit_conf::DRIVER_HOST);
    let program = &submission.primary_resource;
    let file_name = || program.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let name = || submission.main_class.clone().unwrap_or_else(file_name);
    conf.0.entry(key::APP_NAME.to_owned()).or_insert_with(name);
    let time = || submission.now.as_millisecond().to_string();
    conf.0.entry(submit_conf::SUBMIT_TIME.to_owned()).or_insert_with(time);
    let master = normalised_master(conf.raw(key::MASTER).unwrap_or_default())?;
    conf.0.insert(key::MASTER.to_owned(), master);
    Ok(())
}

/// Returns `master` with a scheme for the API server: `https` if it names none.
fn normalised_master(master: &str) -> Result<String, NotNative> {
    let server = master.strip_prefix("k8s://").unwrap_or(master);
    match server.split_once("://") {
        None => Ok(format!("k8s://https://{server}")),
        Some((scheme, _)) if ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme)) => {
            Ok(master.to_owned())
        }
        Some((scheme, _)) => {
            Err(NotNative::refused(key::MASTER, format_args!("invalid Kubernetes master scheme: {scheme}")))
        }
    }
}
