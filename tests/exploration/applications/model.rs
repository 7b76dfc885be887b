//! Computes the states that can follow a state, and checks the invariants where they can be broken: when a driver is
//! created or starts, when a status is written, and in states at rest.

use super::{
    cluster::{goes, heard_of_application, heard_of_driver, heard_of_executor, without_executor},
    configs::Config,
    mutation::Mutation,
    operator,
    oracle::{Act, Facts, Oracle},
    submission_pods::{collected, heard_of_pods, without_submission_pod},
    world::*,
};
use crate::explorer::{self, Call, edge};
use api::{RestartPolicyType, State};
use std::{cell::RefCell, collections::BTreeSet, fmt::Write};

pub struct Model {
    pub config: Config,
    pub mutation: Option<Mutation>,
    pub oracle: Oracle,
    /// The transitions between states of the application that have happened.
    pub seen: RefCell<BTreeSet<(State, State)>>,
}

pub type Edge = explorer::Edge<World>;

/// The step of a reconcile for which all timers have elapsed.
const LATE: &str = "a reconcile begins late";

pub const fn is_terminal(state: State) -> bool {
    matches!(state, State::Completed | State::Failed)
}

/// Returns an application that was just created.
pub const fn fresh(spec: u8) -> Application {
    Application { spec, generation: 1, suspend: false, rerun: 0, life: Life::Alive, status: 0 }
}

impl Model {
    pub fn new(config: &Config, mutation: Option<Mutation>) -> Self {
        let oracle = Oracle::new(config.setting.clone(), mutation);
        Self { config: config.clone(), mutation, oracle, seen: RefCell::default() }
    }

    /// Whether the present decision starts no run beyond the last one that is explored.
    fn is_within_bounds(&self, world: &World) -> bool {
        let Some(doing) = world.operator.doing else { return true };
        let decision = self.oracle.decision(doing.plan);
        let runs = self.config.runs;
        let submits =
            decision.acts.iter().any(|act| matches!(act, Act::Submit { run, .. } if run.ordinal > runs));
        !submits && self.oracle.facts(decision.status).ordinal <= runs
    }

    /// Checks that a driver may be created now.
    pub fn a_driver_is_made(&self, world: &World, run: RunNo, name: usize) -> Result<(), String> {
        let lives = |pod: &Pod| pod.run.is_some() && !pod.phase.has_ended();
        if world
            .drivers
            .iter()
            .enumerate()
            .any(|(other, pod)| other != name && pod.as_ref().is_some_and(lives))
        {
            return Err("there are two drivers".to_owned());
        }
        if world.executors.iter().flatten().any(|executor| executor.run != run) {
            return Err("a driver is created while executors of another run exist".to_owned());
        }
        Ok(())
    }

    /// Writes a status. The error says what is wrong in the status, or why it must not follow the previous one.
    pub fn write(&self, world: &mut World, status: u32) -> Result<(), String> {
        let before = self.oracle.facts(world.application.status);
        let after = self.oracle.facts(status);
        let checked = self.follows(world, before, after).and_then(|()| self.is_true(world, after));
        world.application.status = status;
        world.changed();
        checked.map_err(|why| format!("{} becomes {}: {why}", shown(before.state), shown(after.state)))
    }

    /// Checks that a status may follow the previous one.
    fn follows(&self, world: &World, before: &Facts, after: &Facts) -> Result<(), String> {
        let wrong = |why: &str| Err(why.to_owned());
        let application = &world.application;
        let is_edited = before.specs != 0 && !before.is_of(application.spec);
        let is_rerun = application.rerun != before.rerun;
        let is_retried = after.state == State::SubmissionFailed && before.run != after.run;
        let moves = before.state != after.state || is_retried;
        if moves {
            self.seen.borrow_mut().insert((before.state, after.state));
        }
        if is_terminal(before.state) && before.state != after.state && !is_edited && !is_rerun {
            return wrong("the application had ended, and neither an edit nor a rerun was requested");
        }
        let is_reset = is_edited || is_rerun && is_terminal(before.state);
        for (before, after) in
            [(before.executions, after.executions), (before.submissions, after.submissions)]
        {
            if after < before && !(is_reset && after <= 1) || after > before + 1 {
                return wrong("attempts are counted wrongly");
            }
        }
        let counted = match after.state {
            State::Submitted => after.executions.min(after.submissions),
            State::SubmissionFailed => after.submissions,
            _ => 1,
        };
        if counted == 0 {
            return wrong("attempts are not counted");
        }
        if is_terminal(before.state) && after.state == State::PendingRerun && after.rerun != application.rerun
        {
            return wrong("the request for a rerun is not recorded");
        }
        if after.ordinal < before.ordinal || after.ordinal > before.ordinal + 1 {
            return wrong("runs are counted wrongly");
        }
        let is_between = matches!(
            before.state,
            State::New | State::SubmissionFailed | State::PendingRerun | State::Resuming
        );
        if after.run != before.run && (!is_between || after.ordinal != before.ordinal + 1) {
            return wrong("a run starts without a reason");
        }
        match after.state {
            State::Invalidating if before.state != after.state && !is_edited => {
                wrong("the spec was not edited")
            }
            State::PendingRerun
                if before.state == State::Succeeding && self.config.restart != RestartPolicyType::Always =>
            {
                wrong("by its restartPolicy, the application does not run again")
            }
            State::PendingRerun
                if before.state == State::Failing && self.config.restart == RestartPolicyType::Never =>
            {
                wrong("by its restartPolicy, the application is not retried")
            }
            State::Resuming if before.state != after.state && application.suspend => {
                wrong("the application is suspended")
            }
            State::Suspending if before.state == State::Running && self.has_driver_in_queue(world) => {
                wrong("Kueue would give its quota to another application while it has a driver")
            }
            _ => Ok(()),
        }
    }

    /// Whether an application in a queue of Kueue has a driver. Always false after a crash of the operator, because its
    /// last request may create a driver late.
    fn has_driver_in_queue(&self, world: &World) -> bool {
        let lives = |pod: &Pod| pod.run.is_some() && !pod.phase.has_ended();
        let is_late = world.left.of(Trouble::Crash) < self.config.budget.of(Trouble::Crash);
        self.config.setting.is_queued && !is_late && world.drivers.iter().flatten().any(lives)
    }

    /// Checks that the state in a status is that of the cluster.
    fn is_true(&self, world: &World, after: &Facts) -> Result<(), String> {
        let past = &world.past;
        let run = after.run.map_or(0, RunNo::bit);
        let is_so = match after.state {
            State::Succeeding | State::Completed => past.succeeded & run != 0,
            State::Failing => (past.failed | past.lost) & run != 0,
            State::Running => past.started & run != 0,
            State::Suspended => {
                let is_quiet = world.drivers.iter().flatten().all(|pod| pod.run.is_none())
                    && world.executors.iter().all(Option::is_none)
                    && world.submission_pods.iter().all(Option::is_none)
                    && world.operator.submission.is_none_or(|submission| !submission.progress.is_running());
                is_quiet || self.config.budget.of(Trouble::Orphan) > 0
            }
            // A submission pod that still runs could create a driver besides that of the next attempt.
            State::SubmissionFailed => {
                let mut pods = world.submission_pods.iter().flatten();
                let goes_on =
                    pods.any(|pod| Some(pod.run) == after.run && pod.may_go_on() && !pod.terminating);
                let has_driver = past.started & !past.lost & run != 0;
                !goes_on && !has_driver || self.config.budget.of(Trouble::Orphan) > 0
            }
            _ => true,
        };
        if is_terminal(after.state) && !after.has_time {
            return Err("it has no terminationTime".to_owned());
        }
        if is_so { Ok(()) } else { Err("the cluster is not in that state".to_owned()) }
    }
}

/// Whether a driver is incomplete while the operator cannot know that a `spark-submit` is still creating its objects.
/// In that case no timer elapses before the `spark-submit` is done.
fn is_half_made(world: &World) -> bool {
    let is_orphans = match world.orphan {
        Some(Orphan::Submission(submission)) => submission.progress == Progress::HalfMade,
        Some(Orphan::SparkSubmit { made, .. }) => matches!(made, Made::Pod(_)),
        None => false,
    };
    let is_known = |pod: &SubmissionPod| {
        let submission = world.operator.submission;
        let mut heard = world.operator.submission_pods.iter().flatten();
        heard.any(|heard| heard.uid == pod.uid) || submission.is_some_and(|known| known.run == pod.run)
    };
    let pods = world.submission_pods.iter().flatten();
    let mut working = pods.filter(|pod| matches!(pod.made, Made::Pod(_)));
    is_orphans || working.any(|pod| !is_known(pod))
}

impl explorer::Model for Model {
    type World = World;

    fn beginning(&self) -> World {
        let application = fresh(0);
        let foreign = Pod {
            uid: 0,
            run: None,
            phase: Phase::Running,
            terminating: false,
            protected: false,
            complete: true,
            template: 0,
        };
        World {
            application,
            drivers: [self.config.is_taken.then_some(foreign), None],
            operator: operator::fresh(&application),
            left: self.config.budget,
            ..World::default()
        }
    }

    fn edges(&mut self, world: &World, out: &mut Vec<Edge>) {
        let is_half_made = is_half_made(world);
        if self.config.setting.has_foreign_submission_pod
            && let Some(edge) = heard_of_pods(world)
        {
            // While the watch shows a pod with the application's labels, the operator lists no pods but relies on the
            // watch. In this setting, the watch therefore reports each change immediately.
            return out.push(edge);
        }
        for late in [false, true].into_iter().filter(|late| !late || !is_half_made) {
            if let Some(next) = self.reconcile(world, late).filter(|next| self.is_within_bounds(next)) {
                let step = if late { LATE } else { "a reconcile begins before any timer has elapsed" };
                if !out.iter().any(|edge| edge.world == next) {
                    out.push(edge(step, next));
                }
            }
        }
        for call in Call::ALL {
            out.extend(self.go_on(world, call));
        }
        self.happenings(world, out);
    }

    fn fair(&mut self, world: &World) -> Option<Edge> {
        let edge = |step, world| Some(edge(step, world));
        if world.sent.is_some() {
            let mut next = *world;
            next.sent = None;
            return edge("a status is lost", next);
        }
        if let Some(edge) = self.orphan_goes_on(world) {
            return Some(edge);
        }
        if world.operator.doing.is_some() {
            return self.go_on(world, Call::Answered);
        }
        if let Some(submission) =
            world.operator.submission.filter(|submission| submission.progress.is_running())
        {
            let edge = self.submission_goes_on(world, submission);
            if edge.world != *world {
                return Some(edge);
            }
        }
        if let Some(edge) = goes(world).or_else(|| collected(world)) {
            return Some(edge);
        }
        for place in 0..SUBMISSION_PODS {
            let Some(pod) = world.submission_pods[place] else { continue };
            if pod.terminating || world.is_going() {
                return edge("a submission pod is removed", without_submission_pod(world, place));
            }
            if let Some(edge) = self.submission_pod_goes_on(world, place, pod) {
                return Some(edge);
            }
        }
        for name in 0..NAMES {
            let Some(pod) = world.drivers[name] else { continue };
            let is_on_its_way = pod.terminating || world.application.life == Life::Gone;
            if pod.run.is_none() || is_on_its_way && !pod.protected {
                return edge("a driver is removed", self.without_driver(world, name));
            }
            let phase = match pod.phase {
                Phase::Pending | Phase::Running if pod.terminating => Phase::Failed,
                Phase::Pending if self.is_complete(world, &pod) && !pod.terminating => {
                    return Some(self.starts(world, name));
                }
                Phase::Unknown => Phase::Running,
                phase => phase,
            };
            if phase != pod.phase {
                let mut next = *world;
                next.drivers[name] = Some(Pod { phase, ..pod });
                return edge("a node is back", next);
            }
        }
        for place in 0..EXECUTORS {
            let Some(executor) = world.executors[place] else { continue };
            let lives =
                world.drivers.iter().flatten().any(|pod| pod.uid == executor.owner && !pod.phase.has_ended());
            let mut next = *world;
            next.executors[place] = None;
            if !lives || without_executor(world, place).is_some() {
                return edge("an executor is removed", next);
            }
        }
        let heard = if self.is_by_pod() {
            heard_of_pods(world)
        } else {
            (0..NAMES).find_map(|name| heard_of_driver(world, name))
        };
        let heard = heard.or_else(|| (0..EXECUTORS).find_map(|place| heard_of_executor(world, place)));
        if let Some(edge) = heard.or_else(|| heard_of_application(world)) {
            return Some(edge);
        }
        self.reconcile(world, true).and_then(|next| edge(LATE, next))
    }

    fn rests(&mut self, world: &World) -> Result<(), String> {
        let application = &world.application;
        let facts = self.oracle.facts(application.status);
        let state = shown(facts.state);
        let wrong = |why: &str| Err(format!("at rest in state {state}: {why}"));
        let ours = || world.drivers.iter().flatten().filter(|pod| pod.run.is_some());
        if world.submission_pods.iter().any(Option::is_some) {
            return wrong("a submission pod is left");
        }
        if application.life != Life::Alive {
            let is_gone = ours().next().is_none() && world.executors.iter().all(Option::is_none);
            return if is_gone { Ok(()) } else { wrong("the application is deleted and pods are left") };
        }
        // If a submission pod is deleted before its run is recorded, its ConfigMap is kept until the end of the run. If
        // a submission pod was never created, its ConfigMap is kept for the next run, whose ConfigMap has the same
        // name.
        let spared = match facts.state {
            State::Running => Some(facts.ordinal),
            State::Suspended => Some(facts.ordinal + 1),
            _ => None,
        };
        let mut files = (0..).zip(&world.config_maps).filter(|(ordinal, _)| Some(*ordinal) != spared);
        if self.is_by_pod() && files.any(|(_, files)| files.is_some()) {
            return wrong("the ConfigMap of a submission pod is left");
        }
        let grouped = Some(facts.run).filter(|_| self.oracle.is_grouped() && facts.state == State::Running);
        if world.group != grouped.flatten() {
            return wrong("the pod group is not that of the running run");
        }
        let lives = ours().filter(|pod| !pod.phase.has_ended());
        let lives: Vec<_> = lives.map(|pod| (pod.run, pod.phase)).collect();
        let is_followed = facts.state == State::Running && lives == [(facts.run, Phase::Running)];
        let is_excused = |run: &Option<RunNo>| run.is_some_and(|run| world.past.vanished & run.bit() != 0);
        if !is_followed && lives.iter().any(|(run, _)| !is_excused(run)) {
            return wrong("a driver exists that the status does not name");
        }
        match facts.state {
            State::Running if is_followed && !application.suspend => {}
            State::Completed | State::Failed => {}
            State::Suspended if application.suspend => return Ok(()),
            _ => return wrong("the application is stuck"),
        }
        if !facts.is_of(application.spec) || facts.run.is_none_or(|run| !facts.is_of(run.spec)) {
            return wrong("the last edit is lost");
        }
        let template = self.oracle.template(application.spec);
        let is_renewed = |pod: &Pod| {
            let run = pod.run.map_or(0, |run| usize::from(run.ordinal));
            let file = world.config_maps[run].map(|spec| self.oracle.template(spec));
            pod.template == template && (file == Some(template) || !self.oracle.is_partial())
        };
        if is_followed && !ours().filter(|pod| !pod.phase.has_ended()).all(is_renewed) {
            return wrong("executors are created from the template of an earlier spec");
        }
        if facts.generation != Some(application.generation) {
            return wrong("observedGeneration is not that of the last edit");
        }
        if is_terminal(facts.state) && world.config_maps[usize::from(facts.ordinal)].is_some() {
            return wrong("the ConfigMap of its driver is left");
        }
        if is_terminal(facts.state) && facts.rerun != application.rerun {
            return wrong("the requested rerun is lost");
        }
        Ok(())
    }

    fn describe(&self, before: &World, edge: &Edge) -> String {
        let mut story = edge.step.to_owned();
        let World { application, drivers, executors, submission_pods, operator, group, .. } = &edge.world;
        if let (None, Some(doing)) = (before.operator.doing, operator.doing) {
            let decision = self.oracle.decision(doing.plan);
            let (from, to) = (operator.application.status, decision.status);
            let state = |status| shown(self.oracle.facts(status).state);
            write!(story, " of {}: {:?}, {}", state(from), decision.acts, state(to)).unwrap();
        }
        if application.status != before.application.status {
            let facts = self.oracle.facts(application.status);
            write!(story, "; state {} with run {:?}", shown(facts.state), facts.run).unwrap();
        }
        if drivers != &before.drivers {
            write!(story, "; drivers {:?}", drivers.iter().flatten().collect::<Vec<_>>()).unwrap();
        }
        if executors != &before.executors {
            write!(story, "; executors {:?}", executors.iter().flatten().collect::<Vec<_>>()).unwrap();
        }
        if submission_pods != &before.submission_pods {
            let pods = submission_pods.iter().flatten().collect::<Vec<_>>();
            write!(story, "; submission pods {pods:?}").unwrap();
        }
        if group != &before.group {
            write!(story, "; group {group:?}").unwrap();
        }
        if operator.submission != before.operator.submission {
            write!(story, "; submission {:?}", operator.submission).unwrap();
        }
        story
    }
}

pub fn shown(state: State) -> &'static str {
    if state == State::New { "NEW" } else { state.as_str() }
}
