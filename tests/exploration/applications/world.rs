//! What is a state of the model? The API server, its pods, the operator's memory and what may still go wrong, in some
//! two hundred bytes.
//!
//! Where something is forgotten here (times, names, messages), the decision core does not see it either: see
//! [`super::oracle`].

use std::fmt;

/// How many names drivers have: an edit may change them.
pub const NAMES: usize = 2;
/// How many executors there may be at once, of whichever runs.
pub const EXECUTORS: usize = 2;
/// How many submission pods there may be at once: those of runs one after the other.
pub const SUBMISSION_PODS: usize = 2;

/// All there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// As the API server has it.
    pub application: Application,
    /// The pods under the names that drivers have.
    pub drivers: [Option<Pod>; NAMES],
    /// The last of each name that is gone, until the operator hears of it.
    pub late: [Option<Pod>; NAMES],
    pub executors: [Option<Executor>; EXECUTORS],
    /// Each in its run's place: see [`RunNo::place`].
    pub submission_pods: [Option<SubmissionPod>; SUBMISSION_PODS],
    /// By the ordinals of runs, for which spec the operator has made their ConfigMap: the driver's, or that of a
    /// submission pod.
    pub config_maps: [Option<u8>; 8],
    /// Whether the namespace is being deleted.
    pub is_closing: bool,
    pub operator: Operator,
    pub orphan: Option<Orphan>,
    /// A status that a killed operator has sent and that has not arrived, and whether the application is still what it
    /// was then.
    pub sent: Option<(u32, bool)>,
    pub past: Past,
    pub left: Budget,
}

/// A SparkApplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Application {
    /// Which of the specs.
    pub spec: u8,
    pub generation: u8,
    pub suspend: bool,
    /// The value of the annotation; none if 0.
    pub rerun: u8,
    pub life: Life,
    /// See [`super::oracle::Oracle::status`].
    pub status: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    Alive,
    /// With a deletionTimestamp.
    Deleted,
    Gone,
}

/// Which run of the application, and from which spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunNo {
    pub ordinal: u8,
    pub spec: u8,
}

/// A pod under a driver's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    pub uid: u8,
    /// None: somebody else's.
    pub run: Option<RunNo>,
    pub phase: Phase,
    pub terminating: bool,
    pub protected: bool,
    /// Whether `spark-submit` has made its ConfigMap.
    pub complete: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Pending,
    Running,
    /// Its node does not answer.
    Unknown,
    Succeeded,
    Failed,
}

impl Phase {
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A submission pod of the application's. Its name follows from the run's ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubmissionPod {
    pub uid: u8,
    pub run: RunNo,
    pub stage: Stage,
    pub terminating: bool,
    /// What `spark-submit` has made so far. The operator does not see that.
    pub made: Made,
}

/// How far a submission pod is, as Kubernetes shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Not started yet.
    Pending,
    /// Not started, and Kubernetes says why: an image that is missing, no node with room.
    Held,
    /// `spark-submit` is running.
    Working,
    /// The container of `spark-submit` has ended.
    Ended(Exit),
    /// The pod has failed and the container's end was never seen: it was evicted, or has outlived its deadline.
    Lost,
}

/// How `spark-submit` has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    Done,
    Failed,
    /// There was a pod of the driver's name.
    DriverExists,
}

/// What a `spark-submit` has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Made {
    Nothing,
    /// The driver's pod, with this uid.
    Pod(u8),
    /// The driver's ConfigMap too. It still reads an answer, and if that fails it deletes the driver's pod again.
    All(u8),
}

impl Made {
    /// The uid of the driver's pod.
    pub const fn driver(self) -> Option<u8> {
        match self {
            Self::Nothing => None,
            Self::Pod(uid) | Self::All(uid) => Some(uid),
        }
    }
}

/// What outlives the operator or its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Orphan {
    /// A submission that has outlived its operator, or that was ended when it had just asked for something.
    Submission(Submission),
    /// A `spark-submit` whose pod is gone, or has failed, before its node has ended it.
    SparkSubmit { run: RunNo, made: Made },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Executor {
    pub uid: u8,
    pub run: RunNo,
    /// The uid of its driver.
    pub owner: u8,
    pub ended: bool,
    pub terminating: bool,
}

/// The process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operator {
    /// Its copy of the application, and whether that is what the API server has.
    pub application: Application,
    pub is_current: bool,
    /// It has written since it got that copy.
    pub waits: bool,
    /// Its copies of the pods.
    pub drivers: [Option<Pod>; NAMES],
    pub executors: [Option<Executor>; EXECUTORS],
    pub submission_pods: [Option<SubmissionPod>; SUBMISSION_PODS],
    /// The latest driver that is gone, if its end was seen: under which name.
    pub departed: Option<(u8, Pod)>,
    /// The uid of the last driver that a reconcile has found to have ended.
    pub ended_driver: Option<u8>,
    pub submission: Option<Submission>,
    /// Whether it has written a status.
    pub has_written: bool,
    /// For which run it has made what a driver does without.
    pub made_for: Option<RunNo>,
    pub doing: Option<Doing>,
}

/// What the operator makes in the background: a driver, or a submission pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Submission {
    pub run: RunNo,
    /// Of its driver.
    pub name: u8,
    pub progress: Progress,
    /// It is about to be ended.
    pub cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// Nothing was made.
    Begun,
    /// The ConfigMap was.
    HalfMade,
    /// The pod was too, and nobody knows.
    Made,
    /// There was a pod of the driver's name, and nobody knows.
    Met,
    /// There is a driver, or a submission pod.
    Succeeded,
    DriverExists,
    Failed,
}

impl Progress {
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Begun | Self::HalfMade | Self::Made | Self::Met)
    }
}

/// A reconcile that has decided and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Doing {
    pub plan: u32,
    /// How many of its steps are done.
    pub done: u8,
    /// Whether the application is what was decided on.
    pub is_current: bool,
}

/// What the invariants need to remember; one bit a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    pub started: u32,
    pub succeeded: u32,
    pub failed: u32,
    /// Whose driver was taken away by others than the operator.
    pub lost: u32,
    /// ... before the run was recorded.
    pub vanished: u32,
    /// How many pods there were.
    pub pods: u8,
}

impl RunNo {
    pub const fn bit(self) -> u32 {
        1 << (self.ordinal * 2 + self.spec)
    }

    /// Where its submission pod is among those that there are.
    pub const fn place(self) -> usize {
        self.ordinal as usize % SUBMISSION_PODS
    }
}

impl SubmissionPod {
    /// Whether its `spark-submit` may still make a driver.
    pub const fn may_go_on(&self) -> bool {
        matches!(self.stage, Stage::Pending | Stage::Held | Stage::Working)
    }
}

/// What may go wrong, or be changed by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// The spec is edited.
    Edit,
    /// `suspend` is flipped.
    Suspend,
    Rerun,
    Deletion,
    /// Somebody deletes the driver's pod, or the submission pod.
    Kill,
    NodeLoss,
    /// The operator is killed.
    Crash,
    /// A call of the operator's fails, its answer is lost, or a watch begins anew.
    Fault,
    /// A submission fails: an object is refused, or `spark-submit` ends with an exception.
    Refusal,
    /// Something outlives its operator, or its pod.
    Orphan,
    Executor,
    /// A submission pod cannot start yet.
    Hold,
    /// A submission pod is evicted, or outlives its deadline.
    Eviction,
    /// The namespace is deleted.
    Closure,
}

const TROUBLES: [Trouble; 14] = [
    Trouble::Edit,
    Trouble::Suspend,
    Trouble::Rerun,
    Trouble::Deletion,
    Trouble::Kill,
    Trouble::NodeLoss,
    Trouble::Crash,
    Trouble::Fault,
    Trouble::Refusal,
    Trouble::Orphan,
    Trouble::Executor,
    Trouble::Hold,
    Trouble::Eviction,
    Trouble::Closure,
];

/// How many troubles may still come, of each kind and in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    pub each: [u8; TROUBLES.len()],
    pub all: u8,
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = TROUBLES.into_iter().zip(self.each).filter(|(_, count)| *count > 0);
        let each: Vec<_> = each.map(|(trouble, count)| format!("{count} {trouble:?}")).collect();
        write!(f, "any {} of {}", self.all, each.join(", "))
    }
}

impl Budget {
    pub fn new(all: u8, each: &[(Trouble, u8)]) -> Self {
        let mut budget = Self { each: [0; TROUBLES.len()], all };
        for (trouble, count) in each {
            budget.each[*trouble as usize] = *count;
        }
        budget
    }
}

impl World {
    /// This world with one trouble less to come; none if it has had its share.
    pub fn troubled(&self, trouble: Trouble) -> Option<Self> {
        let mut world = *self;
        let left = &mut world.left;
        left.each[trouble as usize] = left.each[trouble as usize].checked_sub(1)?;
        // Executors are no trouble; there is only a limited number of them.
        if trouble != Trouble::Executor {
            left.all = left.all.checked_sub(1)?;
            if left.all == 0 {
                let executors = left.each[Trouble::Executor as usize];
                *left = Budget::new(0, &[(Trouble::Executor, executors)]);
            }
        }
        Some(world)
    }

    /// The application was changed on the API server.
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
