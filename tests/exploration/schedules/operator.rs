//! Models the operator as in `crates/controller/src/schedules`: observe and decide, then each action, then the status.
//! Each of these is a step of the model, and anything may happen between two steps.

use super::{
    model::{Edge, Model, go},
    mutation::Mutation,
    oracle::{Act, Seen},
    world::{Application, Doing, End, RUNS, Trouble, World, bit},
};
use crate::{decision::Todo, explorer::Call};
use serde_json::json;

impl Model {
    /// Begins a reconcile: the operator observes and decides. `None` if that changes nothing.
    pub fn pass(&mut self, before: &World) -> Option<World> {
        if before.operator.doing.is_some() || before.operator.waits {
            return None;
        }
        let mut world = *before;
        if !matches!(self.mutation, Some(Mutation::LostAnswerForgotten | Mutation::NamedByNow)) {
            for run in (0..RUNS).filter(|run| before.operator.doubted & bit(*run) != 0) {
                world.operator.hear(run, world.applications[run]);
            }
        }
        world.operator.doubted = 0;
        let operator = &world.operator;
        let departed = operator
            .latest
            .map(|known| known.filter(|(run, _)| operator.applications[usize::from(*run)].is_none()));
        let mut seen = Seen { applications: operator.applications, departed, foreign: 0, has_pods: false };
        let (names, pods) = self.oracle.asked(&operator.schedule, world.clock, &seen);
        seen.foreign = names & operator.foreign;
        let of_those_there: u8 = (0..RUNS).filter(|run| operator.applications[*run].is_some()).map(bit).sum();
        seen.has_pods = pods && world.pods & !of_those_there != 0;
        let plan = self.oracle.next(&operator.schedule, world.clock, &seen);
        let decision = self.oracle.decision(plan);
        if decision.is_nothing() {
            return (world != *before).then_some(world);
        }
        let is_current = operator.is_current;
        world.operator.doing = Some(Doing { plan, done: 0, is_current });
        Some(world)
    }

    /// Carries out the next step of the present reconcile.
    pub fn go_on(&self, before: &World, call: Call) -> Option<Edge> {
        let doing = before.operator.doing?;
        let decision = self.oracle.decision(doing.plan);
        if let Some(wrong) = &decision.wrong {
            return Some(Edge { step: call.step(), world: *before, broken: Some(wrong.clone()) });
        }
        let starts = decision.acts.iter().any(|act| matches!(act, Act::Start(_)));
        let checks = starts && self.mutation != Some(Mutation::NotCheckedLive);
        let is_backwards = self.mutation == Some(Mutation::StatusBeforeActions);
        let (now, is_last) = decision.step(doing.done, checks, is_backwards);
        let mut world = match call {
            Call::Answered => *before,
            Call::Failed | Call::Unheard => before.troubled(Trouble::Fault)?,
        };
        let mut broken = None;
        let goes_on = call != Call::Failed
            && match now {
                Todo::Check => doing.is_current,
                Todo::Act(Act::Start(run)) => self.start(&mut world, run, call, &mut broken),
                Todo::Act(Act::Delete(run, seen)) => self.delete(&mut world, run, seen, &mut broken),
                Todo::Write(status) => {
                    let is_written = doing.is_current;
                    if is_written {
                        broken = self.write(&mut world, status).err();
                        world.operator.waits = call == Call::Answered;
                    }
                    is_written
                }
            };
        let goes_on = goes_on && call == Call::Answered && !is_last;
        // The reconcile's own write has marked the schedule as changed, but does not make the decision outdated.
        let is_current = world.operator.doing.is_some_and(|doing| doing.is_current);
        let is_current = is_current || matches!(now, Todo::Write(_));
        world.operator.doing = goes_on.then_some(Doing { done: doing.done + 1, is_current, ..doing });
        Some(Edge { step: call.step(), world, broken })
    }

    /// Creates the application of the run, unless an application of its name exists. `call` is the outcome of the
    /// request. Returns false if the name belongs to another owner, which ends the reconcile.
    fn start(&self, world: &mut World, run: usize, call: Call, broken: &mut Option<String>) -> bool {
        if world.foreign & bit(run) != 0 {
            return self.mutation == Some(Mutation::ForeignTakenForOurs);
        }
        if let Some(there) = world.applications[run]
            && self.mutation != Some(Mutation::NamedByNow)
        {
            if call == Call::Answered {
                world.operator.hear(run, Some(there));
            }
            return true;
        }
        if call == Call::Unheard {
            world.operator.doubted |= bit(run);
        }
        if self.runs_alone() {
            let runs = |other: &Application| other.end == End::Running;
            if world.applications.iter().flatten().any(runs) || world.pods != 0 {
                *broken = Some("two applications run at once".to_owned());
            }
        }
        if world.past.made & bit(run) != 0 && world.past.forgotten & bit(run) == 0 {
            *broken = Some("an application is created a second time".to_owned());
        }
        if world.past.barred & bit(run) != 0 {
            *broken = Some("a slot is started that was due while the schedule was suspended".to_owned());
        }
        world.past.made |= bit(run);
        let made = Application { end: End::Running, is_going: false, made: world.clock };
        world.applications[run] = Some(made);
        if call == Call::Answered {
            world.operator.hear(run, Some(made));
        }
        true
    }

    fn delete(&self, world: &mut World, run: usize, seen: Application, broken: &mut Option<String>) -> bool {
        let Some(there) = world.applications[run] else { return true };
        if there != seen {
            return false;
        }
        if there.end == End::Running && self.config.spec["concurrencyPolicy"] != json!("Replace") {
            *broken = Some("a running application is deleted".to_owned());
        }
        go(world, run);
        true
    }

    /// Writes a status. The error says what is wrong in the status, or why it must not follow the previous one.
    fn write(&self, world: &mut World, status: u32) -> Result<(), String> {
        let before = world.schedule.status;
        world.schedule.status = status;
        world.changed();
        if self.oracle.handled(status) < self.oracle.handled(before) {
            return Err("handledUntil goes back".to_owned());
        }
        let named = self.oracle.status(status).last_run_name.as_ref();
        let made = |name: &String| {
            (0..RUNS).any(|run| self.oracle.name(run) == name && world.past.made & bit(run) != 0)
        };
        if named.is_some_and(|name| !made(name)) {
            return Err("lastRunName names an application that was not created".to_owned());
        }
        Ok(())
    }
}
