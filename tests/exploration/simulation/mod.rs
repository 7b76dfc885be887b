//! Simulates a year of a schedule with random events, and checks that each slot (a moment at which the schedule is due)
//! is dealt with once. Schedules, their users, their operators and the outcomes of their applications are drawn at
//! random. The simulated time jumps from one event to the next.

mod ledger;
mod operator;
mod timetable;
mod troubles;

use crate::say;
use api::{
    ScheduledSparkApplication, ScheduledSparkApplicationSpec, SparkApplication, State, names::annotation,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_core::ResourceExt;
use ledger::{Ledger, Tally};
use schedules::{Checked, Child, Policy, Precision, check};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    time::{Duration, Instant},
};
use timetable::{DAY, Dice, EARLIEST, Rule, Timetable, ZONES, moment, time_zone};

/// The largest number of slots of a schedule that are simulated.
const SLOTS: usize = 8;
/// The number of passes after which the simulation of a schedule ends at the latest.
const PASSES: usize = 60;
const INVALID: &str = "61 * * * *";

#[test]
fn each_slot_is_dealt_with_once_whatever_happens() {
    simulate(0..1000);
}

#[test]
#[ignore = "takes long: make soak"]
fn each_slot_is_dealt_with_once_whatever_happens_to_many_more() {
    simulate(1000..40_000);
}

fn simulate(seeds: std::ops::Range<u64>) {
    let begun = Instant::now();
    let (mut tally, schedules) = (Tally::default(), seeds.end - seeds.start);
    for seed in seeds {
        let mut world = World::new(seed);
        world.live();
        world.rest();
        tally += world.ledger.tally;
    }
    let line = format!("simulated: {schedules} schedules, {tally:?}, {:.0?}", begun.elapsed());
    say(&line);
    assert!(tally.started > 0 && tally.skipped > 0 && tally.missed > 0 && tally.pruned > 0);
}

/// The state of the simulation of one schedule. Times are in milliseconds.
struct World {
    seed: u64,
    dice: Dice,
    policy: Policy,
    local: &'static str,
    /// The timetable that the schedule was made with.
    first: Timetable,
    now: i64,
    /// How far the operator's clock is ahead of `now`.
    ahead: i64,
    end: i64,
    /// The approximate time between two slots.
    spacing: i64,
    schedule: Stored,
    applications: BTreeMap<String, Application>,
    /// The pods of applications that are gone: the name of the application, and until when its pods live.
    pods: Vec<(String, i64)>,
    operator: Option<Operator>,
    /// The time at which the next operator starts.
    back: i64,
    has_troubles: bool,
    triggers: u32,
    ledger: Ledger,
    story: VecDeque<String>,
    /// The spec that was checked last: a check takes longer than all the rest.
    checked: Option<(ScheduledSparkApplicationSpec, Checked)>,
}

/// A schedule as the API server has it.
#[derive(Clone)]
struct Stored {
    object: ScheduledSparkApplication,
    /// The meaning of the schedule; none if the schedule is invalid.
    table: Option<Rc<Timetable>>,
    version: u64,
}

/// An application as the API server has it.
struct Application {
    metadata: ObjectMeta,
    state: State,
    ends: i64,
}

/// The memory of the operator process, as `controller::schedules` has it.
struct Operator {
    /// The schedule as the watch has reported it, or as the operator has written it since.
    schedule: Stored,
    children: BTreeMap<String, Child>,
    latest: Option<Child>,
    triggered: Option<Child>,
    /// The uids of the applications that the operator knows it has deleted.
    deleted: BTreeSet<String>,
    wake: i64,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!(
                "seed {}: {:?} {:?}, {:?}, {}\n{}",
                self.seed,
                self.first.text,
                self.first.zone,
                self.policy.precision,
                self.local,
                self.story.iter().cloned().collect::<Vec<_>>().join("\n")
            ));
        }
    }
}

impl Operator {
    /// Adds an application, as `controller::schedules::Children` does.
    fn insert(&mut self, child: Child) {
        if child.slot.is_some() && self.latest.as_ref().is_none_or(|latest| latest.slot <= child.slot) {
            self.latest = Some(child.clone());
        }
        let is_later = |triggered: &Child| triggered.created <= child.created;
        if child.trigger.is_some() && self.triggered.as_ref().is_none_or(is_later) {
            self.triggered = Some(child.clone());
        }
        self.children.insert(child.name.clone(), child);
    }

    fn has_deleted(&mut self, name: &str, uid: &str) {
        assert!(self.deleted.insert(uid.to_owned()), "{name} is deleted twice");
        if let Some(child) = self.children.get_mut(name).filter(|child| child.uid == uid) {
            child.is_going = true;
        }
    }

    fn departed(&self) -> Vec<Child> {
        let latest = [&self.latest, &self.triggered].into_iter().flatten();
        latest.filter(|child| !self.children.contains_key(&child.name)).cloned().collect()
    }
}

impl World {
    fn check(&mut self, schedule: &ScheduledSparkApplication) -> Checked {
        if let Some((spec, checked)) = &self.checked
            && *spec == schedule.spec
        {
            return checked.clone();
        }
        let checked = check(schedule, &self.policy);
        self.checked = Some((schedule.spec.clone(), checked.clone()));
        checked
    }

    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let local = *dice.pick(&ZONES);
        let precision = *dice.pick(&[
            Precision::Nanos,
            Precision::Micros,
            Precision::Millis,
            Precision::Seconds,
            Precision::Minutes,
        ]);
        let policy = Policy { precision, shortest_period: Duration::ZERO, zone: time_zone(local) };
        let table = Timetable::random(&mut dice, local);
        let created = beginning(&mut dice, &table);
        let (spacing, end) = extent(&table, created);
        let object = json!({
            "metadata": {
                "name": "nightly",
                "namespace": "default",
                "uid": "6c1f0b5e-0000-4000-8000-000000000001",
                "creationTimestamp": moment(created).to_string(),
            },
            "spec": {
                "schedule": table.text,
                "timeZone": table.zone,
                "template": crate::template(),
            },
        });
        let object: ScheduledSparkApplication = serde_json::from_value(object).unwrap();
        let first = table.clone();
        let schedule = Stored { object, table: Some(Rc::new(table)), version: 1 };
        let mut world = Self {
            seed,
            dice,
            policy,
            local,
            first,
            now: created * 1000,
            ahead: 0,
            end: end * 1000,
            spacing: spacing * 1000,
            schedule,
            applications: BTreeMap::new(),
            pods: Vec::new(),
            operator: None,
            back: created * 1000,
            has_troubles: !seed.is_multiple_of(4),
            triggers: 0,
            ledger: Ledger::new(created),
            story: VecDeque::new(),
            checked: None,
        };
        world.settings();
        world
    }

    fn tell(&mut self, what: std::fmt::Arguments) {
        if self.story.len() == 60 {
            self.story.pop_front();
        }
        let clock = Timestamp::from_millisecond(self.now + self.ahead).unwrap();
        self.story.push_back(format!("{clock} {what}"));
    }

    /// Simulates one event after the other until the year is over.
    fn live(&mut self) {
        let mut trouble = self.now;
        while self.now < self.end && self.ledger.tally.passes < PASSES {
            let wake = self.operator.as_ref().map_or(self.back, |operator| operator.wake);
            let ends = self.applications.values().filter(|one| !is_over(one.state)).map(|one| one.ends).min();
            self.now = self.now.max(wake.min(trouble).min(ends.unwrap_or(wake)));
            self.end_applications();
            if trouble <= self.now {
                trouble = self.now + self.dice.number(1, 10 * self.spacing);
                if self.dice.once_in(4) {
                    trouble = self.now + self.dice.size(self.spacing);
                }
                self.trouble();
            } else if self.operator.is_none() && self.back <= self.now {
                self.operator_starts();
            } else if self.operator.as_ref().is_some_and(|operator| operator.wake <= self.now) {
                self.reconcile();
            }
        }
    }

    /// Ends all applications and reconciles until nothing changes any more, without further troubles. Checks the final
    /// status.
    fn rest(&mut self) {
        self.has_troubles = false;
        if self.operator.is_none() {
            self.operator_starts();
        }
        let mut rounds = 0;
        loop {
            self.pods.clear();
            for application in self.applications.values_mut() {
                application.ends = self.now;
            }
            self.end_applications();
            self.operator.as_mut().unwrap().schedule = self.schedule.clone();
            if !self.reconcile() {
                break;
            }
            rounds += 1;
            assert!(rounds < 20, "it does not come to rest");
        }
        let status = self.schedule.object.status.clone().unwrap();
        assert_eq!(status.pending_run, None);
        let handled = status.handled_until.as_ref().map(|until| until.0);
        let spec = &self.schedule.object.spec;
        for (state, limit, names) in [
            (State::Completed, spec.successful_run_history_limit, status.past_successful_run_names),
            (State::Failed, spec.failed_run_history_limit, status.past_failed_run_names),
        ] {
            let ours = self.applications.values().filter(|one| is_ours(one) && one.state == state);
            // If the clock was put back before an application was recorded, the application stays until its slot comes
            // once more.
            let is_to_come = |one: &&Application| child(one).slot.is_some_and(|slot| Some(slot) > handled);
            let to_come = ours.clone().filter(is_to_come).count();
            let mut kept: Vec<_> = ours.map(|one| (created(one), name(one))).collect();
            kept.sort();
            kept.reverse();
            let limit = usize::try_from(limit.unwrap_or(1)).unwrap_or_default();
            assert!(kept.len() <= limit + to_come, "{} are kept, and {limit} should be", kept.len());
            assert_eq!(names, kept.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
        }
        let trigger = self.schedule.object.annotations().get(annotation::TRIGGER);
        assert_eq!(status.last_trigger.as_ref(), trigger);
    }

    fn make(&mut self, application: &SparkApplication) {
        let made = application.name_any();
        self.tell(format_args!("{made} is made"));
        let metadata = ObjectMeta {
            uid: Some(format!("{}-{}", made, self.schedule.version)),
            resource_version: Some("1".to_owned()),
            creation_timestamp: Some(Time(moment(self.now.div_euclid(1000)))),
            ..application.metadata.clone()
        };
        let ends = self.now + self.dice.size(4 * self.spacing);
        let application = Application { metadata, state: State::Running, ends };
        let child = is_ours(&application).then(|| child(&application));
        self.applications.insert(made, application);
        if let (Some(operator), Some(child)) = (&mut self.operator, child) {
            operator.insert(child);
        }
    }

    fn remove(&mut self, name: &str) {
        self.tell(format_args!("{name} is deleted"));
        let gone = self.applications.remove(name).unwrap();
        if !is_over(gone.state) {
            let lives = self.dice.size(self.spacing.min(600_000));
            self.pods.push((name.to_owned(), self.now + lives));
        }
        self.poke();
    }

    fn end_applications(&mut self) {
        let now = self.now;
        let mut has_changed = false;
        for application in self.applications.values_mut().filter(|one| !is_over(one.state) && one.ends <= now)
        {
            let is_failed = application.ends % 3 == 0;
            application.state = if is_failed { State::Failed } else { State::Completed };
            application.metadata.resource_version = Some("2".to_owned());
            has_changed = true;
        }
        if has_changed {
            self.poke();
        }
        self.pods.retain(|pod| pod.1 > now);
    }
}

fn is_over(state: State) -> bool {
    matches!(state, State::Completed | State::Failed)
}

fn is_ours(application: &Application) -> bool {
    application.metadata.owner_references.is_some()
}

fn child(application: &Application) -> Child {
    Child::of(&application.metadata, application.state).unwrap().1
}

fn name(application: &Application) -> String {
    application.metadata.name.clone().unwrap()
}

fn created(application: &Application) -> Timestamp {
    application.metadata.creation_timestamp.clone().unwrap().0
}

/// Draws the time at which the schedule is made. Half of the schedules with a cron expression are made within a day
/// before the clock of their zone is changed.
fn beginning(dice: &mut Dice, table: &Timetable) -> i64 {
    let any = EARLIEST + 40 * DAY + dice.number(0, 700 * DAY);
    let Rule::At { zone, .. } = &table.rule else { return any };
    let change = time_zone(zone).following(moment(any)).next().map(|change| change.timestamp().as_second());
    change.filter(|_| dice.once_in(2)).map_or(any, |change| change - dice.number(0, DAY))
}

/// Returns the mean time between two slots, and the time at which the simulation ends, in seconds.
fn extent(table: &Timetable, created: i64) -> (i64, i64) {
    let (mut slots, mut until) = (Vec::new(), created);
    let most = created + 366 * DAY;
    while slots.len() < SLOTS && until < most {
        let stride = match table.rule {
            Rule::Every(period) => SLOTS as i64 * period,
            Rule::At { .. } => 5 * DAY,
        };
        let next = most.min(until + stride);
        table.walk(created, until, next, &mut slots);
        until = next;
    }
    slots.truncate(SLOTS);
    let end = if slots.len() < SLOTS { most } else { slots[SLOTS - 1] };
    let spacing = (end - created) / i64::try_from(slots.len().max(1)).unwrap();
    (spacing.clamp(1, 30 * DAY), end)
}
