//! Computes the objects that Spark's own submission client would create for an application: the driver's pod, its
//! ConfigMap, its Service and whatever else it needs, equal to those of a real `spark-submit` of the same line of
//! Spark.
//!
//! [`objects`] is a pure function from a [`Submission`], which is what `spark-submit` would be given, to
//! [`Objects`]. Before anything is made it is certain that all of it can be: otherwise the answer is
//! [`NotNative`], which tells what `spark-submit` would refuse as well from what only the JVM can do.
//!
//! The steps are Spark's feature steps, one file each, listed in [`STEPS`] in Spark's order. The facts come from
//! recordings of real submissions, with which `tests/it/recordings` compares every object.
//!
//! The caller adds owner references, labels of its own and the customization of the pod. `plan::submission::native` is the caller in the
//! operator: it hands over the properties and pod templates that it would hand to `spark-submit`.
//!
//! # What is different on purpose
//!
//! - **D1** Nobody asks a remote file system whether jars and files are there, so `s3a://…` needs no Hadoop
//!   library here; a directory among them stays in its list.
//! - **D2** `spark.jars.packages` are resolved by the driver alone, which does so in any case: wrong
//!   coordinates fail there.
//! - **D3** Letters of all languages survive: a JVM under the POSIX locale makes them question marks.
//! - **D4** No temporary directories are left anywhere.
//! - **D5** A carriage return in an argument stays; Spark's shell script deletes it.
//! - **D6** Objects are created by whoever calls, not by a forced apply after the pod.
//! - **D7** What Spark does in the order of its hash maps, or in random order, is sorted here: environment
//!   variables, Secrets, volumes (and with them the number in a claim's name), directories, properties.
//! - **D8** R applications may have remote jars: Spark fails on them.
//!
//! Also: a `waitAppCompletion` that is neither true nor false is refused before anything is made, not after.

mod command;
mod conf;
mod config_map;
mod credentials;
mod dependencies;
mod double;
mod driver;
mod executor_template;
mod expansion;
mod hadoop;
mod input;
mod kerberos;
mod line;
mod local_dirs;
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
mod submitter_file;
mod template;
mod uri;
mod validation;
mod volumes;

use api::names::{conf as key, submit_conf};
use conf::Conf;
pub use conf::elements as list_elements;
pub use dependencies::flag_list;
use driver::Driver;
pub use expansion::{expanded, unbounded};
pub use input::{Environment, Files, Ids, NO_RESOURCE, Submission};
pub use line::Line;
use names::Names;
pub use names::possible_children;
pub use not_native::{NotNative, Reason};
pub use properties_file::{keys_alone, read_properties, trimmed};
pub use properties_text::{SYNTAX, escaped};
use serde_json::Value;
use std::collections::BTreeMap;
pub use uri::is_scheme;
pub use volumes::existing_volumes;

/// What a submission consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects {
    /// The driver's pod.
    pub pod: Value,
    /// What the pod needs, in the order in which Spark makes it: the driver's ConfigMap comes last.
    pub children: Vec<Value>,
}

/// One of the objects beside the driver's pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Child {
    pub kind: String,
    pub name: String,
}

impl Child {
    /// The name of `object`; none if it has none.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self { kind: text(&object["kind"])?, name: text(&object["metadata"]["name"])? })
    }
}

/// Adds one concern to the driver.
type Step = fn(&Context, &mut Driver) -> Result<(), NotNative>;

/// Spark's feature steps, in its order, each under the name of its class.
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

/// What a step may look at.
struct Context<'a> {
    submission: &'a Submission,
    line: Line,
    /// The properties that go to the driver, but for those that steps add.
    conf: Conf,
    names: Names,
    namespace: String,
    /// Where the driver finds the program.
    program: String,
    /// Those of Spark and of the user, but for a template's.
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

/// The objects of a submission.
///
/// # Errors
///
/// When there is nothing to make: see [`NotNative`].
pub fn objects(submission: &Submission) -> Result<Objects, NotNative> {
    let mut conf = Conf(submission.properties.clone());
    let excluded = settings::excluded_steps(submission, &conf)?;
    validation::check(submission, &conf)?;
    let program = dependencies::resolve(submission, &mut conf)?;
    settle(submission, &mut conf)?;
    let context = Context::new(submission, conf, program)?;
    volumes::check_executors(&context)?;

    let (pod, container) = template::starting_point(&context)?;
    let mut driver = Driver { pod, container, properties: BTreeMap::new(), children: Vec::new() };
    for (class, step) in STEPS {
        // Spark looks at the settings of a step that is left out as well.
        if excluded.iter().any(|excluded| excluded == class) {
            step(&context, &mut driver.clone())?;
        } else {
            step(&context, &mut driver)?;
        }
    }
    config_map::config_map(&context, &mut driver)?;

    let Driver { mut pod, container, children, .. } = driver;
    driver::list(&mut pod["spec"], "containers").push(container);
    Ok(Objects { pod, children })
}

/// Properties that a submission has whether anybody sets them or not.
fn settle(submission: &Submission, conf: &mut Conf) -> Result<(), NotNative> {
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

/// The API server with its scheme, which is HTTPS where nobody says.
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
