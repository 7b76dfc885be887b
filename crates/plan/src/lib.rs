//! Decides what is to be done. Everything here is pure: no client, clock, environment, randomness or log. All that a
//! decision needs is an argument, and its whole answer is a value.

pub mod application_metrics;
pub mod children;
pub mod digest;
pub mod driver;
pub mod events;
pub mod executors;
pub mod exposition;
pub mod lease;
pub mod lifecycle;
pub mod monitoring;
pub mod namespaces;
pub mod nesting;
pub mod pod_record;
pub mod quota;
pub mod registration;
pub mod renewal;
pub mod run;
pub mod schedule;
pub mod spec_hash;
pub mod submission;
pub mod submission_pod;
pub mod takeover;
pub mod validation;

use api::{SparkApplicationStatus, names::label};
use children::{Aside, Companions, Exposure};
use events::Event;
use executors::ExecutorLimits;
use jiff::Timestamp;
use pod_record::PodRecord;
use run::{Run, SubmissionId};
use serde_json::Value;
use spark_client::{Child, Objects, Reason};
use std::time::Duration;
use submission::{Submitter, Surroundings};

/// Everything that the controller saw of one application. Built by `controller::observe`; tests build it from
/// YAML.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The pod under the driver's name.
    pub driver: Driver,
    /// The executor pods of the current run.
    pub executors: Vec<PodRecord>,
    /// Pods that carry the application's name but neither stand under its driver's nor are executors of a run that is
    /// followed: all that there are, where the decision depends on it.
    pub strays: Vec<PodRecord>,
    /// The application's submission pods, of whichever runs.
    pub submission_pods: Vec<PodRecord>,
    /// The last that was seen of a driver which is gone.
    pub departed: Option<Box<PodRecord>>,
    /// Why the driver's volumes are not there, where somebody asked.
    pub mount_failure: Option<String>,
    /// When this process wrote the status last.
    pub recorded: Option<Timestamp>,
    /// Whether this process has made what belongs to the run beside its pods.
    pub made: bool,
    /// The Services and Ingresses beside it.
    pub companions: Companions,
    /// What became of the submission that was started for this application last, as far as this process
    /// knows.
    pub submission: Option<Submission>,
    /// What a submission finds around it; empty where none is due.
    pub surroundings: Surroundings,
    /// The time by the API server's clock, to the second below; none if it has never told.
    pub server_time: Option<Timestamp>,
}

/// The pod under the driver's name.
#[derive(Clone, Debug, PartialEq)]
pub enum Driver {
    /// Not in the cache, and the state does not depend on it, so nobody asked.
    Unseen,
    /// The API server says that there is none.
    Gone,
    /// There it is.
    Pod {
        pod: Box<PodRecord>,
        /// Whether every object that the submission had to create exists; true where nobody needs to know.
        complete: bool,
    },
}

/// A submission that this process has started.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// For which run.
    pub id: SubmissionId,
    pub progress: SubmissionProgress,
}

/// How far a submission has come, as far as the operator itself works on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmissionProgress {
    /// The operator is creating the objects: the driver's, or those of a submission pod.
    Running,
    /// The driver and all that belongs to it are made, for what Spark calls this application, where that is known.
    Succeeded { spark_application_id: Option<String> },
    /// The submission pod is made; what becomes of it is seen from the pod.
    PodMade,
    /// A pod had the driver's name already. That is no failure: whose pod it is decides what happens next.
    DriverExists,
    /// Why, in words for the user.
    Failed(String),
}

/// What to do and what to record: the actions are carried out first, then the status is written, then the
/// events are sent; what is done aside comes last, and nobody waits for it.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Plan {
    pub actions: Vec<Action>,
    pub status: SparkApplicationStatus,
    pub events: Vec<Event>,
    pub aside: Vec<Aside>,
    /// When to look again, should nothing happen before; never in terminal states.
    pub wake: Option<Duration>,
}

/// One effect. Each can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Start the submission of a run, unless it is running.
    Submit(Box<SubmitRequest>),
    /// End whatever submission of this application is on its way.
    StopSubmission,
    /// Make these, as far as they are not there. Where that fails, the run goes on without them.
    Make(Vec<Value>),
    /// Delete what the operator has made for a run beside its pods, as far as it is there.
    DeleteChildren(Vec<Child>),
    /// Delete the pod of this name if it still has this uid.
    DeletePod { name: String, uid: String },
    /// Delete all executors of a run.
    DeleteExecutors { submission_id: String },
    /// Keep the driver's pod by a finalizer until its outcome is recorded, or let it go.
    ProtectDriver { name: String, uid: String, protect: bool },
    /// Delete the application itself, if nobody has changed it since.
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
    /// The operator makes these.
    Native(Objects),
    /// `spark-submit` makes them, in a submission pod.
    Pod {
        /// The submission pod in place of the driver's, and what is made before it.
        objects: Objects,
        /// Why it has to, where the operator would have made the driver's objects otherwise.
        fallback: Option<Reason>,
    },
}

impl By {
    /// The submitter's name.
    #[must_use]
    pub const fn submitter(&self) -> Submitter {
        match self {
            Self::Native(_) => Submitter::Native,
            Self::Pod { .. } => Submitter::SparkSubmit,
        }
    }

    /// The progress of the submission once all objects are made.
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

/// What the admin decided, in so far as it changes what is to be done.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The API server as Spark's `--master` names it, `k8s://https://…`.
    pub master: String,
    /// How long after a submission a driver pod may be missing before the application fails.
    pub driver_creation_grace: Duration,
    /// Who submits, where an application does not say.
    pub submitter: Submitter,
    /// How submission pods are made.
    pub submission_pod: submission_pod::Settings,
    /// Whether pods are customized by the webhook.
    pub has_webhook: bool,
    /// How much `status.executorState` may hold.
    pub executor_limits: ExecutorLimits,
    /// `timeToLiveSeconds` of applications that do not say.
    pub default_time_to_live_seconds: Option<i64>,
    /// Whether drivers that ask for it have a PodDisruptionBudget.
    pub has_driver_pdb: bool,
    /// Whether a driver's pod is kept until its outcome is recorded.
    pub protects_driver_outcome: bool,
    /// How drivers are reached.
    pub exposure: Exposure,
}

impl Policy {
    /// That of an admin who has said nothing but where the API server is.
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
    /// What is known of the submission of `id`.
    fn submission_of(&self, id: &SubmissionId) -> Option<&SubmissionProgress> {
        self.submission
            .as_ref()
            .filter(|submission| submission.id == *id)
            .map(|submission| &submission.progress)
    }
}
