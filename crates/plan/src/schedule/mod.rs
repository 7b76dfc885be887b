//! Decides what is next for a `ScheduledSparkApplication`, given its status, its applications and the time.
//!
//! A slot is a moment at which the schedule is due. The application for a slot is named after the slot, so that an
//! attempt to make it again after a crash makes no second application. The status records up to which slot all slots
//! are dealt with.

mod admission;
mod events;
mod history;
mod run;

pub use events::not_started;
pub use run::{Child, Precision};

use super::{
    events::Event,
    validation::{self, Refusal},
};
use api::{
    ScheduleState, ScheduledSparkApplication, ScheduledSparkApplicationStatus, SparkApplication,
    names::annotation,
};
use cron::{Due, Rhythm, Schedule, Slots, Zone};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;
use run::Occasion;
use std::time::Duration;

/// How soon to look again for a change that no watch reports: that the pods of an application which no longer exists
/// are gone.
const SOON: Duration = Duration::from_secs(1);
/// The longest sleep, because the clock may be set during a sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);
/// How far in the future a recorded time may be before it counts as an error of the clock and is replaced with the
/// present time. Up to this limit, the recorded time is kept, so that nothing is made twice after the clock was put
/// back. Beyond it, nothing would be made for too long.
const PUT_BACK: SignedDuration = SignedDuration::from_hours(24);

/// The settings for all schedules.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The unit of the times in the names of applications.
    pub precision: Precision,
    /// The time zone of schedules that name none, or `Local`.
    pub zone: TimeZone,
}

/// All that the controller saw of one schedule. Built by `controller::schedules`; tests build it themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The applications that the schedule owns.
    pub children: Vec<Child>,
    /// The applications for the latest slot and for the latest trigger, if this process has seen them and they are
    /// gone. With them it is known what has been started, even if that is not recorded yet.
    pub departed: Vec<Child>,
    /// The names from [`Questions::names`] that are used by applications which the schedule does not own.
    pub taken: Vec<String>,
    /// Whether pods are alive whose applications are gone.
    pub has_pods: bool,
}

/// What has to be found out before [`next`] is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// The names of applications whose owner is asked for.
    pub names: Vec<String>,
    /// Whether to find out if pods are alive whose applications are gone.
    pub pods: bool,
}

/// What to do and what to record: the actions come first, then the status, then the events and outcomes.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Plan {
    pub actions: Vec<Action>,
    pub status: ScheduledSparkApplicationStatus,
    pub events: Vec<Event>,
    /// What is counted once the status is written.
    pub outcomes: Vec<Outcome>,
    /// When to look at the schedule again if nothing happens before.
    pub wake: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates the application. If an application with this name and owner exists, the application is created already.
    Start(Box<SparkApplication>),
    /// Deletes exactly this application, in the version that was seen.
    Delete { name: String, uid: String, resource_version: Option<String> },
}

/// What became of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An application was made, this long after its slot; zero if it was triggered by hand.
    Started {
        late: Duration,
    },
    Skipped {
        why: Skip,
        count: u64,
    },
    /// The operator was not running in time, or could not start the run in time.
    Missed {
        count: u64,
    },
}

/// Why no application was made although the operator was there to make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Skip {
    /// Another application was running, and the policy is `Forbid`.
    Forbid,
    /// The pods of the application that was to be replaced did not end in time.
    Replace,
    /// An application of another owner has the name.
    NameTaken,
    /// The schedule is invalid.
    Invalid,
}

impl Skip {
    pub const ALL: [Self; 4] = [Self::Forbid, Self::Replace, Self::NameTaken, Self::Invalid];

    /// Returns the value of the metric's label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbid => "Forbid",
            Self::Replace => "Replace",
            Self::NameTaken => "NameTaken",
            Self::Invalid => "Invalid",
        }
    }
}

/// Returns what has to be found out before [`next`] is called for `schedule`.
#[must_use]
pub fn questions(
    schedule: &ScheduledSparkApplication,
    children: &[Child],
    now: Timestamp,
    policy: &Policy,
) -> Questions {
    let Ok(pass) = Pass::new(schedule, now, policy) else { return Questions::default() };
    let due = pass.due().map(|due| Occasion::Slot(due.latest));
    let occasions: Vec<_> = due.into_iter().chain(pass.trigger()).collect();
    Questions {
        pods: !occasions.is_empty() && pass.runs_alone() && children.iter().all(Child::is_over),
        names: occasions.iter().map(|occasion| pass.name(occasion)).collect(),
    }
}

/// Returns what is next for `schedule`, given what was seen of it. The only entry to this module besides [`questions`];
/// it never fails and never waits.
pub fn next(schedule: &ScheduledSparkApplication, seen: &Observed, now: Timestamp, policy: &Policy) -> Plan {
    let mut plan = Plan {
        actions: Vec::new(),
        status: schedule.status.clone().unwrap_or_default(),
        events: Vec::new(),
        outcomes: Vec::new(),
        wake: None,
    };
    history::prune(schedule, seen, &mut plan);
    let (standing, pass) = (Standing::of(schedule, now), Pass::new(schedule, now, policy));
    let status = &mut plan.status;
    status.handled_until = Some(Time(if schedule.spec.suspend != Some(true) && pass.is_ok() {
        standing.handled_until
    } else if was_idle(status) && is_same(schedule, status) {
        // That time has passed is no reason to write the status.
        status.handled_until.as_ref().map_or(standing.handled_until, |until| until.0)
    } else {
        standing.handled_until.max(whole_seconds(now))
    }));
    status.observed_schedule = Some(schedule.spec.schedule.clone());
    status.observed_time_zone.clone_from(&schedule.spec.time_zone);
    status.scheduled_since = Some(Time(standing.since));
    status.suspended = schedule.spec.suspend == Some(true);
    status.pending_run = None;
    status.next_run = None;
    match pass {
        Err(why) => refuse(schedule, why, &mut plan),
        Ok(pass) => {
            plan.status.schedule_state = ScheduleState::Scheduled;
            plan.status.reason = None;
            pass.go(seen, &mut plan);
        }
    }
    plan
}

/// Nothing is made of a schedule that is invalid, or whose applications would be refused.
fn refuse(schedule: &ScheduledSparkApplication, why: String, plan: &mut Plan) {
    let status = &mut plan.status;
    if status.schedule_state != ScheduleState::FailedValidation || status.reason.as_ref() != Some(&why) {
        plan.events.push(events::invalid(&why));
    }
    status.schedule_state = ScheduleState::FailedValidation;
    status.reason = Some(why);
    let Some(asked) = trigger(schedule) else { return };
    if is_known(schedule) && status.last_trigger.as_ref() != Some(asked) {
        let occasion = Occasion::Trigger(asked.clone());
        plan.events.push(events::skipped(&occasion, "the schedule is invalid, see status.reason"));
        plan.outcomes.push(Outcome::Skipped { why: Skip::Invalid, count: 1 });
    }
    status.last_trigger = Some(asked.clone());
}

/// The times from which a schedule is counted.
#[derive(Clone, Copy)]
struct Standing {
    /// The time from which `@every` counts.
    since: Timestamp,
    /// The time up to which all slots are dealt with.
    handled_until: Timestamp,
}

impl Standing {
    fn of(schedule: &ScheduledSparkApplication, now: Timestamp) -> Self {
        let now = whole_seconds(now);
        let created = schedule.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let status = schedule.status.clone().unwrap_or_default();
        let (is_same, was_idle) = (is_same(schedule, &status), was_idle(&status));
        let recorded = (&status.observed_schedule, status.scheduled_since, status.handled_until);
        let mut standing = match recorded {
            (Some(_), Some(since), Some(until)) if is_same => Self { since: since.0, handled_until: until.0 },
            // The times of the schedule were edited: it is counted from now on, but never from before the recorded
            // time. The clock may have been put back, and what was made for an old slot must not be made again for a
            // new one.
            (Some(_), _, until) => {
                Self { since: now, handled_until: until.map_or(now, |until| until.0.max(now)) }
            }
            // This operator has recorded nothing. If Kubeflow's operator has recorded a last run, the schedule goes on
            // from that run.
            (None, ..) => {
                let since = status.last_run.map_or(created, |last| last.0);
                Self { since, handled_until: since }
            }
        };
        // Slots that have passed while the schedule was suspended or invalid are not made up for.
        if was_idle {
            standing.handled_until = standing.handled_until.max(now);
        }
        let sane = |moment: Timestamp| if moment.duration_since(now) > PUT_BACK { now } else { moment };
        Self { since: sane(standing.since), handled_until: sane(standing.handled_until) }
    }
}

/// One look at a valid schedule.
struct Pass<'a> {
    schedule: &'a ScheduledSparkApplication,
    now: Timestamp,
    policy: &'a Policy,
    standing: Standing,
    rhythm: Rhythm,
    slots: Slots,
}

impl<'a> Pass<'a> {
    /// # Errors
    ///
    /// All that is wrong with the schedule.
    fn new(
        schedule: &'a ScheduledSparkApplication,
        now: Timestamp,
        policy: &'a Policy,
    ) -> Result<Self, String> {
        let invalid = validation::examine_schedule(schedule, Some(policy.precision)).invalid;
        if !invalid.is_empty() {
            return Err(Refusal(invalid).brief());
        }
        let times = Schedule::parse(&schedule.spec.schedule).map_err(|error| error.to_string())?;
        let zone = Zone::parse(schedule.spec.time_zone.as_deref().unwrap_or_default())
            .map_err(|error| error.to_string())?;
        let standing = Standing::of(schedule, now);
        let slots = Slots::new(&times, &zone, &policy.zone, standing.since);
        Ok(Self { schedule, now, policy, standing, rhythm: times.rhythm, slots })
    }

    fn go(&self, seen: &Observed, plan: &mut Plan) {
        let before = self.schedule.status.clone().unwrap_or_default();
        let mut deadline = None;
        if let Some(due) = self.due() {
            deadline = self.deadline().and_then(|late| due.latest.checked_add(late).ok());
            self.pass_over(due, &before, seen, plan);
            self.admit_slot(due.latest, &before, seen, plan);
        }
        self.admit_trigger(seen, plan);
        plan.status.last_trigger = match plan.status.last_trigger.take() {
            None if !is_known(self.schedule) => trigger(self.schedule).cloned(),
            handled => handled,
        };
        if plan.status.suspended {
            return;
        }
        let next = self.slots.after(self.now.max(self.standing.handled_until));
        plan.status.next_run = next.map(Time);
        let waits = deadline.filter(|_| plan.status.pending_run.is_some());
        let wake = next.into_iter().chain(waits).min().map(|moment| until(moment, self.now));
        plan.wake = plan.wake.into_iter().chain(wake).chain([LONGEST_SLEEP]).min();
    }

    /// Returns the slots that are to be dealt with, if there are any.
    fn due(&self) -> Option<Due> {
        if self.schedule.spec.suspend == Some(true) {
            return None;
        }
        self.slots.due(self.standing.handled_until, self.now)
    }

    /// Returns how late an application may be made.
    fn deadline(&self) -> Option<SignedDuration> {
        self.schedule.spec.starting_deadline_seconds.map(|late| SignedDuration::from_secs(late.max(0)))
    }

    /// Deals with the due slots before the latest: only the latest is made up for.
    fn pass_over(
        &self,
        due: Due,
        before: &ScheduledSparkApplicationStatus,
        seen: &Observed,
        plan: &mut Plan,
    ) {
        let is_passed = |slot: Timestamp| slot > self.standing.handled_until && slot < due.latest;
        let made = self.tell_made(is_passed, seen, plan);
        let waited = before.pending_run.as_ref().map(|time| time.0);
        let waited = waited.filter(|slot| is_passed(*slot) && !made.contains(slot));
        if let Some(slot) = waited {
            let (why, said) = if self.is_replacing() {
                (Skip::Replace, "what it was to replace did not end until the next was due")
            } else {
                (Skip::Forbid, "another one ran until the next was due, and concurrencyPolicy is Forbid")
            };
            plan.events.push(events::skipped(&Occasion::Slot(slot), said));
            plan.outcomes.push(Outcome::Skipped { why, count: 1 });
        }
        let missed = due.count.saturating_sub(1 + made.len() as u64 + u64::from(waited.is_some()));
        if missed > 0 {
            plan.events.push(events::missed(missed, due.latest));
            plan.outcomes.push(Outcome::Missed { count: missed });
        }
        let just_before = due.latest.checked_sub(SignedDuration::from_secs(1)).unwrap_or(due.latest);
        plan.status.handled_until = Some(Time(just_before.max(self.standing.handled_until)));
    }

    /// Returns the run that the user asks for by the trigger annotation, if the annotation's value is new.
    fn trigger(&self) -> Option<Occasion> {
        let asked = trigger(self.schedule).filter(|_| is_known(self.schedule))?;
        let handled = self.schedule.status.as_ref().and_then(|status| status.last_trigger.as_ref());
        (handled != Some(asked)).then(|| Occasion::Trigger(asked.clone()))
    }
}

/// Whether nothing was made for slots when the schedule was last seen.
fn was_idle(status: &ScheduledSparkApplicationStatus) -> bool {
    status.suspended || status.schedule_state == ScheduleState::FailedValidation
}

/// Whether the times of the schedule are the same as when the schedule was last seen.
fn is_same(schedule: &ScheduledSparkApplication, status: &ScheduledSparkApplicationStatus) -> bool {
    status.observed_schedule.as_ref() == Some(&schedule.spec.schedule)
        && status.observed_time_zone == schedule.spec.time_zone
}

/// Whether this operator has recorded anything of the schedule. A trigger that is older than the first record triggers
/// nothing.
fn is_known(schedule: &ScheduledSparkApplication) -> bool {
    schedule.status.as_ref().is_some_and(|status| status.observed_schedule.is_some())
}

fn trigger(schedule: &ScheduledSparkApplication) -> Option<&String> {
    schedule.annotations().get(annotation::TRIGGER)
}

fn whole_seconds(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

/// Returns how long it is until `moment`, plus a millisecond, so that the wake-up is not too early.
fn until(moment: Timestamp, now: Timestamp) -> Duration {
    let rest = moment.duration_since(now).max(SignedDuration::ZERO);
    Duration::try_from(rest).unwrap_or_default() + Duration::from_millis(1)
}
