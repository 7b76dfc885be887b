//! Counts from the operator's actions which slots of a schedule were started, skipped or missed, and compares the
//! counts with the slots that [`super::timetable`] has found.

use super::timetable::{DAY, HOUR, Rule, Timetable};
use api::{
    ConcurrencyPolicy, ScheduleState, ScheduledSparkApplication, ScheduledSparkApplicationStatus as Status,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schedules::{Outcome, Plan};
use std::{collections::BTreeSet, ops::AddAssign, rc::Rc};

/// The slots of a timetable from some moment on, computed as far as they were needed.
struct Walk {
    table: Rc<Timetable>,
    since: i64,
    from: i64,
    until: i64,
    slots: Vec<i64>,
}

impl Walk {
    fn new(table: &Rc<Timetable>, since: i64, from: i64) -> Self {
        Self { table: Rc::clone(table), since, from, until: from, slots: Vec::new() }
    }

    fn extend(&mut self, until: i64) {
        if until > self.until {
            self.table.walk(self.since, self.until, until, &mut self.slots);
            self.until = until;
        }
    }

    /// Returns the number of slots after one moment until another.
    fn count(&mut self, after: i64, until: i64) -> usize {
        self.extend(until);
        let place = |moment| self.slots.partition_point(|slot| *slot <= moment);
        place(until).saturating_sub(place(after))
    }

    fn latest(&mut self, until: i64) -> Option<i64> {
        self.extend(until);
        let place = self.slots.partition_point(|slot| *slot <= until);
        place.checked_sub(1).map(|place| self.slots[place])
    }

    /// Returns the next slot after a moment; none if there is none within a year.
    fn next(&mut self, after: i64) -> Option<i64> {
        let stride = match self.table.rule {
            Rule::Every(period) => 10 * period,
            Rule::At { .. } => 12 * HOUR,
        };
        self.extend(after);
        loop {
            let next = self.slots.get(self.slots.partition_point(|slot| *slot <= after));
            if next.is_some() || self.until > after + 366 * DAY {
                return next.copied();
            }
            self.extend(self.until + stride);
        }
    }
}

/// The counts of everything that happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub slots: usize,
    pub started: usize,
    pub skipped: usize,
    pub missed: usize,
    pub triggered: usize,
    pub passes: usize,
    pub restarts: usize,
    pub lost: usize,
    pub jumps: usize,
    pub edits: usize,
    pub pruned: usize,
    pub replaced: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.slots += more.slots;
        self.started += more.started;
        self.skipped += more.skipped;
        self.missed += more.missed;
        self.triggered += more.triggered;
        self.passes += more.passes;
        self.restarts += more.restarts;
        self.lost += more.lost;
        self.jumps += more.jumps;
        self.edits += more.edits;
        self.pruned += more.pruned;
        self.replaced += more.replaced;
    }
}

/// The input of one pass of the operator. `table` is the meaning of the schedule; none if the schedule is invalid.
pub struct Look<'a> {
    pub schedule: &'a ScheduledSparkApplication,
    pub table: Option<&'a Rc<Timetable>>,
    pub now: Timestamp,
    /// Whether an object of another owner has one of the names that the decision core asks for.
    pub is_taken: bool,
}

pub struct Ledger {
    walk: Option<Walk>,
    since: i64,
    /// Whether something has happened that excuses missed slots.
    pub is_excused: bool,
    started: BTreeSet<i64>,
    triggered: BTreeSet<String>,
    made: BTreeSet<String>,
    pub tally: Tally,
}

impl Look<'_> {
    fn now(&self) -> i64 {
        self.now.as_second()
    }

    fn status(&self) -> Status {
        self.schedule.status.clone().unwrap_or_default()
    }

    fn is_active(&self) -> bool {
        self.table.is_some() && self.schedule.spec.suspend != Some(true)
    }

    fn is_edited(&self, before: &Status) -> bool {
        before.observed_schedule.as_ref() != Some(&self.schedule.spec.schedule)
            || before.observed_time_zone != self.schedule.spec.time_zone
    }

    /// Returns whether a recorded time is more than a day ahead of the clock: the decision core takes such a time for
    /// an error of the clock.
    fn is_beyond(&self, moment: i64) -> bool {
        moment - self.now() > DAY
    }
}

fn was_inactive(before: &Status) -> bool {
    before.suspended || before.schedule_state == ScheduleState::FailedValidation
}

fn second(time: Option<Time>) -> Option<i64> {
    time.map(|time| time.0.as_second())
}

impl Ledger {
    pub fn new(created: i64) -> Self {
        Self {
            walk: None,
            since: created,
            is_excused: false,
            started: BTreeSet::new(),
            triggered: BTreeSet::new(),
            made: BTreeSet::new(),
            tally: Tally::default(),
        }
    }

    /// Returns the moment from which `@every` counts, and the moment after which slots must be dealt with now.
    fn stand(&self, look: &Look) -> (i64, i64) {
        let (before, now) = (look.status(), look.now());
        let created = look.schedule.metadata.creation_timestamp.clone();
        let sane = |moment| if look.is_beyond(moment) { now } else { moment };
        let Some(handled) = second(before.handled_until.clone()) else {
            let created = sane(second(created).unwrap());
            return (created, created);
        };
        let since = if look.is_edited(&before) { now } else { self.since };
        let start = match sane(handled) {
            _ if look.is_beyond(handled) => now,
            handled if look.is_edited(&before) || was_inactive(&before) => handled.max(now),
            handled => handled,
        };
        (sane(since), start)
    }

    /// Returns the slots that the pass with the input `look` must deal with, and the moment after which they lie.
    fn walk(&mut self, look: &Look) -> Option<(&mut Walk, i64)> {
        let (since, start) = self.stand(look);
        let table = look.table?;
        let is_same =
            |walk: &Walk| Rc::ptr_eq(&walk.table, table) && walk.since == since && walk.from <= start;
        if !self.walk.as_ref().is_some_and(is_same) {
            self.walk = Some(Walk::new(table, since, start));
        }
        self.walk.as_mut().map(|walk| (walk, start))
    }

    /// Checks and records that the operator makes an application for a slot.
    pub fn make(&mut self, look: &Look, slot: Timestamp, name: &str) {
        assert!(look.is_active(), "started though suspended or invalid");
        let (before, now) = (look.status(), look.now());
        let handled = second(before.handled_until.clone());
        if handled.is_some_and(|handled| look.is_beyond(handled)) {
            self.started.retain(|slot| *slot <= now);
        }
        let (walk, start) = self.walk(look).unwrap();
        let latest = walk.latest(now);
        assert_eq!(Some(slot.as_second()), latest, "another slot is started than the latest, after {start}");
        assert!(slot.as_second() > start, "a slot is started that was over at {start}");
        assert!(self.started.insert(slot.as_second()), "the slot {slot} is started twice");
        self.made.insert(name.to_owned());
    }

    /// Checks and records that the operator makes an application for a trigger.
    pub fn make_triggered(&mut self, trigger: &str, name: &str) {
        assert!(self.triggered.insert(trigger.to_owned()), "the trigger {trigger} is acted on twice");
        self.made.insert(name.to_owned());
        self.tally.triggered += 1;
    }

    /// Checks and counts a plan that was carried out, after its status is written if that differs from the one before.
    pub fn close(&mut self, look: &Look, plan: &Plan) {
        let (before, after, now) = (look.status(), &plan.status, look.now());
        let spec = &look.schedule.spec;
        assert_eq!(after.observed_schedule.as_ref(), Some(&spec.schedule));
        assert_eq!(after.observed_time_zone, spec.time_zone);
        assert_eq!(after.suspended, spec.suspend == Some(true));
        assert_eq!(
            after.schedule_state == ScheduleState::Scheduled,
            look.table.is_some(),
            "{:?}",
            after.reason
        );
        let handled = second(before.handled_until.clone());
        let is_put_back = handled.is_some_and(|handled| look.is_beyond(handled));
        if is_put_back {
            self.started.retain(|slot| *slot <= now);
        }
        let handled_after = second(after.handled_until.clone()).unwrap();
        assert!(
            is_put_back || handled.is_none_or(|handled| handled <= handled_after),
            "handledUntil goes back"
        );
        let (since, start) = self.stand(look);
        let counted = self.count(plan, &before);
        if look.is_active() {
            let (walk, _) = self.walk(look).unwrap();
            let (due, left) = (walk.count(start, now), walk.count(handled_after, now));
            let (latest, next) = (walk.latest(now), walk.next(now.max(handled_after)));
            self.tally.slots += due - left;
            assert_eq!(left, usize::from(after.pending_run.is_some()), "what is left does not wait");
            assert_eq!(
                due,
                counted.started + counted.skipped + counted.missed + left,
                "so many slots are due after {start}: {:?}",
                plan.outcomes
            );
            let made = self.started.range(start + 1..handled_after.max(start) + 1).count();
            assert_eq!(made, counted.started, "so many of them were made: {:?}", plan.outcomes);
            assert!(next.is_none() || second(after.next_run.clone()) == next, "nextRun should be {next:?}");
            let has_deadline = spec.starting_deadline_seconds.is_some();
            assert!(
                self.is_excused || has_deadline || counted.missed == 0,
                "missed though somebody was there"
            );
            let is_alone = matches!(
                spec.concurrency_policy,
                Some(ConcurrencyPolicy::Forbid | ConcurrencyPolicy::Replace)
            );
            if due > left && !is_alone && !has_deadline && !look.is_taken {
                assert!(self.started.contains(&latest.unwrap()), "the latest slot is not started");
            }
        } else {
            let outcomes = counted.started + counted.skipped + counted.missed;
            assert_eq!((outcomes, after.pending_run.is_some()), (0, false), "{:?}", plan.outcomes);
        }
        if after.last_run_name != before.last_run_name {
            assert!(self.made.contains(after.last_run_name.as_ref().unwrap()), "lastRunName is not ours");
        }
        assert!(plan.outcomes.is_empty() || before != *after, "what is counted is not recorded");
        self.since = since;
        self.is_excused = false;
        self.tally.started += counted.started;
        self.tally.skipped += counted.skipped;
        self.tally.missed += counted.missed;
    }

    /// Counts the outcomes that a plan reports for slots, without the outcome of a manual trigger.
    fn count(&self, plan: &Plan, before: &Status) -> Tally {
        let mut counted = Tally::default();
        for outcome in &plan.outcomes {
            match outcome {
                Outcome::Started { .. } => counted.started += 1,
                Outcome::Skipped { count, .. } => counted.skipped += usize::try_from(*count).unwrap(),
                Outcome::Missed { count } => counted.missed += usize::try_from(*count).unwrap(),
            }
        }
        let is_triggered =
            before.observed_schedule.is_some() && plan.status.last_trigger != before.last_trigger;
        if is_triggered {
            // A pass deals with the trigger last.
            match plan.outcomes.last().unwrap() {
                Outcome::Started { .. } => counted.started -= 1,
                Outcome::Skipped { .. } => counted.skipped -= 1,
                Outcome::Missed { .. } => panic!("a trigger is missed"),
            }
        }
        counted
    }
}
