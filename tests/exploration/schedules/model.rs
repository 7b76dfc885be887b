//! Computes the states that can follow a state, and checks the invariants of states at rest.

use super::{
    mutation::Mutation,
    oracle::{Act, Oracle, has_slot, slot, slot_after},
    world::*,
};
use crate::explorer::{self, Call, edge};
use api::ScheduleState;
use serde_json::{Value, json};
use std::{cmp::Reverse, fmt::Write};

/// One exploration.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    /// The fields of the spec other than the schedule.
    pub spec: Value,
    /// The times that the clock may show, in seconds since the schedule was created.
    pub moments: Vec<i64>,
    /// Whether applications may fail.
    pub has_failures: bool,
    pub budget: Budget,
    /// The seeded bugs that this exploration must find.
    pub finds: Vec<Mutation>,
}

pub struct Model {
    pub config: Config,
    pub mutation: Option<Mutation>,
    pub oracle: Oracle,
    /// The history limit: how many completed applications are kept, and how many failed ones.
    limit: usize,
}

pub type Edge = explorer::Edge<World>;

impl Model {
    pub fn new(config: &Config, mutation: Option<Mutation>) -> Self {
        let oracle = Oracle::new(&config.spec, &config.moments, mutation);
        let limit = config.spec["successfulRunHistoryLimit"].as_u64().unwrap_or(1);
        Self { config: config.clone(), mutation, oracle, limit: limit as usize }
    }

    pub fn runs_alone(&self) -> bool {
        self.config.spec["concurrencyPolicy"] != json!("Allow")
    }

    /// Whether the status records that a run was started, or that it must not be started.
    fn is_recorded(&self, world: &World, run: usize) -> bool {
        let status = self.oracle.status(world.schedule.status);
        if run < SLOTS {
            return status.handled_until.as_ref().is_some_and(|until| until.0 >= slot(run));
        }
        let value = (run - SLOTS + 1).to_string();
        status.last_trigger.as_ref() == Some(&value) || world.schedule.trigger.to_string() != value
    }

    /// Returns the steps in which applications end and time passes.
    fn slow(&self, world: &World) -> impl Iterator<Item = Edge> {
        let ends: &[End] =
            if self.config.has_failures { &[End::Completed, End::Failed] } else { &[End::Completed] };
        let runs = |run: &usize| world.applications[*run].is_some_and(|one| one.end == End::Running);
        let end = move |run: usize| {
            ends.iter().map(move |end| {
                let mut next = *world;
                next.applications[run] = next.applications[run].map(|one| Application { end: *end, ..one });
                edge("an application ends", next)
            })
        };
        let later = (world.clock < self.oracle.last_moment()).then(|| edge("time passes", self.later(world)));
        (0..RUNS).filter(runs).flat_map(end).chain(later)
    }

    /// Returns the state at the next time that the clock may show.
    fn later(&self, before: &World) -> World {
        let mut world = World { clock: before.clock + 1, ..*before };
        let is_known = self.oracle.status(before.schedule.status).suspended && before.schedule.suspend;
        for run in (0..SLOTS).filter(|run| is_known && self.comes(before.clock, *run)) {
            world.past.barred |= bit(run);
        }
        world
    }

    /// Whether the slot of this run becomes due when the clock advances from the time number `clock` to the next one.
    fn comes(&self, clock: u8, run: usize) -> bool {
        !self.oracle.is_due(clock, run) && self.oracle.is_due(clock + 1, run)
    }

    fn troubles(&self, world: &World, out: &mut Vec<Edge>) {
        let mut change = |trouble, step, change: &dyn Fn(&mut World)| {
            if let Some(mut next) = world.troubled(trouble) {
                change(&mut next);
                if next.schedule != world.schedule {
                    next.changed();
                }
                out.push(edge(step, next));
            }
        };
        for text in (0..3).filter(|text| *text != world.schedule.text) {
            change(Trouble::Edit, "the schedule is edited", &|world| world.schedule.text = text);
        }
        change(Trouble::Suspend, "suspend is flipped", &|world| {
            world.schedule.suspend = !world.schedule.suspend;
        });
        if usize::from(world.schedule.trigger) < TRIGGERS {
            change(Trouble::Trigger, "a run is triggered", &|world| world.schedule.trigger += 1);
        }
        for run in (0..RUNS).filter(|run| world.applications[*run].is_some_and(|one| !one.is_going)) {
            change(Trouble::Deletion, "an application is deleted", &|world| {
                if !self.is_recorded(world, run) {
                    world.past.vanished |= bit(run);
                    if world.operator.applications[run].is_none() || self.is_starting(world, run) {
                        world.past.forgotten |= bit(run);
                    }
                }
                go(world, run);
            });
        }
        for run in (0..RUNS).filter(|run| (world.past.made | world.foreign) & bit(*run) == 0) {
            change(Trouble::Foreign, "a name is taken", &|world| world.foreign |= bit(run));
        }
        if world.clock > 0 {
            change(Trouble::PutBack, "the clock is put back", &|world| {
                world.clock -= 1;
                for run in (0..SLOTS).filter(|run| self.comes(world.clock, *run)) {
                    world.past.barred &= !bit(run);
                }
            });
        }
        // The first list of a new operator may be as old as the copy of the killed operator.
        for is_old in [false, true].into_iter().filter(|is_old| !(*is_old && world.operator.is_current)) {
            let step = if is_old { "a crash, and an old list" } else { "a crash" };
            change(Trouble::Crash, step, &|world| {
                let schedule = if is_old { world.operator.schedule } else { world.schedule };
                world.operator = Operator::fresh(schedule, world.applications, world.foreign);
                world.operator.is_current = !is_old;
                world.past.forgotten |= world.past.vanished;
            });
        }
    }

    /// Whether the present reconcile starts the application of this run, because the operator did not know of that
    /// application when the reconcile began.
    fn is_starting(&self, world: &World, run: usize) -> bool {
        let starts = |doing: Doing| self.oracle.decision(doing.plan).acts.contains(&Act::Start(run));
        world.operator.doing.is_some_and(starts)
    }

    /// Whether the status shows that the schedule is valid and not suspended.
    fn is_in_force(&self, world: &World) -> bool {
        let status = self.oracle.status(world.schedule.status);
        status.schedule_state == ScheduleState::Scheduled && !status.suspended
    }
}

impl explorer::Model for Model {
    type World = World;

    fn beginning(&self) -> World {
        let operator = Operator::fresh(Schedule::default(), [None; RUNS], 0);
        World { operator, left: self.config.budget, ..World::default() }
    }

    fn edges(&mut self, world: &World, out: &mut Vec<Edge>) {
        if let Some(next) = self.pass(world) {
            out.push(edge("a reconcile begins", next));
        }
        for call in Call::ALL {
            out.extend(self.go_on(world, call));
        }
        out.extend(prompt(world));
        out.extend(self.slow(world));
        self.troubles(world, out);
    }

    fn fair(&mut self, world: &World) -> Option<Edge> {
        if world.operator.doing.is_some() {
            return self.go_on(world, Call::Answered);
        }
        if let Some(edge) = prompt(world).next() {
            return Some(edge);
        }
        if let Some(next) = self.pass(world) {
            return Some(edge("a reconcile begins", next));
        }
        let mut edge = self.slow(world).next()?;
        if edge.world.clock > world.clock && self.is_in_force(world) {
            let is_wanted =
                |run: &usize| self.comes(world.clock, *run) && has_slot(world.schedule.text, *run);
            let handled = self.oracle.status(world.schedule.status).handled_until.clone();
            let is_new = |run: &usize| handled.as_ref().is_none_or(|until| slot(*run) > until.0);
            let come = (0..SLOTS).filter(is_wanted).filter(is_new).map(bit).sum::<u8>();
            edge.world.past.wanted |= come & !world.foreign;
        }
        Some(edge)
    }

    fn rests(&mut self, world: &World) -> Result<(), String> {
        let wrong = |why: &str| Err(format!("in a state at rest: {why}"));
        let status = self.oracle.status(world.schedule.status);
        let (now, text) = (self.oracle.now(world.clock), world.schedule.text);
        let is_valid = text < 2;
        if (status.schedule_state == ScheduleState::Scheduled) != is_valid
            || status.suspended != world.schedule.suspend
        {
            return wrong("the last edit is lost");
        }
        if status.pending_run.is_some() {
            return wrong("a run is still pending");
        }
        let trigger = Some(world.schedule.trigger).filter(|trigger| *trigger > 0);
        if status.last_trigger != trigger.map(|trigger| trigger.to_string()) {
            return wrong("a trigger is lost");
        }
        if world.past.wanted & !world.past.made != 0 {
            return wrong("a slot was not started although nothing went wrong");
        }
        if self.is_in_force(world) {
            let handled = status.handled_until.as_ref().unwrap().0;
            if slot_after(text, handled) <= now {
                return wrong("a due slot was not handled");
            }
        }
        for (end, names) in [
            (End::Completed, &status.past_successful_run_names),
            (End::Failed, &status.past_failed_run_names),
        ] {
            let of_this_end = |run: &usize| world.applications[*run].is_some_and(|one| one.end == end);
            let mut kept: Vec<_> = (0..RUNS).filter(of_this_end).collect();
            kept.sort_by_key(|run| {
                Reverse((world.applications[*run].map(|one| one.made), self.oracle.name(*run)))
            });
            let recorded = kept.iter().filter(|run| self.is_recorded(world, **run)).count();
            let kept: Vec<_> = kept.into_iter().map(|run| self.oracle.name(run).clone()).collect();
            if recorded > self.limit {
                return wrong("more applications are kept than the history limit allows");
            }
            if *names != kept {
                return wrong("the names of past runs in the status are wrong");
            }
        }
        Ok(())
    }

    fn describe(&self, before: &World, edge: &Edge) -> String {
        let world = &edge.world;
        let mut story = format!("{} at {}", edge.step, self.oracle.now(world.clock));
        if let (None, Some(doing)) = (before.operator.doing, world.operator.doing) {
            let decision = self.oracle.decision(doing.plan);
            write!(story, ": {:?}", decision.acts).unwrap();
        }
        if world.schedule.status != before.schedule.status {
            let status = self.oracle.status(world.schedule.status);
            write!(story, "; status {}", serde_json::to_string(status).unwrap()).unwrap();
        }
        if (world.schedule, world.foreign) != (before.schedule, before.foreign) {
            write!(story, "; {:?}, names taken: {:b}", world.schedule, world.foreign).unwrap();
        }
        if world.applications != before.applications {
            let all = world.applications.iter().enumerate();
            let there: Vec<_> =
                all.filter_map(|(run, one)| one.map(|one| (run, one.end, one.is_going))).collect();
            write!(story, "; applications {there:?}").unwrap();
        }
        story
    }
}

/// Deletes an application. One that has ended is removed immediately.
pub fn go(world: &mut World, run: usize) {
    let application = &mut world.applications[run];
    *application = application
        .filter(|application| application.end == End::Running)
        .map(|application| Application { is_going: true, ..application });
}

/// Removes an application that is being deleted. If it was running, its pods still exist.
fn gone(before: &World, run: usize) -> World {
    let mut world = *before;
    let application = world.applications[run].take();
    if application.is_some_and(|application| application.end == End::Running) {
        world.pods |= bit(run);
    }
    world
}

/// Returns the steps of the watch and of the cluster that take little time. In a state that comes to rest, the first is taken.
fn prompt(world: &World) -> impl Iterator<Item = Edge> {
    let of_run = move |run: usize| {
        let heard = heard_of(world, run).map(|next| edge("the watch reports an application", next));
        let is_going = world.applications[run].is_some_and(|application| application.is_going);
        let removed = is_going.then(|| edge("an application is removed", gone(world, run)));
        heard.into_iter().chain(removed)
    };
    let pods = (world.pods != 0).then(|| edge("pods are removed", World { pods: 0, ..*world }));
    let schedule = heard_of_schedule(world).map(|next| edge("the watch reports the schedule", next));
    let foreign = heard_of_foreign(world).map(|next| edge("the watch reports a taken name", next));
    (0..RUNS).flat_map(of_run).chain(pods).chain(schedule).chain(foreign)
}

/// Returns the state after the watch has reported the application of this run. `None` if the operator knows it already.
fn heard_of(world: &World, run: usize) -> Option<World> {
    let mut next = *world;
    next.operator.hear(run, world.applications[run]);
    (world.operator.applications[run] != world.applications[run]).then_some(next)
}

fn heard_of_schedule(world: &World) -> Option<World> {
    let mut next = *world;
    next.operator.schedule = world.schedule;
    next.operator.is_current = true;
    next.operator.waits = false;
    (next != *world).then_some(next)
}

fn heard_of_foreign(world: &World) -> Option<World> {
    let mut next = *world;
    next.operator.foreign = world.foreign;
    (next != *world).then_some(next)
}
