//! Changes a Spark pod as its annotations describe: the controller writes the annotations, the webhook applies them.
//!
//! A [`Step`] is one annotation of the contract between the controller and the webhook: how the annotation's text is
//! computed from an application, and how the text changes a pod. [`STEPS`] lists the steps in the order in which they
//! are applied. The order is that of Kubeflow's operator, so that the same application gives the same pod.
//!
//! The pod is JSON that is read and patched, and never re-serialised from Rust types, so that fields which these types
//! do not know survive. All steps are idempotent as the API server sees it: a pod that was customized, stored with the
//! API server's defaults and customized again does not change.
//!
//! The annotations grant no permissions: a user who may create a pod with them could have written the fields of the pod
//! directly.

mod config_maps;
mod containers;
mod entries;
mod env;
mod lifecycle;
mod monitoring;
mod network;
mod owner;
mod pod;
mod resources;
mod scheduling;
mod security;
mod value;
pub mod volume_name;
mod volumes;

use api::{
    Role, SparkApplication, SparkPodSpec, excerpt,
    names::{annotation, label},
};
use json_patch::Patch;
use pod::SparkPod;
use serde_json::Value;
use std::collections::BTreeMap;

/// Every step, in the order in which the steps are applied.
pub const STEPS: [Step; 29] = [
    owner::OWNER_REFERENCE,
    env::ENV,
    env::ENV_FROM,
    config_maps::HADOOP_CONFIG_MAP,
    config_maps::SPARK_CONFIG_MAP,
    config_maps::CONFIG_MAPS,
    volumes::VOLUMES,
    volumes::VOLUME_MOUNTS,
    network::PORTS,
    network::HOST_NETWORK,
    network::HOST_ALIASES,
    containers::INIT_CONTAINERS,
    containers::SIDECARS,
    network::DNS_CONFIG,
    scheduling::PRIORITY_CLASS_NAME,
    scheduling::SCHEDULER_NAME,
    scheduling::POD_GROUP,
    scheduling::SCHEDULING_GATE,
    scheduling::NODE_SELECTOR,
    scheduling::AFFINITY,
    scheduling::TOLERATIONS,
    resources::MEMORY_LIMIT,
    resources::GPU,
    monitoring::PROMETHEUS,
    security::SECURITY_CONTEXT,
    security::POD_SECURITY_CONTEXT,
    lifecycle::TERMINATION_GRACE_PERIOD_SECONDS,
    lifecycle::LIFECYCLE,
    lifecycle::SHARE_PROCESS_NAMESPACE,
];

/// The maximum number of bytes of all annotations of an object, keys and values together: Kubernetes' own limit, which
/// the API server checks only after the webhooks.
pub const LARGEST: usize = 256 << 10;

/// One annotation of the contract: how its text is computed from an application, and how it changes a pod.
pub struct Step {
    /// The annotation's key.
    pub key: &'static str,
    /// Returns the text for pods of a role, given the role's section of the application; `None` if the application
    /// sets none.
    asked: fn(&SparkPodSpec, &SparkApplication, Role) -> Option<String>,
    /// Changes the pod as the text describes.
    apply: fn(&mut SparkPod, &str) -> Result<(), Problem>,
}

/// What is wrong with an annotation's value, and where in the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON path inside the value, such as `[0].name`; empty if the whole value is meant.
    pub path: String,
    /// What is wrong and what to do about it.
    pub text: String,
}

impl Problem {
    /// Creates a problem. Both texts are cut as explanations are, since they may quote values of any length.
    fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: excerpt::explanation(path.into()), text: excerpt::explanation(text.into()) }
    }
}

/// Why a pod is not admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// An annotation cannot be applied, because its value is wrong or does not fit the pod.
    #[error("annotation {key}{}{}: {}", if problem.path.is_empty() { "" } else { " at " }, problem.path, problem.text)]
    Annotation { key: &'static str, problem: Problem },
    /// The annotations are larger than Kubernetes allows.
    #[error(
        "annotations {}…: they have {size} bytes, and Kubernetes allows {LARGEST}: move large values into ConfigMaps",
        annotation::PREFIX
    )]
    TooLarge { size: usize },
    /// The pod carries annotations of the contract but is neither a driver nor an executor.
    #[error(
        "label {}: must be `driver` or `executor` on a pod with {}… annotations",
        label::SPARK_ROLE,
        annotation::PREFIX
    )]
    NoRole,
    /// No container can be identified as Spark's.
    #[error(
        "spec.containers: none of {} is Spark's: name it `{expected}`, or let its args begin with `driver` or `executor`",
        seen.join(", ")
    )]
    NoSparkContainer { expected: &'static str, seen: Vec<String> },
}

impl Denial {
    /// Returns the subject of the denial without any of the values: for logs.
    pub fn subject(&self) -> String {
        match self {
            Self::Annotation { key, problem } if problem.path.is_empty() => (*key).to_owned(),
            Self::Annotation { key, problem } => format!("{key} at {}", problem.path),
            Self::TooLarge { .. } => "metadata.annotations".to_owned(),
            Self::NoRole => label::SPARK_ROLE.to_owned(),
            Self::NoSparkContainer { .. } => "spec.containers".to_owned(),
        }
    }
}

/// Returns the annotations by which the webhook applies the settings of `application` to pods of `role`, including the
/// contract's version; empty if there are no such settings.
pub fn annotations(application: &SparkApplication, role: Role) -> BTreeMap<String, String> {
    let pod = role.pod(&application.spec);
    let asked = |step: &Step| Some((step.key.to_owned(), (step.asked)(pod, application, role)?));
    let mut annotations: BTreeMap<_, _> = STEPS.iter().filter_map(asked).collect();
    if !annotations.is_empty() {
        annotations.insert(annotation::CONTRACT.to_owned(), annotation::CONTRACT_VERSION.to_string());
    }
    annotations
}

/// Whether `key` is an annotation that this contract defines.
pub fn is_of_contract(key: &str) -> bool {
    key == annotation::CONTRACT || STEPS.iter().any(|step| step.key == key)
}

/// Returns the pod, changed as its own annotations describe.
///
/// # Errors
///
/// The same as those of [`patch`].
pub fn customized(pod: &Value) -> Result<Value, Vec<Denial>> {
    let mut customized = pod.clone();
    json_patch::patch(&mut customized, &patch(pod)?).expect("the patch was computed from this pod");
    Ok(customized)
}

/// Returns the patch (RFC 6902) that changes a pod as its own annotations describe; empty if the pod has none of these
/// annotations, or already is as they describe.
///
/// # Errors
///
/// All annotations that cannot be applied, not only the first. If the annotations are too large, the contract's version
/// cannot be used, or the pod has no role or no Spark container, this is the only error.
pub fn patch(pod: &Value) -> Result<Patch, Vec<Denial>> {
    let annotations = &pod["metadata"]["annotations"];
    let asked: Vec<_> =
        STEPS.iter().filter_map(|step| Some((step, annotations[step.key].as_str()?))).collect();
    if asked.is_empty() {
        return Ok(Patch::default());
    }
    let size: usize = asked.iter().map(|(step, text)| step.key.len() + text.len()).sum();
    if size > LARGEST {
        return Err(vec![Denial::TooLarge { size }]);
    }
    check_contract(annotations).map_err(|denial| vec![denial])?;
    let mut pod = SparkPod::new(pod).map_err(|denial| vec![denial])?;
    let denials: Vec<_> = asked
        .into_iter()
        .filter_map(|(step, text)| {
            let problem = (step.apply)(&mut pod, text).err()?;
            Some(Denial::Annotation { key: step.key, problem })
        })
        .collect();
    if denials.is_empty() { Ok(pod.into_patch()) } else { Err(denials) }
}

/// Checks that this webhook knows the version of the contract. A missing version counts as the first version: people
/// who write annotations by hand need not know of versions.
fn check_contract(annotations: &Value) -> Result<(), Denial> {
    const KNOWN: u32 = annotation::CONTRACT_VERSION;
    let Some(found) = annotations[annotation::CONTRACT].as_str() else { return Ok(()) };
    let text = match found.parse::<u32>() {
        Ok(..=KNOWN) => return Ok(()),
        Ok(version) => {
            format!(
                "contract version {version} is newer than {KNOWN}, the one this webhook knows: upgrade the webhook first"
            )
        }
        Err(_) => format!("`{found}` is not a version (try `{KNOWN}`)"),
    };
    Err(Denial::Annotation { key: annotation::CONTRACT, problem: Problem::new("", text) })
}
