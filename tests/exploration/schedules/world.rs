//! Defines a state of the model: one schedule and its applications on the API server, the operator's memory, and the
//! troubles that may still happen.

use crate::budget::{self, listed};
pub use crate::decision::Doing;

/// The number of slots (times at which the schedule is due) in an exploration.
pub const SLOTS: usize = 4;
/// The maximum number of manual triggers.
pub const TRIGGERS: usize = 2;
/// The number of runs. Runs are numbered: slots first, then triggers.
pub const RUNS: usize = SLOTS + TRIGGERS;

/// A state of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    /// The time that the clock shows, as an index into the times of the exploration.
    pub clock: u8,
    /// The schedule as the API server has it.
    pub schedule: Schedule,
    pub applications: [Option<Application>; RUNS],
    /// The runs whose pods still exist although the application does not. One bit per run, like all sets of runs in
    /// this file.
    pub pods: u8,
    /// The runs whose names are used by objects of other owners.
    pub foreign: u8,
    pub operator: Operator,
    pub past: Past,
    pub left: Budget,
}

/// A ScheduledSparkApplication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// The number of the schedule's text in [`super::oracle::TEXTS`].
    pub text: u8,
    pub suspend: bool,
    /// The value of the trigger annotation; 0 means that there is no annotation.
    pub trigger: u8,
    /// The number of the status in [`super::oracle::Oracle`].
    pub status: u32,
}

/// A SparkApplication that was created for a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Application {
    pub end: End,
    /// Whether the application is being deleted.
    pub is_going: bool,
    /// The time at which the application was created, as an index like [`World::clock`].
    pub made: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Running,
    Completed,
    Failed,
}

/// The memory of the operator process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operator {
    /// The operator's copy of the schedule. `is_current` is whether the API server has the same schedule.
    pub schedule: Schedule,
    pub is_current: bool,
    /// Whether the operator has written a status and does not reconcile until the watch has reported it.
    pub waits: bool,
    pub applications: [Option<Application>; RUNS],
    pub foreign: u8,
    /// Runs whose applications the operator may have created, because the responses to its requests were lost.
    pub doubted: u8,
    /// The latest application for a slot and the latest for a trigger that the operator has known, each with its run.
    pub latest: [Option<(u8, Application)>; 2],
    pub doing: Option<Doing>,
}

/// The history that the invariants need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    pub made: u8,
    /// Runs whose application a user has deleted before its start was recorded.
    pub vanished: u8,
    /// Runs of `vanished` that no operator knows any more: their applications may be created again, which is a known
    /// limit.
    pub forgotten: u8,
    /// Slots that became due while the schedule was suspended and its status showed that: they must not be started.
    pub barred: u8,
    /// Slots that became due while nothing went wrong: they must be started.
    pub wanted: u8,
}

listed! {
    /// An event that goes wrong, or a change by the user.
    pub enum Trouble {
        Edit,
        Suspend,
        Trigger,
        /// A user deletes an application.
        Deletion,
        /// The operator is killed.
        Crash,
        /// A request of the operator fails, or its response is lost.
        Fault,
        /// Another owner creates an object with the name of a run.
        Foreign,
        /// The operator's clock is set back to the previous time.
        PutBack,
    }
}

/// The numbers of troubles that may still happen.
pub type Budget = budget::Budget<Trouble, { Trouble::ALL.len() }>;

impl World {
    /// Returns this state with one trouble less in its budget. `None` if no trouble of this kind may happen any more.
    pub fn troubled(&self, trouble: Trouble) -> Option<Self> {
        Some(Self { left: self.left.without(trouble)?, ..*self })
    }

    /// Marks the schedule as changed on the API server, so that the operator's copy is not current.
    pub fn changed(&mut self) {
        self.operator.is_current = false;
        if let Some(doing) = &mut self.operator.doing {
            doing.is_current = false;
        }
    }
}

impl Operator {
    /// Returns an operator that has just started, with current copies of all objects.
    pub fn fresh(schedule: Schedule, applications: [Option<Application>; RUNS], foreign: u8) -> Self {
        let none = Self { schedule, is_current: true, foreign, ..Self::default() };
        (0..RUNS).fold(none, |mut operator, run| {
            operator.hear(run, applications[run]);
            operator
        })
    }

    /// Records an application in the operator's memory, as the watch or the response to the operator's own request has
    /// it.
    pub fn hear(&mut self, run: usize, application: Option<Application>) {
        self.applications[run] = application;
        let Some(application) = application else { return };
        let latest = &mut self.latest[usize::from(run >= SLOTS)];
        let is_later = |known: &(u8, Application)| {
            if run < SLOTS { usize::from(known.0) <= run } else { known.1.made <= application.made }
        };
        if latest.as_ref().is_none_or(is_later) {
            *latest = Some((run as u8, application));
        }
    }
}

pub const fn bit(run: usize) -> u8 {
    1 << run
}
