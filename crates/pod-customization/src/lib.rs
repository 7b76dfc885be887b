//! Changes a Spark pod as its annotations describe: the controller writes the annotations, the webhook applies them.
//!
//! A [`Concern`] is one annotation of the contract between the controller and the webhook: how the annotation's value
//! is computed from an application, and how the value changes a pod. [`STEPS`] lists the concerns in the order in which
//! they are applied. The order is that of Kubeflow's operator, so that the same application gives the same pod.
//!
//! The pod is JSON that is read and patched, and never re-serialised from Rust types, so that fields which these types
//! do not know survive. All steps are idempotent as the API server sees it: a pod that was customized, stored with the
//! API server's defaults and customized again does not change.
//!
//! The annotations grant no permissions: a user who may create a pod with them could have written the fields of the pod
//! directly.

mod annotation_value;
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
pub mod volume_name;
mod volumes;

use annotation_value::AnnotationValue;
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
    step(&owner::OWNER_REFERENCE),
    step(&env::ENV),
    step(&env::ENV_FROM),
    step(&config_maps::HADOOP_CONFIG_MAP),
    step(&config_maps::SPARK_CONFIG_MAP),
    step(&config_maps::CONFIG_MAPS),
    step(&volumes::VOLUMES),
    step(&volumes::VOLUME_MOUNTS),
    step(&network::PORTS),
    step(&network::HOST_NETWORK),
    step(&network::HOST_ALIASES),
    step(&containers::INIT_CONTAINERS),
    step(&containers::SIDECARS),
    step(&network::DNS_CONFIG),
    step(&scheduling::PRIORITY_CLASS_NAME),
    step(&scheduling::SCHEDULER_NAME),
    step(&scheduling::POD_GROUP),
    step(&scheduling::SCHEDULING_GATE),
    step(&scheduling::NODE_SELECTOR),
    step(&scheduling::AFFINITY),
    step(&scheduling::TOLERATIONS),
    step(&resources::MEMORY_LIMIT),
    step(&resources::GPU),
    step(&monitoring::PROMETHEUS),
    step(&security::SECURITY_CONTEXT),
    step(&security::POD_SECURITY_CONTEXT),
    step(&lifecycle::TERMINATION_GRACE_PERIOD_SECONDS),
    step(&lifecycle::LIFECYCLE),
    step(&lifecycle::SHARE_PROCESS_NAMESPACE),
];

/// The maximum number of bytes of all annotations of an object, keys and values together: Kubernetes' own limit, which
/// the API server checks only after the webhooks.
pub const LARGEST: usize = 256 << 10;

/// One annotation of the contract, whose value is a `V`: how the value is computed from an application, and how it
/// changes a pod.
struct Concern<V> {
    /// The annotation's key.
    key: &'static str,
    /// Returns the value for pods of a role, given the role's section of the application; `None` if the application
    /// sets none.
    asked: fn(&SparkPodSpec, &SparkApplication, Role) -> Option<V>,
    /// Changes the pod as the value describes.
    apply: fn(&mut SparkPod, V) -> Result<(), Problem>,
}

/// A [`Concern`] with its type erased, so that all concerns fit into one list.
pub struct Step {
    /// The annotation's key.
    pub key: &'static str,
    concern: &'static dyn AnyConcern,
}

const fn step<V: AnnotationValue + 'static>(concern: &'static Concern<V>) -> Step {
    Step { key: concern.key, concern }
}

/// A [`Concern`] whose value is the text of the annotation.
trait AnyConcern: Sync {
    fn asked(&self, application: &SparkApplication, role: Role) -> Option<String>;
    fn apply(&self, pod: &mut SparkPod, text: &str) -> Result<(), Problem>;
}

impl<V: AnnotationValue> AnyConcern for Concern<V> {
    fn asked(&self, application: &SparkApplication, role: Role) -> Option<String> {
        (self.asked)(role.pod(&application.spec), application, role).map(|value| value.encode())
    }

    fn apply(&self, pod: &mut SparkPod, text: &str) -> Result<(), Problem> {
        (self.apply)(pod, V::decode(text)?)
    }
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
    let mut annotations: BTreeMap<_, _> = STEPS
        .iter()
        .filter_map(|step| Some((step.key.to_owned(), step.concern.asked(application, role)?)))
        .collect();
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
            let problem = step.concern.apply(&mut pod, text).err()?;
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
