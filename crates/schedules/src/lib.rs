//! Decides the next actions for a `ScheduledSparkApplication`, given its status, its applications and the time.
//!
//! A slot is a time at which the schedule is due. The name of a slot's application contains the slot, so that a
//! repeated attempt after a crash cannot create a second application. The status records the time up to which all slots
//! are handled.

mod due_run;
mod events;
mod history;
mod run;

pub use events::not_started;
pub use run::Child;
pub use validation::Precision;

use api::{
    ScheduleState, ScheduledSparkApplication, ScheduledSparkApplicationStatus, SparkApplication,
    names::annotation,
};
use cron::{Due, Rhythm, Schedule, Slots, Zone};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;
use plan::{between, events::Event};
use run::Occasion;
use std::time::Duration;
use submission::findings::Refusal;
use validation::Files;

/// The pause before the next reconcile while a run waits for a change that no watch reports: the end of the pods of a
/// deleted application.
const SOON: Duration = Duration::from_secs(1);
/// The maximum pause between two reconciles, because the system clock may be set in between.
const LONGEST_SLEEP: Duration = Duration::from_secs(600);
/// How far in the future a recorded time may be before it is taken for an error of the system clock and replaced by the
/// present time. Up to this limit, the recorded time is kept, so that no slot is handled twice after the clock was set
/// back. If a later time were kept, no application would be created for too long.
const MAX_CLOCK_ERROR: SignedDuration = SignedDuration::from_hours(24);

/// The settings for all schedules.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The unit of the times in the names of the applications.
    pub precision: Precision,
    /// The shortest period of `@every`.
    pub shortest_period: Duration,
    /// The time zone of schedules that name none, or `Local`.
    pub zone: TimeZone,
}

/// Everything that the controller has found out about one schedule. Built by `controller::schedules`; tests build it
/// themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The applications that the schedule owns.
    pub children: Vec<Child>,
    /// The applications for the latest slot and for the latest trigger, if this process has seen them and they do not
    /// exist any more. They show what was started, even if that is not recorded yet.
    pub departed: Vec<Child>,
    /// The names from [`Questions::names`] that applications of other owners have.
    pub taken: Vec<String>,
    /// Whether pods of deleted applications of the schedule still run.
    pub has_pods: bool,
}

/// The facts that have to be found out before [`next`] is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// The names for which to find out whether an application of another owner has them.
    pub names: Vec<String>,
    /// Whether to find out if pods of deleted applications of the schedule still run.
    pub pods: bool,
}

/// What to do and what to record. The actions are carried out first, then the status is written, then the events are
/// sent and the outcomes are counted.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Plan {
    pub actions: Vec<Action>,
    pub status: ScheduledSparkApplicationStatus,
    pub events: Vec<Event>,
    /// The outcomes that are counted after the status is written.
    pub outcomes: Vec<Outcome>,
    /// The time until the next reconcile if no watch triggers one before.
    pub wake: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates the application. If an application with this name and owner exists already, nothing is to be done.
    Start(Box<SparkApplication>),
    /// Deletes the application with this name, uid and version; if it has changed since, it is not deleted.
    Delete { name: String, uid: String, resource_version: Option<String> },
}

/// The outcome of one slot, or of several that were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An application was created, this long after its slot; zero if the user has triggered it.
    Started(Duration),
    Skipped(Skip),
    /// This number of runs was missed, because the operator was not running or could not start them in time.
    Missed(u64),
}

api::words! {
    /// Why no application was created although the operator was running. The text is the value of the metric's label.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Skip {
        /// Another application was running, and the policy is `Forbid`.
        Forbid = "Forbid",
        /// The pods of the application that was to be replaced did not end in time.
        Replace = "Replace",
        /// An application of another owner has the name.
        NameTaken = "NameTaken",
        /// The schedule is invalid.
        Invalid = "Invalid",
        /// Too many applications of the schedule have not ended.
        TooMany = "TooMany",
    }
}

/// The parsed times of a valid schedule, or all mistakes of an invalid one. Depends on the name, the spec and the
/// policy alone. [`check`] plans an application of the schedule, which takes longer than a decision.
#[derive(Clone, Debug)]
pub struct Checked(Result<(Schedule, Zone), String>);

pub fn check(schedule: &ScheduledSparkApplication, policy: &Policy) -> Checked {
    let (precision, shortest) = (Some(policy.precision), policy.shortest_period);
    let invalid = validation::examine_schedule(schedule, precision, shortest, Files::Stay).invalid;
    if !invalid.is_empty() {
        return Checked(Err(Refusal(invalid).brief()));
    }
    let times = Schedule::parse(&schedule.spec.schedule);
    let zone = Zone::parse(schedule.spec.time_zone.as_deref().unwrap_or_default());
    Checked(times.and_then(|times| Ok((times, zone?))).map_err(|error| error.to_string()))
}

/// Returns the facts that have to be found out before [`next`] is called for `schedule`.
pub fn questions(
    schedule: &ScheduledSparkApplication,
    checked: &Checked,
    children: &[Child],
    now: Timestamp,
    policy: &Policy,
) -> Questions {
    let Ok(pass) = Pass::new(schedule, checked, now, policy) else { return Questions::default() };
    let due = pass.due().map(|due| Occasion::Slot(due.latest));
    let trigger = new_trigger(schedule).map(|value| Occasion::Trigger(value.clone()));
    let occasions: Vec<_> = due.into_iter().chain(trigger).collect();
    Questions {
        pods: !occasions.is_empty() && pass.runs_alone() && children.iter().all(Child::is_over),
        names: occasions.iter().map(|occasion| pass.name(occasion)).collect(),
    }
}

/// Returns the plan for `schedule`, given the facts `seen`. It never fails and never waits.
pub fn next(
    schedule: &ScheduledSparkApplication,
    checked: &Checked,
    seen: &Observed,
    now: Timestamp,
    policy: &Policy,
) -> Plan {
    let status = schedule.status.clone().unwrap_or_default();
    let mut plan = Plan { status, ..Plan::default() };
    history::prune(schedule, seen, &mut plan);
    let ((since, handled_until), pass) = (progress(schedule, now), Pass::new(schedule, checked, now, policy));
    let status = &mut plan.status;
    status.handled_until = Some(Time(if schedule.spec.suspend != Some(true) && pass.is_ok() {
        handled_until
    } else if was_idle(status) && has_same_times(schedule, status) {
        // The passing of time alone is no reason to write the status.
        status.handled_until.as_ref().map_or(handled_until, |until| until.0)
    } else {
        handled_until.max(whole_seconds(now))
    }));
    status.observed_schedule = Some(schedule.spec.schedule.clone());
    status.observed_time_zone.clone_from(&schedule.spec.time_zone);
    status.scheduled_since = Some(Time(since));
    status.suspended = schedule.spec.suspend == Some(true);
    status.pending_run = None;
    status.next_run = None;
    match pass {
        Err(why) => refuse(schedule, why, &mut plan),
        Ok(pass) => {
            plan.status.schedule_state = ScheduleState::Scheduled;
            plan.status.reason = None;
            pass.plan_runs(seen, &mut plan);
        }
    }
    plan
}

/// Plans for a schedule that is invalid, or whose applications would be refused: no application is created, and the
/// status contains the reason.
fn refuse(schedule: &ScheduledSparkApplication, why: String, plan: &mut Plan) {
    let status = &mut plan.status;
    if status.schedule_state != ScheduleState::FailedValidation || status.reason.as_ref() != Some(&why) {
        plan.events.push(events::invalid(&why));
    }
    status.schedule_state = ScheduleState::FailedValidation;
    status.reason = Some(why);
    status.last_trigger = trigger(schedule).cloned().or(status.last_trigger.take());
    if let Some(value) = new_trigger(schedule) {
        let occasion = Occasion::Trigger(value.clone());
        plan.skip(&occasion, Skip::Invalid, "the schedule is invalid, see status.reason");
    }
}

/// Returns the time from which `@every` counts its intervals, and the time up to which all slots are handled.
fn progress(schedule: &ScheduledSparkApplication, now: Timestamp) -> (Timestamp, Timestamp) {
    let now = whole_seconds(now);
    let created = schedule.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let status = schedule.status.clone().unwrap_or_default();
    let (has_same_times, was_idle) = (has_same_times(schedule, &status), was_idle(&status));
    let recorded = (&status.observed_schedule, status.scheduled_since, status.handled_until);
    let (since, until) = match recorded {
        (Some(_), Some(since), Some(until)) if has_same_times => (since.0, until.0),
        // The times of the schedule were edited, so slots are counted from now on, but never from before the recorded
        // time: if the system clock was set back, a slot of the edited schedule could otherwise be due at a time for
        // which an application was already created.
        (Some(_), _, until) => (now, until.map_or(now, |until| until.0.max(now))),
        // This operator has recorded nothing yet. If Kubeflow's operator has recorded a last run, the slots are
        // counted from that run.
        (None, ..) => {
            let since = status.last_run.map_or(created, |last| last.0);
            (since, since)
        }
    };
    // No application is created later for slots that passed while the schedule was suspended or invalid.
    let until = if was_idle { until.max(now) } else { until };
    let sane = |moment: Timestamp| if moment.duration_since(now) > MAX_CLOCK_ERROR { now } else { moment };
    (sane(since), sane(until))
}

/// The input of one decision about a valid schedule.
struct Pass<'a> {
    schedule: &'a ScheduledSparkApplication,
    now: Timestamp,
    policy: &'a Policy,
    handled_until: Timestamp,
    rhythm: Rhythm,
    slots: Slots,
}

impl<'a> Pass<'a> {
    /// # Errors
    ///
    /// When the schedule is invalid. The text contains everything that is wrong with it.
    fn new(
        schedule: &'a ScheduledSparkApplication,
        checked: &Checked,
        now: Timestamp,
        policy: &'a Policy,
    ) -> Result<Self, String> {
        let (times, zone) = checked.0.as_ref().map_err(Clone::clone)?;
        let (since, handled_until) = progress(schedule, now);
        let slots = Slots::new(times, zone, &policy.zone, since);
        Ok(Self { schedule, now, policy, handled_until, rhythm: times.rhythm.clone(), slots })
    }

    fn plan_runs(&self, seen: &Observed, plan: &mut Plan) {
        let mut deadline = None;
        if let Some(due) = self.due() {
            deadline = self.deadline().and_then(|late| due.latest.checked_add(late).ok());
            self.count_earlier_slots(due, seen, plan);
            if self.admit(&Occasion::Slot(due.latest), seen, plan) {
                plan.status.handled_until = Some(Time(due.latest));
            }
        }
        if let Some(value) = new_trigger(self.schedule)
            && self.admit(&Occasion::Trigger(value.clone()), seen, plan)
        {
            plan.status.last_trigger = Some(value.clone());
        }
        if plan.status.last_trigger.is_none() && !is_known(self.schedule) {
            plan.status.last_trigger = trigger(self.schedule).cloned();
        }
        if plan.status.suspended {
            return;
        }
        let next = self.slots.after(self.now.max(self.handled_until));
        plan.status.next_run = next.map(Time);
        let waits = deadline.filter(|_| plan.status.pending_run.is_some());
        let wake = next.into_iter().chain(waits).min();
        // One millisecond more, so that the next reconcile is not too early.
        let wake = wake.map(|moment| between(self.now, moment) + Duration::from_millis(1));
        plan.wake = plan.wake.into_iter().chain(wake).chain([LONGEST_SLEEP]).min();
    }

    /// Returns the due slots that are not handled yet; `None` if there are none, or if the schedule is suspended.
    fn due(&self) -> Option<Due> {
        if self.schedule.spec.suspend == Some(true) {
            return None;
        }
        self.slots.due(self.handled_until, self.now)
    }

    /// Returns the maximum delay with which an application may still be created; `None` if there is no limit.
    fn deadline(&self) -> Option<SignedDuration> {
        self.schedule.spec.starting_deadline_seconds.map(|late| SignedDuration::from_secs(late.max(0)))
    }

    /// Returns the slot whose run waits, according to the status.
    fn waiting(&self) -> Option<Timestamp> {
        Some(self.schedule.status.as_ref()?.pending_run.as_ref()?.0)
    }
}

/// Whether the schedule was suspended or invalid when it was last reconciled.
fn was_idle(status: &ScheduledSparkApplicationStatus) -> bool {
    status.suspended || status.schedule_state == ScheduleState::FailedValidation
}

/// Whether the times of the schedule are the same as when it was last reconciled.
fn has_same_times(schedule: &ScheduledSparkApplication, status: &ScheduledSparkApplicationStatus) -> bool {
    status.observed_schedule.as_ref() == Some(&schedule.spec.schedule)
        && status.observed_time_zone == schedule.spec.time_zone
}

/// Whether this operator has reconciled the schedule before. A trigger annotation that is older than the first
/// reconcile triggers nothing.
fn is_known(schedule: &ScheduledSparkApplication) -> bool {
    schedule.status.as_ref().is_some_and(|status| status.observed_schedule.is_some())
}

/// Returns the value of the annotation by which the user has triggered a run; `None` if there is none, or if the
/// trigger is handled already.
fn new_trigger(schedule: &ScheduledSparkApplication) -> Option<&String> {
    let handled = schedule.status.as_ref().and_then(|status| status.last_trigger.as_ref());
    trigger(schedule).filter(|value| is_known(schedule) && handled != Some(*value))
}

fn trigger(schedule: &ScheduledSparkApplication) -> Option<&String> {
    schedule.annotations().get(annotation::TRIGGER)
}

fn whole_seconds(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}
