//! Computes the steps other than the operator's reconciles: those of pods, submissions, watches and the application's
//! user.

use super::{
    model::{Edge, Model},
    world::*,
};
use crate::explorer::edge;

impl Model {
    /// Adds all steps other than the operator's reconciles.
    pub fn happenings(&self, world: &World, out: &mut Vec<Edge>) {
        for name in 0..NAMES {
            self.driver(world, name, out);
            if !self.is_by_pod() {
                out.extend(heard_of_driver(world, name));
            }
        }
        self.submission_pods(world, out);
        for place in 0..EXECUTORS {
            executor(world, place, out);
            out.extend(heard_of_executor(world, place));
        }
        out.extend(heard_of_application(world));
        self.submissions(world, out);
        self.crash(world, out);
        if let Some((status, is_current)) = world.sent {
            let mut next = *world;
            next.sent = None;
            let broken = (is_current && next.application.life != Life::Gone)
                .then(|| self.write(&mut next, status).err())
                .flatten();
            out.push(Edge { step: "a status arrives late", world: next, broken });
        }
        self.user(world, out);
        if let Some(mut next) = world.troubled(Trouble::Fault) {
            relist(&mut next);
            next.operator.submission_pods = next.seen_submission_pods();
            out.push(edge("the watch starts again with a list", next));
        }
        out.extend(goes(world));
    }

    fn driver(&self, world: &World, name: usize, out: &mut Vec<Edge>) {
        let Some(pod) = world.drivers[name] else { return };
        let Some(run) = pod.run else {
            out.push(edge("the pod of another owner is removed", self.without_driver(world, name)));
            return;
        };
        let with = |pod: Pod| {
            let mut next = *world;
            next.drivers[name] = Some(pod);
            next
        };
        if pod.phase == Phase::Pending && !pod.terminating && self.is_complete(world, &pod) {
            out.push(self.starts(world, name));
        }
        // In this model, a driver ends only after each submission in flight has reached the API server or was given up.
        let may_end = world.orphan.is_none() && !(self.is_by_pod() && is_submitted_again(world, run));
        if pod.phase == Phase::Running && may_end {
            let mut next = with(Pod { phase: Phase::Succeeded, ..pod });
            next.past.succeeded |= run.bit();
            out.push(edge("a driver succeeds", next));
            let mut next = with(Pod { phase: Phase::Failed, ..pod });
            if !pod.terminating {
                next.past.failed |= run.bit();
            }
            out.push(edge("a driver fails", next));
        }
        if pod.phase == Phase::Running {
            if let Some(mut next) = world.troubled(Trouble::NodeLoss) {
                next.drivers[name] = Some(Pod { phase: Phase::Unknown, ..pod });
                next.past.lost |= run.bit();
                out.push(edge("a node is lost", next));
            }
            executor_comes(world, pod, out);
        }
        if pod.phase == Phase::Unknown {
            out.push(edge("a node is back", with(Pod { phase: Phase::Running, ..pod })));
        }
        if pod.phase == Phase::Pending && pod.terminating && pod.protected {
            out.push(edge("a driver fails", with(Pod { phase: Phase::Failed, ..pod })));
        }
        if !pod.terminating
            && let Some(mut next) = world.troubled(Trouble::Kill)
        {
            next.drivers[name] = Some(Pod { terminating: true, ..pod });
            next.past.lost |= run.bit();
            out.push(edge("a user deletes a driver", next));
        }
        if world.is_going() && !pod.terminating {
            let mut next = with(Pod { terminating: true, ..pod });
            if world.is_closing {
                next.past.lost |= run.bit();
            }
            out.push(edge("Kubernetes deletes a driver", next));
        }
        if (pod.terminating || pod.phase == Phase::Unknown) && !pod.protected && may_end {
            out.push(edge("a driver is removed", self.without_driver(world, name)));
        }
    }

    /// Returns the state without the pod of this name.
    pub fn without_driver(&self, world: &World, name: usize) -> World {
        let mut next = *world;
        let Some(pod) = next.drivers[name].take() else { return next };
        let Some(run) = pod.run else { return next };
        if self.oracle.facts(world.application.status).run != Some(run) {
            next.past.vanished |= next.past.lost & run.bit();
        }
        // The watch's report of a deleted pod matters only if the pod had ended, or if the operator remembers a
        // departed driver, which it then forgets.
        next.late[name] = Some(pod).filter(|_| pod.phase.has_ended() || world.operator.departed.is_some());
        next
    }

    /// Starts a driver's container.
    pub fn starts(&self, world: &World, name: usize) -> Edge {
        let mut next = *world;
        let mut broken = None;
        if let Some(pod) = &mut next.drivers[name]
            && let Some(run) = pod.run
        {
            pod.phase = Phase::Running;
            // A second driver is allowed after a first one that vanished: no component knows any more that the first
            // one existed.
            let is_excused = next.past.vanished & run.bit() != 0;
            if next.past.started & run.bit() != 0 && !is_excused {
                broken = Some(format!("run {run:?} has a second driver"));
            }
            next.past.started |= run.bit();
        }
        Edge { step: "a driver starts", world: next, broken }
    }

    fn submissions(&self, world: &World, out: &mut Vec<Edge>) {
        if let Some(submission) =
            world.operator.submission.filter(|submission| submission.progress.is_running())
        {
            out.push(self.submission_goes_on(world, submission));
            let gives_up = self.waits_for_another(world, submission).then_some(*world);
            let is_refused = match submission.progress {
                Progress::Met => false,
                Progress::Made => self.oracle.is_native(),
                _ => true,
            };
            let refused = gives_up.or_else(|| world.troubled(Trouble::Refusal).filter(|_| is_refused));
            if let Some(mut next) = refused {
                next.operator.submission = Some(Submission { progress: Progress::Failed, ..submission });
                out.push(edge("the submission fails", next));
            }
            if submission.cancelled {
                let mut next = *world;
                next.operator.submission = None;
                out.push(edge("the submission ends", next));
            }
        }
        out.extend(self.orphan_goes_on(world));
    }

    pub fn submission_goes_on(&self, world: &World, submission: Submission) -> Edge {
        let mut next = *world;
        let (progress, broken) = self.makes(&mut next, submission);
        next.operator.submission = Some(Submission { progress, ..submission });
        Edge { step: "the submission continues", world: next, broken }
    }

    pub fn orphan_goes_on(&self, world: &World) -> Option<Edge> {
        let mut next = *world;
        let (orphan, broken) = match world.orphan? {
            Orphan::Submission(submission) => {
                let (progress, broken) = self.makes(&mut next, submission);
                // If submission pods are used, only the request that was in flight reaches the API server.
                let goes_on = progress.is_running() && !self.is_by_pod();
                (goes_on.then_some(Orphan::Submission(Submission { progress, ..submission })), broken)
            }
            Orphan::SparkSubmit { run, made } => {
                let (outcome, broken) = self.spark_submit_makes(&mut next, run, made);
                let made = outcome.ok().filter(|made| !matches!(made, Made::All(_)));
                (made.map(|made| Orphan::SparkSubmit { run, made }), broken)
            }
        };
        next.orphan = orphan;
        Some(Edge { step: "an orphan continues", world: next, broken })
    }

    /// Creates the next object of a submission. A native submission creates the driver's ConfigMap, then the driver's
    /// pod.
    fn makes(&self, world: &mut World, submission: Submission) -> (Progress, Option<String>) {
        if self.is_by_pod() {
            return self.makes_submission_pod(world, submission);
        }
        let Submission { run, name, progress, .. } = submission;
        let name = usize::from(name);
        match progress {
            Progress::Begun if self.oracle.is_grouped() => (makes_group(world, run), None),
            Progress::Begun | Progress::Grouped => {
                world.config_maps[usize::from(run.ordinal)] = Some(run.spec);
                (Progress::HalfMade, None)
            }
            Progress::HalfMade if world.drivers[name].is_some() => (Progress::Met, None),
            Progress::HalfMade => {
                let is_alone = self.oracle.is_grouped() && world.group != Some(run);
                let is_excused = self.config.budget.of(Trouble::Orphan) > 0;
                let broken =
                    (is_alone && !is_excused).then(|| "a driver is created without its group".to_owned());
                (Progress::Made, broken.or(self.makes_driver(world, run, name).1))
            }
            Progress::Made => (Progress::Succeeded, None),
            Progress::Met => (Progress::DriverExists, None),
            ended @ (Progress::Succeeded | Progress::DriverExists | Progress::Failed) => (ended, None),
        }
    }

    fn user(&self, world: &World, out: &mut Vec<Edge>) {
        if world.application.life != Life::Alive {
            return;
        }
        let before = world.application;
        let mut user = |trouble, step, application: Application| {
            if let Some(mut next) = world.troubled(trouble) {
                next.application = application;
                next.changed();
                out.push(edge(step, next));
            }
        };
        let generation = before.generation + 1;
        for spec in (0..self.oracle.spec_count()).filter(|spec| *spec != before.spec) {
            user(Trouble::Edit, "the spec is edited", Application { spec, generation, ..before });
        }
        let suspend = !before.suspend;
        user(Trouble::Suspend, "suspend is flipped", Application { suspend, generation, ..before });
        user(Trouble::Rerun, "a rerun is requested", Application { rerun: before.rerun + 1, ..before });
        user(Trouble::Deletion, "the application is deleted", Application { life: Life::Deleted, ..before });
    }
}

/// Creates the group of a run, as `controller::objects::make` does: the group of another run is deleted first.
pub fn makes_group(world: &mut World, run: RunNo) -> Progress {
    if world.group.is_some_and(|of| of != run) {
        world.group = None;
        return Progress::Begun;
    }
    world.group = Some(run);
    Progress::Grouped
}

/// Whether another `spark-submit` is about to create the driver of this run, and has not checked yet whether the driver
/// exists.
fn is_submitted_again(world: &World, run: RunNo) -> bool {
    let mut pods = world.submission_pods.iter().flatten();
    let is_made = |submission: Submission| submission.run == run && submission.progress.is_running();
    pods.any(|pod| pod.run == run && pod.may_go_on() && pod.made == Made::Nothing)
        || world.operator.submission.is_some_and(is_made)
}

fn executor_comes(world: &World, driver: Pod, out: &mut Vec<Edge>) {
    let owned = |executor: &Option<Executor>| executor.is_some_and(|executor| executor.owner == driver.uid);
    let free = world.executors.iter().position(Option::is_none);
    if let (Some(place), Some(run), false) = (free, driver.run, world.executors.iter().any(owned))
        && let Some(mut next) = world.troubled(Trouble::Executor)
    {
        let uid = next.new_uid();
        next.executors[place] =
            Some(Executor { uid, run, owner: driver.uid, ended: false, terminating: false });
        out.push(edge("an executor is created", next));
    }
}

fn executor(world: &World, place: usize, out: &mut Vec<Edge>) {
    let Some(executor) = world.executors[place] else { return };
    if !executor.ended {
        let mut next = *world;
        next.executors[place] = Some(Executor { ended: true, ..executor });
        out.push(edge("an executor ends", next));
    }
    out.extend(without_executor(world, place).map(|next| edge("an executor is removed", next)));
}

/// Returns the state without this executor. `None` if the executor is not being deleted, has not ended, and has its
/// driver.
pub fn without_executor(world: &World, place: usize) -> Option<World> {
    let executor = world.executors[place]?;
    let driver = world.drivers.iter().flatten().find(|pod| pod.uid == executor.owner);
    let goes = executor.terminating || executor.ended || driver.is_none();
    let mut next = *world;
    next.executors[place] = None;
    goes.then_some(next)
}

/// Returns the state after the watch has reported the driver of this name. `None` if the operator knows it already.
pub fn heard_of_driver(world: &World, name: usize) -> Option<Edge> {
    let mut next = *world;
    if let Some(pod) = next.late[name].take() {
        next.operator.departed = pod.phase.has_ended().then_some((name as u8, pod));
        // One watch reports all pods in the order of their changes, so it reports the executors before the deletion of
        // their driver.
        for (known, executor) in next.operator.executors.iter_mut().zip(world.executors) {
            *known = known.or(executor);
        }
    }
    next.operator.drivers[name] = world.drivers[name].filter(|pod| pod.run.is_some());
    (next != *world).then(|| edge("the watch reports a driver", next))
}

pub fn heard_of_executor(world: &World, place: usize) -> Option<Edge> {
    let mut next = *world;
    next.operator.executors[place] = world.executors[place];
    (next != *world).then(|| edge("the watch reports an executor", next))
}

pub fn heard_of_application(world: &World) -> Option<Edge> {
    let mut next = *world;
    next.operator.application = world.application;
    next.operator.is_current = true;
    next.operator.waits = false;
    (next != *world).then(|| edge("the watch reports the application", next))
}

/// Replaces the operator's copies of pods by a new list. A driver that is missing from the list is remembered as it was
/// last seen, if it had ended.
fn relist(world: &mut World) {
    for name in 0..NAMES {
        let known = world.operator.drivers[name];
        let live = world.drivers[name].filter(|pod| pod.run.is_some());
        if let Some(pod) = known.filter(|pod| live.is_none_or(|live| live.uid != pod.uid)) {
            world.operator.departed = pod.phase.has_ended().then_some((name as u8, pod));
        }
        world.operator.drivers[name] = live;
        world.late[name] = None;
    }
    world.operator.executors = world.executors;
}

/// Returns the state without the application, if it is being deleted. The objects that it owns are deleted before or
/// after.
pub fn goes(world: &World) -> Option<Edge> {
    let mut next = *world;
    next.application.life = Life::Gone;
    next.changed();
    (world.application.life == Life::Deleted).then(|| edge("the application is removed", next))
}
