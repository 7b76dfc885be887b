//! Reduces a pod to the facts that the operator needs, about half a kilobyte. The caches contain these records instead
//! of pods.

use crate::particulars::{Particulars, Placement};
use api::{
    ExecutorState, Identity, LONGEST_NAME, Role, SparkApplication,
    excerpt::{self, LONGEST_EXPLANATION},
    is_object_name,
    names::{finalizer, label, role, volume},
    spark_container_of,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ContainerState, Pod, PodCondition, PodStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube_core::Resource;
use serde::Deserialize;

/// A driver, executor or submission pod, or a pod of an extension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PodSummary {
    pub name: String,
    pub uid: String,
    /// The label `sparkoperator.k8s.io/app-name`: the name of the SparkApplication.
    pub application: Option<String>,
    /// Driver or executor; `None` for any other pod.
    pub role: Option<Role>,
    /// Whether the pod is a submission pod: a pod in which `spark-submit` runs.
    pub submits: bool,
    /// The label `sparkoperator.k8s.io/submission-id`.
    pub submission_id: Option<String>,
    /// Spark's application id (`spark-…`), from the label `spark-app-selector`.
    pub spark_application_id: Option<String>,
    /// The `spark-exec-id` label, if it is a number.
    pub executor_id: Option<u64>,
    pub controller: Option<Controller>,
    pub created: Option<Timestamp>,
    /// When a driver, a submission pod or a SparkConnect server was assigned to a node; `None` for executors, because
    /// no decision depends on this time of theirs.
    pub assigned: Option<Timestamp>,
    /// Whether a driver, a submission pod or a SparkConnect server is pending and has a sandbox: its volumes are
    /// mounted and its network is set up, so that it waits only for images and init containers.
    pub has_sandbox: bool,
    pub phase: Phase,
    /// Whether the pod is being deleted.
    pub terminating: bool,
    /// How Spark's container ended, if it has.
    pub ended: Option<Ended>,
    /// Whether Spark's container is running or has ended.
    pub started: bool,
    /// Why the pod is in its phase, if Kubernetes reports it: `Evicted: The node was low on resource: memory`.
    pub message: Option<String>,
    /// What the pod waits for, if it cannot start without help: `Unschedulable`, `ImagePullBackOff`.
    pub waiting: Option<Waiting>,
    /// Whether a finalizer keeps the pod until its outcome is recorded: see [`finalizer::DRIVER_OUTCOME`].
    pub protected: bool,
    /// The name of the ConfigMap that contains the driver's `spark.properties`.
    pub driver_config_map: Option<String>,
    /// The names of the PersistentVolumeClaims that a driver mounts, limited to those names that Spark gives to claims
    /// for a single driver.
    pub claims: Vec<String>,
    /// What extensions have set on the pod, and its placement.
    pub particulars: Option<Box<Particulars>>,
}

/// The owner that controls a pod.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Controller {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

impl Controller {
    /// Returns the controller of the pod with this metadata; `None` if it has none, or if its kind, name or uid is too
    /// long to be that of a controller whose pods the operator uses.
    pub fn of(pod: &ObjectMeta) -> Option<Self> {
        let owner = pod.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))?;
        // Kubernetes does not limit these lengths.
        let is_short = [&owner.kind, &owner.name, &owner.uid].iter().all(|text| text.len() <= LONGEST_NAME);
        is_short.then(|| Self { kind: owner.kind.clone(), name: owner.name.clone(), uid: owner.uid.clone() })
    }
}

api::words! {
    /// The phase of a pod. The text is the one in its status.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
    pub enum Phase {
        #[default]
        Pending = "Pending",
        Running = "Running",
        Succeeded = "Succeeded",
        Failed = "Failed",
        Unknown = "Unknown",
    }
}

/// How a container has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ended {
    pub exit_code: i32,
    pub reason: String,
    /// The container's termination message.
    pub message: Option<String>,
}

/// The reason why a pod does not start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Waiting {
    /// One word: `ImagePullBackOff`, `Unschedulable`.
    pub reason: String,
    pub message: Option<String>,
}

/// The maximum number of claims in the record of a driver, since a user may create a pod with thousands. Claims beyond
/// this number are deleted with the driver, their owner.
const MOST_CLAIMS: usize = 100;

impl PodSummary {
    /// Builds the record of a pod of which only the metadata is known. The record does not contain the state of the
    /// pod.
    pub fn of_metadata(metadata: &ObjectMeta) -> Self {
        Self::of(&Pod { metadata: metadata.clone(), ..Pod::default() })
    }

    /// Builds the record of `pod`.
    pub fn of(pod: &Pod) -> Self {
        let label = |key: &str| pod.metadata.labels.as_ref()?.get(key).cloned();
        let status = pod.status.as_ref();
        let spark = spark_container(pod);
        let spark_role = label(label::SPARK_ROLE);
        let role = spark_role.as_deref().and_then(Role::from_label);
        let submits = spark_role.as_deref() == Some(role::SUBMISSION);
        let serves = spark_role.as_deref() == Some(role::CONNECT_SERVER);
        let is_placed = role == Some(Role::Driver) || submits || serves;
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let conf = volumes.iter().find(|volume| volume.name == volume::SPARK_CONF_DRIVER);
        let config_map = conf.and_then(|conf| Some(conf.config_map.as_ref()?.name.clone()));
        let phase = |text: &str| {
            Phase::ALL.into_iter().find(|known| known.as_str() == text).unwrap_or(Phase::Unknown)
        };
        // The complete output of `spark-submit` is kept: it contains the exception and its causes. If the end of the log of
        // another container serves as the message, the error is usually in its last lines.
        let longest = if submits { usize::MAX } else { LONGEST_EXPLANATION };
        let last_words = |message: &str| excerpt::end(message.trim().to_owned(), longest);
        let is_its = |name: &&String| {
            role == Some(Role::Driver) && name.contains(volume::DRIVER_CLAIM) && is_object_name(name)
        };
        let claims =
            volumes.iter().filter_map(|volume| Some(&volume.persistent_volume_claim.as_ref()?.claim_name));
        Self {
            name: pod.own_name().to_owned(),
            uid: pod.own_uid().to_owned(),
            application: label(label::APP_NAME),
            role,
            submits,
            submission_id: label(label::SUBMISSION_ID),
            spark_application_id: label(label::SPARK_APP_SELECTOR),
            executor_id: label(label::SPARK_EXEC_ID).and_then(|id| id.parse().ok()),
            controller: Controller::of(&pod.metadata),
            created,
            assigned: status.filter(|_| is_placed).and_then(|status| assigned(status, created)),
            has_sandbox: status.is_some_and(|status| is_placed && has_sandbox(status)),
            phase: status.and_then(|status| status.phase.as_deref()).map_or(Phase::Pending, phase),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            ended: spark.and_then(|state| state.terminated.as_ref()).map(|terminated| Ended {
                exit_code: terminated.exit_code,
                reason: terminated.reason.clone().unwrap_or_default(),
                message: terminated.message.as_deref().map(last_words).filter(|words| !words.is_empty()),
            }),
            started: spark.is_some_and(|state| state.running.is_some() || state.terminated.is_some()),
            message: status.and_then(message),
            waiting: status.and_then(waiting),
            protected: pod.metadata.finalizers.iter().flatten().any(|name| name == finalizer::DRIVER_OUTCOME),
            driver_config_map: config_map.filter(|name| is_object_name(name)),
            claims: claims.filter(is_its).take(MOST_CLAIMS).cloned().collect(),
            particulars: Particulars::of(pod, role, spark_role.as_deref()).map(Box::new),
        }
    }

    /// Whether the pod has the role `role` in the run with this submission id.
    pub fn is_of(&self, role: Role, submission_id: &str) -> bool {
        self.role == Some(role) && self.submission_id.as_deref() == Some(submission_id)
    }

    /// Whether the pod is an executor that a driver has created: the driver with this uid, or any driver if the uid is
    /// not known. The labels alone prove nothing: a user who may create pods may set any labels.
    pub fn is_executor_of(&self, driver: Option<&str>) -> bool {
        // Spark's other allocators (`spark.kubernetes.allocation.pods.allocator`) create a StatefulSet or a Deployment,
        // which the driver owns. The pods' controller is the StatefulSet or the Deployment's ReplicaSet.
        let is_owner = |owner: &Controller| match &*owner.kind {
            "Pod" => driver.is_none_or(|uid| owner.uid == uid),
            "StatefulSet" => owner.name.starts_with("spark-s-"),
            "ReplicaSet" => owner.name.starts_with("spark-d-"),
            _ => false,
        };
        self.role == Some(Role::Executor) && self.controller.as_ref().is_some_and(is_owner)
    }

    /// Whether the pod is an executor that a driver has created, or any other pod that the application with this uid
    /// controls.
    pub fn is_made_for(&self, uid: &str) -> bool {
        if self.role == Some(Role::Executor) { self.is_executor_of(None) } else { self.is_controlled_by(uid) }
    }

    /// Whether the pod is the submission pod of the run with this submission id, and the application with this uid
    /// controls it.
    pub fn submits_for(&self, application_uid: &str, submission_id: &str) -> bool {
        self.submits
            && self.is_controlled_by(application_uid)
            && self.submission_id.as_deref() == Some(submission_id)
    }

    /// Whether a SparkApplication called `name` controls the pod: the present application, or a deleted one that had
    /// the same name.
    pub fn is_of_application(&self, name: &str) -> bool {
        let controller = self.controller.as_ref();
        controller.is_some_and(|owner| owner.kind == SparkApplication::kind(&()) && owner.name == name)
    }

    /// Returns what the pod waits for, if the pod's status contains it: `ImagePullBackOff: Back-off pulling image
    /// "spark"`.
    pub fn waiting_for(&self) -> Option<String> {
        let Waiting { reason, message } = self.waiting.as_ref()?;
        Some(message.as_ref().map_or_else(|| reason.clone(), |message| format!("{reason}: {message}")))
    }

    /// Returns a label or annotation of a driver, if it is one of those that are recorded: see [`Particulars::marks`].
    pub fn mark(&self, key: &str) -> Option<&str> {
        let mut marks = self.particulars.as_ref()?.marks.iter();
        marks.find(|(mark, _)| mark == key).map(|(_, value)| &**value)
    }

    /// Returns the role of a pod that an extension has created: see [`Particulars::role`].
    pub fn other_role(&self) -> Option<&str> {
        self.particulars.as_ref()?.role.as_deref()
    }

    /// Returns the placement of the pod, if it is recorded: see [`Placement`].
    pub fn placement(&self) -> Option<&Placement> {
        self.particulars.as_ref()?.placement.as_ref()
    }

    /// Returns the state of a driver, an executor or a SparkConnect server. Once Spark's container has ended, its exit
    /// code decides, even if sidecars still run, or cannot start and keep the pod in phase Pending.
    pub fn state(&self) -> ExecutorState {
        match (self.phase, &self.ended) {
            (Phase::Succeeded, _) => ExecutorState::Completed,
            (Phase::Unknown, _) => ExecutorState::Unknown,
            (_, Some(ended)) if ended.exit_code == 0 => ExecutorState::Completed,
            (_, Some(_)) | (Phase::Failed, None) => ExecutorState::Failed,
            (Phase::Running, None) => ExecutorState::Running,
            (Phase::Pending, None) => ExecutorState::Pending,
        }
    }

    /// Whether the pod has ended: it uses no resources of its node any more.
    pub const fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether the application with this uid controls the pod.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.uid == uid)
    }
}

/// Returns the reason and the message of the pod's phase, and those of the condition `DisruptionTarget`, which explains
/// why Kubernetes removes the pod.
fn message(status: &PodStatus) -> Option<String> {
    let disruption = condition(status, "DisruptionTarget", "True");
    let disruption = disruption.map(|condition| [&condition.reason, &condition.message]);
    let said = [&status.reason, &status.message].into_iter().chain(disruption.into_iter().flatten());
    let said: Vec<_> = said.flatten().filter(|text| !text.is_empty()).map(String::as_str).collect();
    (!said.is_empty()).then(|| excerpt::explanation(said.join(": ").trim().to_owned()))
}

/// Returns what a pending pod waits for. States that every pod goes through are left out.
fn waiting(status: &PodStatus) -> Option<Waiting> {
    const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];
    if status.phase.as_deref() != Some("Pending") {
        return None;
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let held = containers
        .filter_map(|container| container.state.as_ref()?.waiting.as_ref())
        .map(|waiting| (waiting.reason.as_ref(), waiting.message.as_ref()))
        .find(|(reason, _)| reason.is_some_and(|reason| !USUAL.contains(&reason.as_str())));
    let unscheduled = || {
        let condition = condition(status, "PodScheduled", "False")?;
        Some((condition.reason.as_ref(), condition.message.as_ref()))
    };
    let (reason, message) = held.or_else(unscheduled)?;
    let message = message.map(|message| excerpt::explanation(message.trim().to_owned()));
    Some(Waiting { reason: reason?.clone(), message })
}

/// Returns the condition of this type, if it has this status.
fn condition<'a>(status: &'a PodStatus, type_: &str, is: &str) -> Option<&'a PodCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_ && condition.status == is)
}

/// Returns when the pod was assigned to a node; `None` if it was not.
fn assigned(status: &PodStatus, created: Option<Timestamp>) -> Option<Timestamp> {
    let given = condition(status, "PodScheduled", "True")?;
    given.last_transition_time.as_ref().map(|time| time.0).or(created)
}

/// Whether the pod is pending and its sandbox exists.
fn has_sandbox(status: &PodStatus) -> bool {
    status.phase.as_deref() == Some("Pending")
        && condition(status, "PodReadyToStartContainers", "True").is_some()
}

/// Returns the state of the container in which Spark runs.
fn spark_container(pod: &Pod) -> Option<&ContainerState> {
    let statuses = pod.status.as_ref()?.container_statuses.as_deref()?;
    let name = &spark_container_of(pod)?.name;
    statuses.iter().find(|status| status.name == *name)?.state.as_ref()
}
