//! Decides what is to be done. Every function in this crate is pure: no client, clock, environment, randomness or
//! logging. All that a function needs to know is an argument, and the whole answer is a returned value.

pub mod application_metrics;
pub mod auxiliary;
pub mod digest;
pub mod driver;
pub mod events;
pub mod executors;
pub mod exposition;
pub mod lifecycle;
pub mod monitoring;
pub mod namespaces;
pub mod nesting;
pub mod pod_summary;
pub mod quota;
pub mod run;
pub mod schedule;
pub mod spec_hash;
pub mod submission;
pub mod submission_pod;
pub mod takeover;
pub mod validation;

use api::{SparkApplicationStatus, names::label};
use auxiliary::{AuxiliaryAction, AuxiliaryObjects, Exposure};
use events::Event;
use executors::ExecutorLimits;
use jiff::Timestamp;
use pod_summary::PodSummary;
use run::{Run, SubmissionId};
use serde_json::Value;
use spark_client::{Child, Objects, Reason};
use std::time::Duration;
use submission::{SubmissionEnvironment, Submitter};

/// All that the controller saw of one application. Built by `controller::observe`; tests build it from YAML.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The pod under the driver's name.
    pub driver: Driver,
    /// The executor pods of the current run.
    pub executors: Vec<PodSummary>,
    /// Pods that carry the application's name, other than the pod under the driver's name and the executors of a run
    /// that is followed. All such pods if the decision depends on them, otherwise none.
    pub strays: Vec<PodSummary>,
    /// The application's submission pods, of all runs.
    pub submission_pods: Vec<PodSummary>,
    /// The last state in which a driver was seen that no longer exists.
    pub departed: Option<Box<PodSummary>>,
    /// Why the volumes of the driver's pod or of the submission pod are not mounted. Looked up only if the pod has
    /// waited for its volumes for at least [`driver::MOUNTING`].
    pub mount_failure: Option<String>,
    /// When this process last wrote the status.
    pub recorded: Option<Timestamp>,
    /// Whether this process has made the objects that belong to the current run beside its pods.
    pub made: bool,
    /// The Services and Ingresses of the application.
    pub auxiliary: AuxiliaryObjects,
    /// The progress of the submission that was last started for this application, as far as this process knows.
    pub submission: Option<Submission>,
    /// The admin's settings for a submission; empty if no submission is due.
    pub submission_environment: SubmissionEnvironment,
    /// The time by the API server's clock, rounded down to the second; none before the first answer of the API server.
    pub server_time: Option<Timestamp>,
}

/// The pod under the driver's name.
#[derive(Clone, Debug, PartialEq)]
pub enum Driver {
    /// Unknown: no pod was taken from the cache, and the API server was not asked, because the decision does not depend
    /// on the pod.
    Unseen,
    /// The API server reports that no such pod exists.
    Gone,
    /// The pod exists.
    Pod {
        pod: Box<PodSummary>,
        /// Whether every object that the submission had to create exists; true where the decision does not depend on
        /// it.
        complete: bool,
    },
}

/// A submission that this process has started.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// The run that is submitted.
    pub id: SubmissionId,
    pub progress: SubmissionProgress,
}

/// How far the operator's own part of a submission has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmissionProgress {
    /// The operator is creating the objects of the driver or of a submission pod.
    Running,
    /// The driver and all objects that belong to it are made. Contains Spark's id of the application, if it is known.
    Succeeded { spark_application_id: Option<String> },
    /// The submission pod is made. The outcome of the submission is read from that pod.
    PodMade,
    /// A pod with the driver's name existed already. This is no failure: the next step depends on the owner of that
    /// pod.
    DriverExists,
    /// The submission has failed, for this reason, in words for the user.
    Failed(String),
}

/// What to do and what to record. The actions are carried out first, then the status is written, then the events are
/// sent; `auxiliary` comes last, and nothing waits for it.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Plan {
    pub actions: Vec<Action>,
    pub status: SparkApplicationStatus,
    pub events: Vec<Event>,
    pub auxiliary: Vec<AuxiliaryAction>,
    /// When to look at the application again if nothing happens before; never in terminal states.
    pub wake: Option<Duration>,
}

/// One effect. Each can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Starts the submission of a run, unless it is running.
    Submit(Box<SubmitRequest>),
    /// Ends the submission of this application that is running, whichever run it is for.
    StopSubmission,
    /// Creates these objects, unless they exist. If that fails, the run goes on without them.
    Make(Vec<Value>),
    /// Deletes the objects that the operator has made for a run beside its pods, as far as they exist.
    DeleteChildren(Vec<Child>),
    /// Deletes the pod of this name if it still has this uid.
    DeletePod { name: String, uid: String },
    /// Deletes all executors of a run.
    DeleteExecutors { submission_id: String },
    /// Adds the finalizer that keeps the driver's pod until its outcome is recorded, or removes it.
    ProtectDriver { name: String, uid: String, protect: bool },
    /// Deletes the application itself, unless it has changed since it was read.
    DeleteApplication,
}

/// All that is needed to submit one run.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitRequest {
    pub run: Run,
    pub by: By,
}

/// Who makes the objects of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// The operator makes these objects.
    Native(Objects),
    /// `spark-submit` makes the objects, in a submission pod.
    Pod {
        /// The submission pod, in the place of the driver's pod, and the objects that are made before it.
        objects: Objects,
        /// Why `spark-submit` is needed, where the operator would otherwise have made the driver's objects.
        fallback: Option<Reason>,
    },
}

impl By {
    /// Returns the submitter that makes the objects.
    #[must_use]
    pub const fn submitter(&self) -> Submitter {
        match self {
            Self::Native(_) => Submitter::Native,
            Self::Pod { .. } => Submitter::SparkSubmit,
        }
    }

    /// Returns the progress of the submission once all objects are made.
    #[must_use]
    pub fn progress(&self) -> SubmissionProgress {
        match self {
            Self::Native(objects) => {
                let id = objects.pod["metadata"]["labels"][label::SPARK_APP_SELECTOR].as_str();
                SubmissionProgress::Succeeded { spark_application_id: id.map(str::to_owned) }
            }
            Self::Pod { .. } => SubmissionProgress::PodMade,
        }
    }
}

/// The admin's decisions that affect what is to be done.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The API server's address in the form of Spark's `--master`: `k8s://https://…`.
    pub master: String,
    /// How long after a submission a driver pod may be missing before the application fails.
    pub driver_creation_grace: Duration,
    /// The submitter of applications that do not name one.
    pub submitter: Submitter,
    /// How submission pods are made.
    pub submission_pod: submission_pod::Settings,
    /// Whether the webhook customizes pods.
    pub has_webhook: bool,
    /// How much `status.executorState` may hold.
    pub executor_limits: ExecutorLimits,
    /// `timeToLiveSeconds` of applications that do not set it.
    pub default_time_to_live_seconds: Option<i64>,
    /// Whether drivers that ask for a PodDisruptionBudget get one.
    pub has_driver_pdb: bool,
    /// Whether a driver's pod is kept until its outcome is recorded.
    pub protects_driver_outcome: bool,
    /// How drivers are reached.
    pub exposure: Exposure,
}

impl Policy {
    /// Returns the policy in which only the API server's address is set and all else has its default.
    #[must_use]
    pub fn new(master: impl Into<String>) -> Self {
        Self {
            master: master.into(),
            driver_creation_grace: Duration::from_secs(10),
            submitter: Submitter::Auto,
            submission_pod: submission_pod::Settings::default(),
            has_webhook: true,
            executor_limits: ExecutorLimits::default(),
            default_time_to_live_seconds: None,
            has_driver_pdb: false,
            protects_driver_outcome: false,
            exposure: Exposure::default(),
        }
    }
}

impl Observed {
    /// Returns the progress of the submission of `id`, if it is known.
    fn submission_of(&self, id: &SubmissionId) -> Option<&SubmissionProgress> {
        self.submission
            .as_ref()
            .filter(|submission| submission.id == *id)
            .map(|submission| &submission.progress)
    }
}
