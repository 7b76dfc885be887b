//! What is a state of the model? One schedule and its applications on the API server, the operator's memory, and what
//! may still go wrong.

use std::fmt;

/// How many slots are followed.
pub const SLOTS: usize = 4;
/// How many triggers there may be.
pub const TRIGGERS: usize = 2;
/// What applications are made for: slots first, then triggers.
pub const RUNS: usize = SLOTS + TRIGGERS;

/// All there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// Which of the moments it is.
    pub clock: u8,
    /// As the API server has it.
    pub schedule: Schedule,
    pub applications: [Option<Application>; RUNS],
    /// Of which runs pods live though the application is gone; one bit each, as everywhere here.
    pub pods: u8,
    /// Which runs' names somebody else's objects have.
    pub foreign: u8,
    pub operator: Operator,
    pub past: Past,
    pub left: Budget,
}

/// A ScheduledSparkApplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    /// Which of the texts.
    pub text: u8,
    pub suspend: bool,
    /// The value of the annotation; none if 0.
    pub trigger: u8,
    /// See [`super::oracle::Oracle`].
    pub status: u32,
}

/// A SparkApplication that was made for a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Application {
    pub end: End,
    /// It is being deleted.
    pub is_going: bool,
    /// When it was made.
    pub made: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Running,
    Completed,
    Failed,
}

/// The process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operator {
    /// Its copy of the schedule, and whether that is what the API server has.
    pub schedule: Schedule,
    pub is_current: bool,
    /// It has written since it got that copy.
    pub waits: bool,
    pub applications: [Option<Application>; RUNS],
    pub foreign: u8,
    /// Runs of which it does not know whether it has made them: the answers were lost.
    pub doubted: u8,
    /// The latest by slot and by trigger that it has known: of which run.
    pub latest: [Option<(u8, Application)>; 2],
    pub doing: Option<Doing>,
}

/// A pass that has decided and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Doing {
    pub plan: u32,
    /// How many of its steps are done.
    pub done: u8,
    /// Whether the schedule is what was decided on.
    pub is_current: bool,
}

/// What the invariants need to remember.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    pub made: u8,
    /// Runs whose application a user has deleted before anybody recorded it.
    pub vanished: u8,
    /// ... and that nobody knows of any more: they may be made again, which is a limit.
    pub forgotten: u8,
    /// Slots that came while the schedule was known to be suspended.
    pub barred: u8,
    /// Slots that came when everything was as it should be.
    pub wanted: u8,
}

/// What may go wrong, or be changed by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    Edit,
    Suspend,
    Trigger,
    /// Somebody deletes an application.
    Deletion,
    /// The operator is killed.
    Crash,
    /// A call of the operator's fails, or its answer is lost.
    Fault,
    /// Somebody else makes an object with the name of a run.
    Foreign,
    /// The operator's clock is put back by a slot.
    PutBack,
}

const TROUBLES: [Trouble; 8] = [
    Trouble::Edit,
    Trouble::Suspend,
    Trouble::Trigger,
    Trouble::Deletion,
    Trouble::Crash,
    Trouble::Fault,
    Trouble::Foreign,
    Trouble::PutBack,
];

/// How many troubles may still come, of each kind and in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    each: [u8; TROUBLES.len()],
    all: u8,
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

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = TROUBLES.into_iter().zip(self.each).filter(|(_, count)| *count > 0);
        let each: Vec<_> = each.map(|(trouble, count)| format!("{count} {trouble:?}")).collect();
        write!(f, "any {} of {}", self.all, each.join(", "))
    }
}

impl World {
    /// This world with one trouble less to come; none if it has had its share.
    pub fn troubled(&self, trouble: Trouble) -> Option<Self> {
        let mut world = *self;
        let left = &mut world.left;
        left.each[trouble as usize] = left.each[trouble as usize].checked_sub(1)?;
        left.all = left.all.checked_sub(1)?;
        if left.all == 0 {
            *left = Budget::new(0, &[]);
        }
        Some(world)
    }

    /// The schedule was changed on the API server.
    pub fn changed(&mut self) {
        self.operator.is_current = false;
        if let Some(doing) = &mut self.operator.doing {
            doing.is_current = false;
        }
    }
}

impl Operator {
    /// One that has just started, and knows what there is.
    pub fn fresh(schedule: Schedule, applications: [Option<Application>; RUNS], foreign: u8) -> Self {
        let none = Self {
            schedule,
            is_current: true,
            waits: false,
            applications: [None; RUNS],
            foreign,
            doubted: 0,
            latest: [None; 2],
            doing: None,
        };
        (0..RUNS).fold(none, |mut operator, run| {
            operator.hear(run, applications[run]);
            operator
        })
    }

    /// Its watch, or its own call, tells of an application.
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
