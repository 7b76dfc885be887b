//! Decides what the operator has to do. Every function in this crate is pure: no client, clock, environment, randomness
//! or logging. A function gets all facts as arguments and returns the complete decision as a value.

pub mod auxiliary;
pub mod copies;
pub mod driver;
mod driver_account;
pub mod events;
pub mod executor_trial;
pub mod executors;
pub mod extension;
pub mod lifecycle;
mod merge_patch;
pub mod namespaces;
pub mod pod_requests;
pub mod quota;
pub mod submission_plan;
pub mod takeover;

use api::{ObjectKey, SparkApplicationStatus};
use auxiliary::{AuxiliaryAction, AuxiliaryObjects};
use copies::Copies;
use extension::Extensions;
use jiff::Timestamp;
pub use merge_patch::merge_patch;
use pods::PodSummary;
use serde_json::Value;
use spark_client::{Objects, Reason};
use std::{any::Any, sync::Arc, time::Duration};
use submission::{SubmissionEnvironment, executor_template::ExecutorTemplate, run};
use submission_plan::Submitter;

/// Everything that the controller has found out about one application. Built by `controller::observe`; tests build it
/// from YAML. The default is for a decision that depends on no fact.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The pod with the driver's name.
    pub driver: Driver,
    /// The executor pods of the current run.
    pub executors: Vec<PodSummary>,
    /// Pods whose label names this application, other than the pod with the driver's name and the executors of a run
    /// that is followed. All such pods if the decision depends on them, otherwise none.
    pub strays: Vec<PodSummary>,
    /// The application's submission pods, of all runs.
    pub submission_pods: Vec<PodSummary>,
    /// The application's pods that Spark does not know, such as placeholders, of all runs.
    pub others: Vec<PodSummary>,
    /// The memories of extensions, each in a type of its own: see [`extension::ExtensionMemory`].
    pub recalled: Vec<Arc<dyn Any + Send + Sync>>,
    /// The last known state of a driver pod that no longer exists.
    pub departed: Option<Box<PodSummary>>,
    /// Why the driver's pod or the submission pod does not start: `FailedMount: …`. Looked up only if the pod has been
    /// silent for at least [`driver::SILENCE`].
    pub start_failure: Option<String>,
    /// The API server's answer about the executors of the recorded run; `None` if this reconcile has not tried them.
    pub executor_trial: Option<executor_trial::Trial>,
    /// When this process last wrote the status of the application.
    pub recorded: Option<Timestamp>,
    /// Whether this process has created the objects that belong to the current run in addition to its pods.
    pub made: bool,
    /// The Services and Ingresses of the application.
    pub auxiliary: AuxiliaryObjects,
    /// The progress of the submission that was last started for this application, as far as this process knows.
    pub submission: Option<Submission>,
    /// The admin's settings for a submission; empty if no submission is due.
    pub submission_environment: SubmissionEnvironment,
    /// The text of the admin's `spark-defaults.conf` at present; `None` if no extension depends on it, or if the file
    /// cannot be read.
    pub defaults: Option<String>,
    /// The time by the API server's clock, rounded down to the second; `None` before the first answer of the API
    /// server.
    pub server_time: Option<Timestamp>,
}

/// The pod with the driver's name.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Driver {
    /// Unknown: the cache was not used and the API server was not asked, because the decision does not depend on the
    /// pod.
    #[default]
    Unseen,
    /// According to the API server, no such pod exists.
    Gone,
    /// The pod exists.
    Pod {
        pod: Box<PodSummary>,
        /// Whether every object that the submission had to create exists; true where the decision does not depend on
        /// it.
        complete: bool,
    },
}

impl Driver {
    /// Returns the pod, if it exists.
    pub fn pod(&self) -> Option<&PodSummary> {
        let Self::Pod { pod, .. } = self else { return None };
        Some(pod)
    }
}

/// A submission that this process has started.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// The run that is submitted.
    pub id: run::SubmissionId,
    pub progress: SubmissionProgress,
}

/// The progress of the operator's own part of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmissionProgress {
    /// The operator is creating the objects of the driver or of a submission pod.
    Running,
    /// The driver and all objects that belong to it are created. Contains Spark's application id (`spark-…`), if it is
    /// known.
    Succeeded { spark_application_id: Option<String> },
    /// The submission pod is created. The outcome of the submission is read from that pod.
    PodMade,
    /// A pod with the driver's name existed already. This is no failure: the next step depends on the owner of that
    /// pod.
    DriverExists,
    /// The submission has failed. Contains the reason, in words for the user.
    Failed(String),
}

/// What to do and what to record. The actions are carried out first, then the status is written, then the events are
/// sent; `auxiliary` comes last, and nothing waits for it.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Plan {
    pub actions: Vec<Action>,
    pub status: SparkApplicationStatus,
    pub events: Vec<events::Event>,
    pub auxiliary: Vec<AuxiliaryAction>,
    /// The pause before the next reconcile if nothing triggers one earlier; `None` if none is planned.
    pub wake: Option<Duration>,
}

/// One effect. Each effect can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Starts the submission of a run, unless it is running.
    Submit(Box<SubmitRequest>),
    /// Ends the running submission of this application, whichever run it is for.
    StopSubmission,
    /// Creates these objects, unless they exist. If that fails, the run continues without them.
    Make(Vec<Value>),
    /// Creates the copies with these numbers, unless they exist.
    MakeCopies { copies: Box<Copies>, numbers: Vec<u32> },
    /// Deletes those of the listed objects that exist. The operator has created them for a run in addition to its pods.
    DeleteChildren(Vec<ObjectKey>),
    /// Deletes the pod with this name if it still has this uid.
    DeletePod { name: String, uid: String },
    /// Changes the pod with this name if it still has this uid.
    PatchPod { name: String, uid: String, patch: PodPatch },
    /// Replaces the pod template of a run's executors and annotates the driver with its fingerprint, if the pod with
    /// the driver's name still has this uid. If that fails, the run keeps its previous template.
    RenewTemplate { template: ExecutorTemplate, driver: String, uid: String },
    /// Adds the finalizer that keeps the driver's pod until its outcome is recorded, or removes that finalizer.
    ProtectDriver { name: String, uid: String, protect: bool },
    /// Deletes the application itself, unless it has changed since it was read.
    DeleteApplication,
}

impl Action {
    /// Returns the action that deletes a pod; `None` if the pod is being deleted already.
    pub fn delete(pod: &PodSummary) -> Option<Self> {
        let delete = || Self::DeletePod { name: pod.name.clone(), uid: pod.uid.clone() };
        (!pod.terminating).then(delete)
    }
}

/// A change of a pod, without the pod's name and uid.
#[derive(Clone, Debug, PartialEq)]
pub enum PodPatch {
    /// A strategic merge patch of the pod itself.
    Spec(Value),
    /// A merge patch (RFC 7386) of the pod's status. If the operator may not change it, the status stays as it is.
    Status(Value),
}

/// Everything that is needed to submit one run.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitRequest {
    pub run: run::Run,
    pub by: By,
    /// Pods that are created before the pod of `by`, and after all other objects.
    pub copies: Copies,
}

/// Who creates the objects of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// The operator creates these objects itself.
    Native(Objects),
    /// `spark-submit` creates the objects, in a submission pod.
    Pod {
        /// The submission pod, in the field for the driver's pod, and the objects that are created before the
        /// submission pod.
        objects: Objects,
        /// Why `spark-submit` is needed; `None` if the admin or the user has chosen `spark-submit`.
        fallback: Option<Reason>,
    },
}

/// The admin's settings on which decisions depend.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The operator, as `<its namespace>/<its installation>`, if it is recorded with the runs that it submits.
    pub operator: Option<String>,
    /// The settings for all submissions.
    pub submission: submission::Settings,
    /// How long after a submission a driver pod may be missing before the application fails.
    pub driver_creation_grace: Duration,
    /// The submitter of applications that do not name one.
    pub submitter: Submitter,
    /// The greatest number of executors in `status.executorState`.
    pub executor_limit: usize,
    /// `timeToLiveSeconds` of applications that do not set it.
    pub default_time_to_live_seconds: Option<i64>,
    /// The service account of drivers whose applications name none; `None` for the namespace's `default`.
    pub default_service_account: Option<String>,
    /// Whether an edit of fields that executors get from their pod template leaves the run alone, for applications
    /// without the annotation `sparkoperator.k8s.io/partial-restart`.
    pub partial_restart: bool,
    /// Whether drivers get a PodDisruptionBudget if their applications request one.
    pub has_driver_pdb: bool,
    /// Whether a driver's pod is kept until its outcome is recorded.
    pub protects_driver_outcome: bool,
    /// Whether the API server is asked, once a run has a driver, whether it would accept the executors (a dry run).
    pub tries_executors: bool,
    /// The features that most clusters do not use.
    pub extensions: Extensions,
}

impl Policy {
    /// Returns a policy with this API server address and the default of every other setting.
    pub fn new(master: impl Into<String>) -> Self {
        Self {
            operator: None,
            submission: submission::Settings::new(master),
            driver_creation_grace: Duration::from_secs(10),
            submitter: Submitter::Auto,
            executor_limit: executors::MOST_EXECUTORS,
            default_time_to_live_seconds: None,
            default_service_account: None,
            partial_restart: false,
            has_driver_pdb: false,
            protects_driver_outcome: false,
            tries_executors: true,
            extensions: Extensions::default(),
        }
    }
}

/// The time for which changes of executors alone are collected before they are written: thousands of executors may start
/// and end within a short time.
const COLLECT: Duration = Duration::from_secs(1);

/// Returns how much longer changes of executors are collected after the last write of the status; `None` if they are to
/// be written now. If the time of that write is in the future, because the clock was set back, nothing is collected.
pub fn left_to_collect(written: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let rest = COLLECT.checked_sub(between(written.filter(|at| *at <= now)?, now))?;
    Some(rest).filter(|rest| !rest.is_zero())
}

/// Returns the time from `begin` to `end`; zero if `end` is earlier, because clocks may differ.
pub fn between(begin: Timestamp, end: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(begin)).unwrap_or_default()
}

impl Observed {
    /// Returns what an extension has recalled as a `T`.
    pub fn recalled<T: Any>(&self) -> Option<&T> {
        self.recalled.iter().find_map(|recalled| recalled.downcast_ref())
    }
}
