//! Defines a state of the model, in about two hundred bytes: the objects on the API server, the operator's memory, and
//! the troubles that may still happen.
//!
//! Times, names and messages are not part of a state, so they must not influence the decisions: see [`super::oracle`].

use crate::budget::{self, listed};
pub use crate::decision::Doing;

/// The number of names that drivers may have: an edit may change the name.
pub const NAMES: usize = 2;
/// The number of specs that an application may have: see [`Application::spec`].
pub const SPECS: usize = 3;
/// The maximum number of executors at the same time, of all runs together.
pub const EXECUTORS: usize = 2;
/// The maximum number of submission pods at the same time: those of two consecutive runs.
pub const SUBMISSION_PODS: usize = 2;

/// A driver that no longer exists and whose end was observed: the number of its name, and its last pod.
pub type Departed = Option<(u8, Pod)>;

/// A state of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    /// The application on the API server.
    pub application: Application,
    /// The pods with the names that drivers may have.
    pub drivers: [Option<Pod>; NAMES],
    /// The last deleted pod of each name, until the watch has reported its deletion.
    pub late: [Option<Pod>; NAMES],
    pub executors: [Option<Executor>; EXECUTORS],
    /// The submission pods, each at the index of its run: see [`RunNo::place`].
    pub submission_pods: [Option<SubmissionPod>; SUBMISSION_PODS],
    /// The ConfigMaps that the operator has created, by the ordinals of runs: the spec for which each was created, or
    /// whose executors' template was written into it later. A ConfigMap belongs to the driver or to the submission pod.
    pub config_maps: [Option<u8>; 8],
    /// The run of the existing pod group of a batch scheduler. The groups of all runs have the same name.
    pub group: Option<RunNo>,
    /// Whether the namespace is being deleted.
    pub is_closing: bool,
    pub operator: Operator,
    pub orphan: Option<Orphan>,
    /// A status whose request a killed operator has sent and which is still in flight, and whether the application has
    /// not changed since.
    pub sent: Option<(u32, bool)>,
    pub past: Past,
    pub left: Budget,
}

/// A SparkApplication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Application {
    /// The number of the spec: 0 or 1; with partial restart also 2, which differs from 0 only in a field of the
    /// executors' template.
    pub spec: u8,
    pub generation: u8,
    pub suspend: bool,
    /// The value of the annotation that requests a rerun; 0 means that there is no annotation.
    pub rerun: u8,
    pub life: Life,
    /// The number of the status: see [`super::oracle::Oracle::facts`].
    pub status: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    #[default]
    Alive,
    /// The application has a deletionTimestamp.
    Deleted,
    Gone,
}

/// A run of the application, and the number of its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunNo {
    pub ordinal: u8,
    pub spec: u8,
}

/// A pod with a driver's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    pub uid: u8,
    /// The run that the pod belongs to. `None` if the pod belongs to another owner.
    pub run: Option<RunNo>,
    pub phase: Phase,
    pub terminating: bool,
    /// Whether the pod has the operator's finalizer.
    pub protected: bool,
    /// Whether `spark-submit` has created the pod's ConfigMap.
    pub complete: bool,
    /// The number of the executors' template in the driver's annotation, or [`NO_TEMPLATE`]: see
    /// [`super::oracle::Oracle::template`].
    pub template: u8,
}

/// The annotation of a driver while its executors' template is being written.
pub const NO_TEMPLATE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Pending,
    Running,
    /// The node of the pod does not answer.
    Unknown,
    Succeeded,
    Failed,
}

impl Phase {
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A submission pod of the application. The pod's name follows from the ordinal of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubmissionPod {
    pub uid: u8,
    pub run: RunNo,
    pub stage: Stage,
    pub terminating: bool,
    /// The objects that `spark-submit` has created so far. The operator does not see this.
    pub made: Made,
}

/// The stage of a submission pod, as Kubernetes shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The pod has not started yet.
    Pending,
    /// The pod has not started, and Kubernetes reports why: an image is missing, or no node has room.
    Held,
    /// `spark-submit` is running.
    Working,
    /// The container of `spark-submit` has ended.
    Ended(Exit),
    /// The pod has failed, and no end of the container was reported: the pod was evicted, or has exceeded its deadline.
    Lost,
}

/// The outcome of `spark-submit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    Done,
    Failed,
    /// A pod with the driver's name existed already.
    DriverExists,
}

/// The objects that a `spark-submit` has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Made {
    Nothing,
    /// The driver's pod, with this uid.
    Pod(u8),
    /// The driver's pod with this uid, and the driver's ConfigMap. `spark-submit` has not read a response yet, and
    /// deletes the pod if that fails.
    All(u8),
}

impl Made {
    /// Returns the uid of the driver's pod.
    pub const fn driver(self) -> Option<u8> {
        match self {
            Self::Nothing => None,
            Self::Pod(uid) | Self::All(uid) => Some(uid),
        }
    }
}

/// A submission that outlives the operator, or a `spark-submit` that outlives its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Orphan {
    /// A submission whose operator was killed while it was in progress.
    Submission(Submission),
    /// A `spark-submit` whose pod was deleted or has failed, and that its node has not killed yet.
    SparkSubmit { run: RunNo, made: Made },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Executor {
    pub uid: u8,
    pub run: RunNo,
    /// The uid of the executor's driver.
    pub owner: u8,
    pub ended: bool,
    pub terminating: bool,
}

/// The memory of the operator process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operator {
    /// The operator's copy of the application. `is_current` is whether the API server has the same application.
    pub application: Application,
    pub is_current: bool,
    /// Whether the operator has written a status and does not reconcile until the watch has reported it.
    pub waits: bool,
    /// The operator's copies of the pods.
    pub drivers: [Option<Pod>; NAMES],
    pub executors: [Option<Executor>; EXECUTORS],
    pub submission_pods: [Option<SubmissionPod>; SUBMISSION_PODS],
    /// The last driver that had ended when it was deleted.
    pub departed: Departed,
    /// The uid of the last driver whose end a reconcile has observed.
    pub ended_driver: Option<u8>,
    pub submission: Option<Submission>,
    /// Whether the operator has written a status.
    pub has_written: bool,
    /// The run for which the operator has created the auxiliary objects of a driver, such as a PodDisruptionBudget.
    pub made_for: Option<RunNo>,
    pub doing: Option<Doing>,
}

/// A driver or a submission pod that the operator creates in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Submission {
    pub run: RunNo,
    /// The number of the driver's name.
    pub name: u8,
    pub progress: Progress,
    /// Whether the submission is being cancelled.
    pub cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// No object was created yet.
    Begun,
    /// The pod group was created.
    Grouped,
    /// The ConfigMap was created.
    HalfMade,
    /// The pod was created, too, and the operator has not received the response yet.
    Made,
    /// A pod with the driver's name existed already, and the operator has not received the response yet.
    Met,
    /// The driver or the submission pod exists.
    Succeeded,
    DriverExists,
    Failed,
}

impl Progress {
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Begun | Self::Grouped | Self::HalfMade | Self::Made | Self::Met)
    }
}

/// The history that the invariants need; one bit per run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    pub started: u32,
    pub succeeded: u32,
    pub failed: u32,
    /// Runs whose driver was deleted by another party than the operator, or was lost with its node.
    pub lost: u32,
    /// Runs of `lost` whose driver no longer existed when the run was not recorded yet.
    pub vanished: u32,
    /// The number of pods that were created so far. The uid of a pod is its number.
    pub pods: u8,
}

impl RunNo {
    pub const fn bit(self) -> u32 {
        1 << (self.ordinal * SPECS as u8 + self.spec)
    }

    /// Returns the index of the run's submission pod in [`World::submission_pods`].
    pub const fn place(self) -> usize {
        self.ordinal as usize % SUBMISSION_PODS
    }
}

impl SubmissionPod {
    /// Whether the `spark-submit` of this pod may still create a driver.
    pub const fn may_go_on(&self) -> bool {
        matches!(self.stage, Stage::Pending | Stage::Held | Stage::Working)
    }
}

listed! {
    /// An event that goes wrong, or a change by the user.
    pub enum Trouble {
        /// The spec is edited.
        Edit,
        /// `suspend` is flipped.
        Suspend,
        /// A user requests a rerun.
        Rerun,
        /// A user deletes the application.
        Deletion,
        /// A user deletes the driver's pod, or the submission pod.
        Kill,
        /// The node of a driver stops responding.
        NodeLoss,
        /// The operator is killed.
        Crash,
        /// A request of the operator fails, its response is lost, or a watch begins again with a new list.
        Fault,
        /// A submission fails: an object is refused, or `spark-submit` ends with an exception.
        Refusal,
        /// A submission outlives its operator, or a `spark-submit` outlives its pod.
        Orphan,
        /// A driver creates an executor.
        Executor,
        /// A submission pod cannot start yet.
        Hold,
        /// A submission pod is evicted, or exceeds its deadline.
        Eviction,
        /// The namespace is deleted.
        Closure,
    }
}

/// The numbers of troubles that may still happen.
pub type Budget = budget::Budget<Trouble, { Trouble::ALL.len() }>;

impl World {
    /// Returns this state with one trouble less in its budget. `None` if no trouble of this kind may happen any more.
    pub fn troubled(&self, trouble: Trouble) -> Option<Self> {
        let mut left = self.left;
        // Executors do not count as trouble: only their number is limited.
        if trouble == Trouble::Executor {
            left.take(trouble)?;
        } else {
            left = left.without(trouble)?;
            if left.all == 0 {
                left = Budget::new(0, &[(Trouble::Executor, self.left.of(Trouble::Executor))]);
            }
        }
        Some(Self { left, ..*self })
    }

    /// Marks the application as changed on the API server, so that the operator's copy is not current.
    pub fn changed(&mut self) {
        self.operator.is_current = false;
        if let Some(doing) = &mut self.operator.doing {
            doing.is_current = false;
        }
        if let Some((_, is_current)) = &mut self.sent {
            *is_current = false;
        }
    }

    pub fn new_uid(&mut self) -> u8 {
        self.past.pods += 1;
        self.past.pods
    }
}
