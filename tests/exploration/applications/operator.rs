//! Models the operator as in `crates/controller/src`: observe and decide, then each action, then the status. Each of
//! these is a step of the model, and anything may happen between two steps.

use super::{
    model::{Edge, Model, is_terminal},
    mutation::Mutation,
    oracle::{Act, FOREIGN, Seen, SeenDriver},
    submission_pods::delete,
    world::*,
};
use crate::{
    decision::Todo,
    explorer::{Call, edge},
};

impl Model {
    /// Begins a reconcile: the operator observes and decides. `late` is whether all timers have elapsed. `None` if that
    /// changes nothing.
    pub fn reconcile(&mut self, before: &World, late: bool) -> Option<World> {
        let operator = &before.operator;
        if operator.doing.is_some() || operator.waits {
            return None;
        }
        let mut world = *before;
        if operator.application.life != Life::Alive {
            return self.forget(world);
        }
        let seen = self.observe(&world);
        let plan = self.oracle.next(&operator.application, &seen, late);
        let recorded = self.oracle.facts(operator.application.status).run;
        if let SeenDriver::Pod { pod, .. } = seen.driver
            && pod.phase.has_ended()
            && pod.run == recorded
        {
            world.operator.ended_driver = Some(pod.uid);
        }
        let decision = self.oracle.decision(plan);
        if decision.is_nothing() {
            return (world != *before).then_some(world);
        }
        let is_current = operator.is_current;
        world.operator.doing = Some(Doing { plan, done: 0, is_current });
        Some(world)
    }

    /// Handles an application that is being deleted or no longer exists, as the controller does. `None` if that changes
    /// nothing.
    fn forget(&self, before: World) -> Option<World> {
        let mut world = before;
        world.operator.submission = None;
        world.operator.departed = None;
        world.operator.ended_driver = None;
        world.operator.has_written = false;
        world.operator.made_for = None;
        for executor in world.executors.iter_mut().flatten() {
            executor.terminating |=
                before.operator.executors.iter().flatten().any(|seen| seen.run == executor.run);
        }
        for driver in world.drivers.iter_mut().flatten() {
            let is_known =
                before.operator.drivers.iter().flatten().any(|seen| seen.uid == driver.uid && seen.protected);
            driver.protected &= !is_known;
        }
        for pod in &mut world.submission_pods {
            let mut known = before.operator.submission_pods.iter().flatten();
            if known.any(|seen| pod.is_some_and(|pod| pod.uid == seen.uid)) {
                delete(pod);
            }
        }
        (world != before).then_some(world)
    }

    /// Returns what the operator observes, as `controller::observe` does.
    fn observe(&mut self, world: &World) -> Seen {
        let operator = &world.operator;
        let application = &operator.application;
        let asked = self.oracle.asked(application);
        let facts = self.oracle.facts(application.status);
        let recorded = facts.run;
        let submission = operator.submission;
        let is_told = submission.is_some_and(|submission| {
            let tells = submission.progress.is_running()
                || submission.progress == Progress::Succeeded && self.oracle.is_native();
            tells && asked.questions.launch && submission.run == asked.next
        });
        let name = usize::from(asked.name);
        let submission_pods = operator.submission_pods;
        let is_made = submission.is_some_and(|submission| {
            submission.run == asked.next && submission.progress == Progress::Succeeded && self.is_by_pod()
        });
        let place = asked.next.place();
        let is_of_next = |pod: &SubmissionPod| pod.run == asked.next;
        let cached_pod = submission_pods[place].filter(is_of_next);
        let live_submission_pod = match cached_pod {
            None if asked.questions.launch && is_made => world.seen_submission_pods()[place],
            _ => None,
        };
        let is_awaited = asked.questions.launch
            && cached_pod.or(live_submission_pod.filter(is_of_next)).is_some_and(|pod| is_waited_for(&pod));
        let live = || match world.drivers[name] {
            Some(pod) => SeenDriver::Pod { pod, name: asked.name, complete: self.is_complete(world, &pod) },
            None => SeenDriver::Gone,
        };
        let trusts_cache = self.mutation == Some(Mutation::CachedDriverTrusted);
        let driver = match operator.drivers[name] {
            _ if is_told => SeenDriver::Unseen,
            Some(pod) if asked.questions.late_driver || !asked.questions.launch && pod.run == recorded => {
                SeenDriver::Pod { pod, name: asked.name, complete: true }
            }
            None if self.mutation == Some(Mutation::UnseenTakenForGone) && !asked.questions.launch => {
                SeenDriver::Gone
            }
            Some(pod) if trusts_cache => {
                SeenDriver::Pod { pod, name: asked.name, complete: self.is_complete(world, &pod) }
            }
            None if trusts_cache => SeenDriver::Gone,
            None if is_awaited => SeenDriver::Unseen,
            _ if asked.questions.driver => live(),
            _ => SeenDriver::Unseen,
        };
        let mut cached = operator.drivers;
        cached[name] = None;
        let is_empty = cached.iter().all(Option::is_none)
            && operator.executors.iter().all(Option::is_none)
            && operator.submission_pods.iter().all(Option::is_none);
        let is_behind = operator.drivers[name].is_some_and(|pod| Some(pod.uid) != operator.ended_driver);
        let knows_all_pods = self.mutation == Some(Mutation::EmptyCacheTrusted)
            || is_empty
                && !is_behind
                && self.oracle.knows_all_pods(application, operator.departed, operator.ended_driver);
        let (mut stray_drivers, mut stray_executors, mut stray_submission_pods) = match driver {
            _ if !asked.questions.strays => Default::default(),
            SeenDriver::Gone if is_empty && !knows_all_pods => {
                (world.drivers, world.executors, world.seen_submission_pods())
            }
            _ => (cached, operator.executors, operator.submission_pods),
        };
        stray_drivers[name] = None;
        // The operator lists stray pods as metadata, without the phase and without whether a driver is complete, which
        // the decision core does not need.
        for pod in stray_drivers.iter_mut() {
            *pod = pod.filter(|pod| pod.run.is_some()).map(|pod| Pod {
                phase: Phase::Pending,
                complete: false,
                ..pod
            });
        }
        for executor in stray_executors.iter_mut().flatten() {
            executor.ended = false;
        }
        for pod in stray_submission_pods.iter_mut().flatten() {
            pod.stage = Stage::Pending;
        }
        stray_executors.sort_by_key(|executor| executor.map_or(0, |executor| executor.uid));
        let mut executors = operator.executors;
        for executor in &mut executors {
            *executor = executor.filter(|executor| Some(executor.run) == recorded);
        }
        Seen {
            driver: match driver {
                SeenDriver::Pod { pod, name, complete } => {
                    SeenDriver::Pod { pod: Pod { complete: false, ..pod }, name, complete }
                }
                other => other,
            },
            executors,
            stray_drivers,
            stray_executors,
            submission_pods,
            live_submission_pod,
            stray_submission_pods,
            departed: operator.departed,
            has_written: operator.has_written,
            made: self.config.setting.policy.has_driver_pdb
                && recorded.is_some()
                && operator.made_for == recorded,
            submission: submission.map(|submission| (submission.run, submission.progress)),
            // In this model, the watch reports groups immediately.
            group: world.group,
        }
    }

    /// Whether all objects that a driver needs exist.
    pub fn is_complete(&self, world: &World, pod: &Pod) -> bool {
        match pod.run {
            Some(run) if self.oracle.is_native() => world.config_maps[usize::from(run.ordinal)].is_some(),
            _ => pod.complete,
        }
    }

    /// Carries out the next step of the present reconcile.
    pub fn go_on(&self, before: &World, call: Call) -> Option<Edge> {
        let doing = before.operator.doing?;
        let decision = self.oracle.decision(doing.plan);
        if let Some(wrong) = &decision.wrong {
            return Some(Edge { step: call.step(), world: *before, broken: Some(wrong.clone()) });
        }
        let submits = decision.acts.iter().any(|act| matches!(act, Act::Submit { .. }));
        let is_backwards = self.mutation == Some(Mutation::StatusBeforeActions);
        let (now, is_last) = decision.step(doing.done, submits, is_backwards);
        let is_call = !matches!(now, Todo::Act(Act::Submit { .. } | Act::StopSubmission));
        let is_on_its_way = self.is_by_pod() && matches!(before.orphan, Some(Orphan::Submission(_)));
        if matches!(now, Todo::Check) && (before.sent.is_some() || is_on_its_way) {
            // In this model, no request is in flight for longer than a new operator takes to submit something.
            return None;
        }
        let mut world = match call {
            Call::Answered => *before,
            Call::Failed | Call::Unheard if is_call => before.troubled(Trouble::Fault)?,
            Call::Failed | Call::Unheard => return None,
        };
        let mut broken = None;
        let goes_on = if call == Call::Failed {
            // RenewTemplate consists of three requests: here, the first two have succeeded and the last one fails.
            if let Todo::Act(Act::RenewTemplate { name, uid, template }) = now
                && let Some(pod) = write_template(&mut world, name, uid, template)
                && self.mutation != Some(Mutation::TemplateWrittenUnmarked)
            {
                pod.template = NO_TEMPLATE;
            }
            // A failure to create or change an auxiliary object does not end the reconcile.
            matches!(
                now,
                Todo::Act(Act::Make | Act::DeleteGroup(_) | Act::RestoreGroup(_) | Act::RenewTemplate { .. })
            )
        } else {
            match now {
                Todo::Check => doing.is_current,
                Todo::Act(act) => self.act(&mut world, before, doing, act, &mut broken),
                Todo::Write(status) => {
                    let is_forced = self.mutation == Some(Mutation::WrittenUnconditionally);
                    let is_written = (doing.is_current || is_forced) && world.application.life != Life::Gone;
                    if is_written {
                        broken = broken.or(self.write(&mut world, status).err());
                        if call == Call::Answered {
                            world.operator.waits = true;
                            world.operator.has_written = true;
                        }
                    }
                    is_written
                }
            }
        };
        let goes_on = goes_on && call != Call::Unheard && !is_last;
        // The write may have changed `is_current`, so it is read again.
        let is_current = world.operator.doing.is_some_and(|doing| doing.is_current);
        world.operator.doing = goes_on.then_some(Doing { done: doing.done + 1, is_current, ..doing });
        Some(Edge { step: call.step(), world, broken })
    }

    /// Carries out one action. Returns false if the reconcile ends with this action.
    fn act(
        &self,
        world: &mut World,
        before: &World,
        doing: Doing,
        act: Act,
        broken: &mut Option<String>,
    ) -> bool {
        match act {
            Act::Submit { run, name } => {
                let submission = Submission { run, name, progress: Progress::Begun, cancelled: false };
                let is_running = world
                    .operator
                    .submission
                    .is_some_and(|known| known.run == run && known.progress.is_running());
                if !is_running {
                    world.operator.submission = Some(submission);
                }
            }
            Act::StopSubmission => {
                if let Some(submission) = &mut world.operator.submission {
                    submission.cancelled = submission.progress.is_running();
                }
            }
            Act::Make => {
                world.operator.made_for = self.oracle.facts(before.operator.application.status).run;
            }
            Act::DeleteChildren { config_maps, group } => {
                for (ordinal, config_map) in world.config_maps.iter_mut().enumerate() {
                    if config_maps & (1 << ordinal) != 0 {
                        *config_map = None;
                    }
                }
                world.group = world.group.filter(|_| !group);
            }
            Act::DeletePod { name, uid } => {
                if let Some(pod) = world.drivers[usize::from(name)].as_mut().filter(|pod| pod.uid == uid) {
                    pod.terminating = true;
                    if pod.run.is_none() {
                        *broken = Some("the pod of another owner is deleted".to_owned());
                    }
                }
            }
            Act::DeleteSubmissionPod { place, uid } => {
                let place = &mut world.submission_pods[usize::from(place)];
                if uid == FOREIGN {
                    *broken = Some("the pod of another owner is deleted".to_owned());
                } else if place.is_some_and(|pod| pod.uid == uid) {
                    delete(place);
                }
            }
            Act::DeleteExecutor(uid) => {
                let mut executors = world.executors.iter_mut().flatten();
                if let Some(executor) = executors.find(|executor| executor.uid == uid) {
                    executor.terminating = true;
                }
            }
            Act::DeleteGroup(run) => world.group = world.group.filter(|of| *of != run),
            Act::RestoreGroup(run) => world.group = Some(run),
            Act::RenewTemplate { name, uid, template } => {
                if let Some(pod) = write_template(world, name, uid, template) {
                    pod.template = template;
                }
            }
            Act::Protect { name, uid, protect } => {
                let pods = &mut world.drivers[usize::from(name)];
                if let Some(pod) = pods.as_mut().filter(|pod| pod.uid == uid) {
                    if pod.terminating && protect && !pod.protected {
                        // Kubernetes refuses a new finalizer on a pod that is being deleted.
                        return false;
                    }
                    pod.protected = protect;
                }
            }
            Act::DeleteApplication => {
                if !doing.is_current {
                    return false;
                }
                let facts = self.oracle.facts(world.application.status);
                if !is_terminal(facts.state) {
                    *broken = Some("an application is deleted that has not ended".to_owned());
                }
                world.application.life = world.application.life.max(Life::Deleted);
                world.changed();
            }
        }
        true
    }

    /// Kills the operator and starts another one.
    pub fn crash(&self, before: &World, out: &mut Vec<Edge>) {
        let Some(mut world) = before.troubled(Trouble::Crash) else { return };
        world.operator = fresh(&world.application);
        world.late = [None; NAMES];
        for name in 0..NAMES {
            world.operator.drivers[name] = world.drivers[name].filter(|pod| pod.run.is_some());
        }
        world.operator.executors = world.executors;
        world.operator.submission_pods = world.seen_submission_pods();
        out.push(edge("the operator is killed", world));
        let running = before.operator.submission.filter(|submission| submission.progress.is_running());
        if let Some(submission) = running
            && let Some(mut world) = world.troubled(Trouble::Orphan)
        {
            world.orphan = Some(Orphan::Submission(submission));
            out.push(edge("the operator is killed", world));
        }
        if let Some(doing) = before.operator.doing.filter(|doing| doing.is_current)
            && let Some(mut world) = world.troubled(Trouble::Orphan)
        {
            let decision = self.oracle.decision(doing.plan);
            let submits = decision.acts.iter().any(|act| matches!(act, Act::Submit { .. }));
            if decision.writes && usize::from(doing.done) == decision.acts.len() + usize::from(submits) {
                world.sent = Some((decision.status, true));
                out.push(edge("the operator is killed", world));
            }
        }
    }
}

/// Whether a submission pod may still create a driver, as `submission::submission_pod::State::may_go_on`. The outcome
/// of a pod that is being deleted counts only if it is success.
fn is_waited_for(pod: &SubmissionPod) -> bool {
    pod.may_go_on() || pod.terminating && pod.stage != Stage::Ended(Exit::Done)
}

/// Writes the executors' template into the ConfigMap of this driver. Returns the driver. `None` if it does not exist.
fn write_template(world: &mut World, name: u8, uid: u8, template: u8) -> Option<&mut Pod> {
    let pod = world.drivers[usize::from(name)].as_mut().filter(|pod| pod.uid == uid)?;
    let config_map = &mut world.config_maps[usize::from(pod.run?.ordinal)];
    *config_map = config_map.map(|_| template);
    Some(pod)
}

/// Returns an operator that has just started.
pub fn fresh(application: &Application) -> Operator {
    Operator { application: *application, is_current: true, ..Operator::default() }
}
