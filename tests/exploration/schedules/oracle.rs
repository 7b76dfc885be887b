//! Calls the decision core (`crates/schedules`) once for each input and keeps the results, because a model needs the
//! same decision a million times.

use super::{mutation::Mutation, world::*};
use crate::{decision::Decision, explorer::Memory};
use api::{
    ScheduledSparkApplication, ScheduledSparkApplicationStatus as Status, SparkApplication, State,
    names::annotation,
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use kube_core::ResourceExt;
use schedules::{
    Action, Checked, Child, Observed, Outcome, Plan, Policy, Precision, Questions, check, next, questions,
};
use serde_json::{Value, json};
use std::{collections::HashMap, time::Duration};

/// The values of `spec.schedule` in the model: two valid ones, which have slots in common, and an invalid one.
pub const TEXTS: [&str; 3] = ["*/10 * * * *", "*/20 * * * *", "*/10 * * *"];
/// For each text: every how many slots of the first text it has a slot.
const STRIDES: [usize; 3] = [1, 2, usize::MAX];
/// 2026-01-01T00:00:00Z, the time at which the schedule is created.
const CREATED: i64 = 1_767_225_600;
const PERIOD: i64 = 600;

type Applications = [Option<Application>; RUNS];

/// The model's form of [`Observed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    pub applications: [Option<Application>; RUNS],
    pub departed: [Option<(u8, Application)>; 2],
    /// The runs whose names the operator knows to be used by other owners.
    pub foreign: u8,
    pub has_pods: bool,
}

/// An action of the operator, reduced to what the model compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Start(usize),
    /// The run, and its application as the decision saw it.
    Delete(usize, Application),
}

pub struct Oracle {
    /// The schedule without the fields that change.
    bare: ScheduledSparkApplication,
    mutation: Option<Mutation>,
    policy: Policy,
    /// The times that the clock can show.
    moments: Vec<Timestamp>,
    statuses: Vec<Status>,
    status_numbers: HashMap<String, u32>,
    decisions: Vec<Decision<Act>>,
    known: Memory<(Schedule, u8, Seen), u32>,
    asked: Memory<(Schedule, u8, Applications), (u8, bool)>,
    /// The results of [`check`] for [`TEXTS`], in their order.
    checked: [Checked; TEXTS.len()],
    /// The names of the applications, by run.
    names: Vec<String>,
}

impl Oracle {
    pub fn new(spec: &Value, moments: &[i64], mutation: Option<Mutation>) -> Self {
        let policy =
            Policy { precision: Precision::Seconds, shortest_period: Duration::ZERO, zone: TimeZone::UTC };
        let bare = bare(spec);
        let checked = TEXTS.map(|text| {
            let mut schedule = bare.clone();
            text.clone_into(&mut schedule.spec.schedule);
            check(&schedule, &policy)
        });
        let mut oracle = Self {
            bare,
            mutation,
            policy,
            checked,
            moments: moments.iter().map(|seconds| at(CREATED + seconds)).collect(),
            statuses: Vec::new(),
            status_numbers: HashMap::new(),
            decisions: Vec::new(),
            known: Memory::default(),
            asked: Memory::default(),
            names: (0..SLOTS).map(|run| format!("pi-{}", slot(run).as_second())).collect(),
        };
        oracle.number(Status::default());
        let known = oracle.number(Status { observed_schedule: Some(String::new()), ..Status::default() });
        for trigger in 1..=(RUNS - SLOTS) as u8 {
            let schedule = Schedule { text: 0, suspend: true, trigger, status: known };
            let asked = questions(
                &oracle.real(&schedule),
                &oracle.checked[0],
                &[],
                oracle.moments[0],
                &oracle.policy,
            );
            oracle.names.extend(asked.names);
        }
        oracle
    }

    pub fn status(&self, number: u32) -> &Status {
        &self.statuses[number as usize]
    }

    pub fn decision(&self, plan: u32) -> &Decision<Act> {
        &self.decisions[plan as usize]
    }

    pub fn name(&self, run: usize) -> &String {
        &self.names[run]
    }

    pub fn last_moment(&self) -> u8 {
        (self.moments.len() - 1) as u8
    }

    pub fn now(&self, clock: u8) -> Timestamp {
        self.moments[usize::from(clock)]
    }

    /// Returns `handledUntil` of the status, as the time since the creation of the schedule.
    pub fn handled(&self, status: u32) -> SignedDuration {
        let until = self.status(status).handled_until.as_ref();
        until.map_or(SignedDuration::ZERO, |until| until.0.duration_since(at(CREATED)))
    }

    /// Whether the slot of this run is due at the time number `clock`.
    pub fn is_due(&self, clock: u8, run: usize) -> bool {
        self.moments[usize::from(clock)] >= slot(run)
    }

    /// Returns what the decision core needs to know: the runs whose names have to be looked up on the API server, and
    /// whether pods of applications that no longer exist have to be looked up.
    pub fn asked(&mut self, schedule: &Schedule, clock: u8, seen: &Seen) -> (u8, bool) {
        let key = (*schedule, clock, seen.applications);
        if let Some(asked) = self.asked.get(&key) {
            return *asked;
        }
        let now = self.now(clock);
        let Questions { names, pods } =
            questions(&self.real(schedule), self.checked(schedule), &self.children(seen), now, &self.policy);
        let runs = (0..RUNS).filter(|run| names.contains(&self.names[*run])).map(bit).sum();
        self.asked.insert(key, (runs, pods));
        (runs, pods)
    }

    /// Returns the number of the decision core's plan for this input: see [`Self::decision`].
    pub fn next(&mut self, schedule: &Schedule, clock: u8, seen: &Seen) -> u32 {
        if let Some(plan) = self.known.get(&(*schedule, clock, *seen)) {
            return *plan;
        }
        let mut decision = self.decide(schedule, clock, seen);
        if decision.wrong.is_none() {
            decision.wrong = self.comes_to_rest(schedule, clock, seen, &decision).err();
        }
        let number = self.decisions.len() as u32;
        self.decisions.push(decision);
        self.known.insert((*schedule, clock, *seen), number);
        number
    }

    fn decide(&mut self, schedule: &Schedule, clock: u8, seen: &Seen) -> Decision<Act> {
        let mut real = self.real(schedule);
        let now = self.moments[usize::from(clock)];
        let child = |entry: &Option<(u8, Application)>| {
            entry.map(|(run, application)| self.child(usize::from(run), &application))
        };
        let mut observed = Observed {
            children: self.children(seen),
            departed: seen.departed.iter().filter_map(child).collect(),
            taken: (0..RUNS)
                .filter(|run| seen.foreign & bit(*run) != 0)
                .map(|run| self.names[run].clone())
                .collect(),
            has_pods: seen.has_pods,
        };
        if let Some(mutation) = self.mutation {
            mutation.of_question(&mut real, &mut observed);
        }
        let mut plan = next(&real, self.checked(schedule), &observed, now, &self.policy);
        if let Some(mutation) = self.mutation {
            mutation.of_plan(&real, &observed, now, &mut plan);
        }
        let wrong = Self::is_wrong(schedule.text, &real, now, &plan).err();
        let acts = plan.actions.iter().map(|action| self.act(action, seen)).collect();
        let status = self.number(plan.status);
        Decision { acts, status, writes: status != schedule.status, wrong }
    }

    /// Checks a plan for mistakes that do not depend on the state of the cluster.
    fn is_wrong(
        text: u8,
        real: &ScheduledSparkApplication,
        now: Timestamp,
        plan: &Plan,
    ) -> Result<(), String> {
        let wrong = |why: &str| Err(why.to_owned());
        let (before, after) = (real.status.clone().unwrap_or_default(), &plan.status);
        let is_idle = |status: &Status| status.suspended || status.reason.is_some();
        let but_for_time = Status { handled_until: before.handled_until.clone(), ..after.clone() };
        if is_idle(&before) && is_idle(after) && *after != before && but_for_time == before {
            return wrong("a status is written only for its time");
        }
        let is_in_force = real.spec.suspend != Some(true) && real.spec.schedule != TEXTS[2];
        let due = |after: Timestamp| {
            let of_text = (0..SLOTS).filter(|run| is_in_force && has_slot(text, *run)).map(slot);
            of_text.filter(|slot| *slot > after && *slot <= now).count()
        };
        let is_edited = before.observed_schedule.as_ref() != Some(&real.spec.schedule);
        let since = match before.handled_until.as_ref().map(|until| until.0) {
            None => at(CREATED),
            Some(until) if is_edited || is_idle(&before) => until.max(now),
            Some(until) => until,
        };
        for action in &plan.actions {
            let Action::Start(application) = action else { continue };
            let Some(slot) = slot_of(application) else { continue };
            if slot > now {
                return wrong("a slot is started before it is due");
            }
            if !is_in_force {
                return wrong("a slot is started although the schedule is suspended or invalid");
            }
            if slot <= since || due(slot) > 0 {
                return wrong("a slot is started that is not the latest due one");
            }
        }
        let count = |outcome: &Outcome| match outcome {
            Outcome::Started(_) | Outcome::Skipped(_) => 1,
            Outcome::Missed(count) => *count as usize,
        };
        let outcomes: usize = plan.outcomes.iter().map(count).sum();
        let is_triggered = before.observed_schedule.is_some() && after.last_trigger != before.last_trigger;
        let until = after.handled_until.as_ref().unwrap().0;
        let left = due(until);
        if left != usize::from(after.pending_run.is_some()) {
            return wrong("a due slot is neither handled nor pending");
        }
        if due(since) + usize::from(is_triggered) != outcomes + left {
            return wrong("a slot is counted twice or never");
        }
        if outcomes > 0 && *after == before {
            return wrong("outcomes are counted, but the status does not change");
        }
        let next = is_in_force.then(|| slot_after(text, now.max(until)));
        if after.next_run.as_ref().map(|next| next.0) != next {
            return wrong("nextRun is wrong");
        }
        let sleep = plan.wake.map_or(SignedDuration::MAX, |wake| SignedDuration::try_from(wake).unwrap());
        if next.is_some_and(|next| sleep > next.duration_since(now) + SignedDuration::from_millis(1)) {
            return wrong("the timer is later than the next slot");
        }
        Ok(())
    }

    /// Checks that repeated decisions come to rest if each plan is carried out completely.
    fn comes_to_rest(
        &mut self,
        schedule: &Schedule,
        clock: u8,
        seen: &Seen,
        decision: &Decision<Act>,
    ) -> Result<(), String> {
        let (mut schedule, mut seen, mut decision, mut made) = (*schedule, *seen, decision.clone(), 0);
        for _ in 0..8 {
            if decision.acts.is_empty() && !decision.writes {
                return Ok(());
            }
            for act in &decision.acts {
                match *act {
                    Act::Start(run) if made & bit(run) == 0 => {
                        made |= bit(run);
                        let end = End::Running;
                        seen.applications[run] = Some(Application { end, is_going: false, made: clock });
                    }
                    Act::Start(_) => return Err("an application is started again immediately".to_owned()),
                    Act::Delete(run, application) => {
                        seen.applications[run] = None;
                        seen.departed[usize::from(run >= SLOTS)] = Some((run as u8, application));
                    }
                }
            }
            schedule.status = decision.status;
            seen.has_pods = false;
            decision = self.decide(&schedule, clock, &seen);
        }
        Err("repeated decisions do not come to rest".to_owned())
    }

    fn act(&self, action: &Action, seen: &Seen) -> Act {
        let run = |name: &String| self.names.iter().position(|known| known == name).unwrap();
        match action {
            Action::Start(application) => Act::Start(run(&application.name_any())),
            Action::Delete { name, .. } => Act::Delete(run(name), seen.applications[run(name)].unwrap()),
        }
    }

    fn number(&mut self, status: Status) -> u32 {
        let key = serde_json::to_string(&status).unwrap();
        let count = self.statuses.len() as u32;
        *self.status_numbers.entry(key).or_insert_with(|| {
            self.statuses.push(status);
            count
        })
    }

    fn checked(&self, schedule: &Schedule) -> &Checked {
        &self.checked[usize::from(schedule.text)]
    }

    fn real(&self, schedule: &Schedule) -> ScheduledSparkApplication {
        let Schedule { text, suspend, trigger, status } = *schedule;
        let mut real = self.bare.clone();
        TEXTS[usize::from(text)].clone_into(&mut real.spec.schedule);
        real.spec.suspend = Some(suspend);
        if trigger > 0 {
            real.annotations_mut().insert(annotation::TRIGGER.to_owned(), trigger.to_string());
        }
        real.status = (status > 0).then(|| self.statuses[status as usize].clone());
        real
    }

    fn children(&self, seen: &Seen) -> Vec<Child> {
        let all = seen.applications.iter().enumerate();
        all.filter_map(|(run, application)| Some(self.child(run, application.as_ref()?))).collect()
    }

    fn child(&self, run: usize, application: &Application) -> Child {
        Child {
            name: self.names[run].clone(),
            uid: run.to_string(),
            resource_version: None,
            created: self.moments[usize::from(application.made)],
            slot: (run < SLOTS).then(|| slot(run)),
            trigger: (run >= SLOTS).then(|| (run - SLOTS + 1).to_string()),
            state: match application.end {
                End::Running => State::Running,
                End::Completed => State::Completed,
                End::Failed => State::Failed,
            },
            is_going: application.is_going,
        }
    }
}

fn bare(spec: &Value) -> ScheduledSparkApplication {
    let mut object = json!({
        "metadata": {
            "name": "pi", "namespace": "default", "uid": "6c1f0b5e-0000-4000-8000-000000000001",
            "creationTimestamp": at(CREATED).to_string(),
        },
        "spec": {"schedule": "", "template": crate::template()},
    });
    json_patch::merge(&mut object["spec"], spec);
    serde_json::from_value(object).unwrap()
}

pub fn slot(run: usize) -> Timestamp {
    at(CREATED + PERIOD * (run as i64 + 1))
}

/// Whether the schedule with this text has the slot of this run.
pub fn has_slot(text: u8, run: usize) -> bool {
    (run + 1).is_multiple_of(STRIDES[usize::from(text)])
}

/// Returns the first slot of a text after a time.
pub fn slot_after(text: u8, moment: Timestamp) -> Timestamp {
    (0..).filter(|run| has_slot(text, *run)).map(slot).find(|slot| *slot > moment).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn slot_of(application: &SparkApplication) -> Option<Timestamp> {
    application.annotations().get(annotation::SCHEDULED_TIME).map(|time| time.parse().unwrap())
}
