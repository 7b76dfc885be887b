//! Models submission pods: how the operator creates one, which objects its `spark-submit` creates, and what else
//! happens to the pod.

use super::{
    cluster::{heard_of_driver, makes_group},
    model::{Edge, Model},
    world::*,
};
use crate::explorer::edge;

impl Model {
    /// Whether the operator submits by submission pods.
    pub fn is_by_pod(&self) -> bool {
        !self.oracle.is_native()
    }

    /// Creates the next object of a submission by `spark-submit`, as `controller::submitter` does: the ConfigMap, then
    /// the pod. If another run of the application has left a pod with the same name, that pod is deleted first, and the
    /// submission waits until it no longer exists.
    pub fn makes_submission_pod(
        &self,
        world: &mut World,
        submission: Submission,
    ) -> (Progress, Option<String>) {
        let Submission { run, progress, .. } = submission;
        match progress {
            Progress::Begun | Progress::Grouped | Progress::HalfMade if world.is_closing => {
                (Progress::Failed, None)
            }
            Progress::Begun if self.oracle.is_grouped() => (makes_group(world, run), None),
            // The pod of that name belongs to another owner.
            Progress::HalfMade if self.config.setting.has_foreign_submission_pod && run.ordinal == 1 => {
                (Progress::Failed, None)
            }
            Progress::Begun | Progress::Grouped => {
                world.config_maps[usize::from(run.ordinal)] = Some(run.spec);
                (Progress::HalfMade, None)
            }
            Progress::HalfMade => match world.submission_pods[run.place()] {
                // If this run's submission pod exists, the creation has succeeded, whatever the pod's state.
                Some(pod) if pod.run == run => (Progress::Succeeded, None),
                Some(pod) if pod.run.ordinal == run.ordinal => {
                    delete(&mut world.submission_pods[run.place()]);
                    (Progress::HalfMade, None)
                }
                Some(_) => (Progress::Failed, Some("a submission pod of an old run is left".to_owned())),
                None => {
                    let is_excused = self.config.budget.of(Trouble::Orphan) > 0;
                    let is_second = world.submission_pods.iter().any(Option::is_some) && !is_excused;
                    let broken = is_second.then(|| "there are two submission pods".to_owned());
                    world.submission_pods[run.place()] = Some(SubmissionPod {
                        uid: world.new_uid(),
                        run,
                        // Whether `spark-submit` is pending or runs makes a difference only in messages, before it has
                        // created an object.
                        stage: if self.config.setting.has_messages { Stage::Pending } else { Stage::Working },
                        terminating: false,
                        made: Made::Nothing,
                    });
                    (Progress::Succeeded, broken)
                }
            },
            ended => (ended, None),
        }
    }

    /// Whether a submission waits for the deletion of another run's pod, which has the name of its submission pod. The
    /// submission gives up after a while.
    pub fn waits_for_another(&self, world: &World, submission: Submission) -> bool {
        let Submission { run, progress, .. } = submission;
        let there = world.submission_pods[run.place()];
        self.is_by_pod()
            && progress == Progress::HalfMade
            && there.is_some_and(|pod| pod.run != run && pod.terminating)
    }

    /// Adds all steps of submission pods and of the namespace.
    pub fn submission_pods(&self, world: &World, out: &mut Vec<Edge>) {
        for place in 0..SUBMISSION_PODS {
            if let Some(pod) = world.submission_pods[place] {
                self.submission_pod(world, place, pod, out);
            }
        }
        if !self.is_by_pod() {
            return;
        }
        out.extend(heard_of_pods(world));
        if world.application.life == Life::Alive
            && !world.is_closing
            && let Some(mut next) = world.troubled(Trouble::Closure)
        {
            next.is_closing = true;
            out.push(edge("the namespace is deleted", next));
        }
        out.extend(collected(world));
    }

    fn submission_pod(&self, world: &World, place: usize, pod: SubmissionPod, out: &mut Vec<Edge>) {
        let change = |world: &World, pod: SubmissionPod| {
            let mut next = *world;
            next.submission_pods[place] = Some(pod);
            next
        };
        out.extend(self.submission_pod_goes_on(world, place, pod));
        // The pod was deleted, or has failed, and its node has not killed `spark-submit` yet.
        let outlived = |world: &World| {
            let is_at_work = pod.stage == Stage::Working && !matches!(pod.made, Made::All(_));
            let mut next = world.troubled(Trouble::Orphan).filter(|_| is_at_work)?;
            next.orphan = Some(Orphan::SparkSubmit { run: pod.run, made: pod.made });
            Some(next)
        };
        if pod.terminating {
            out.push(edge("a submission pod is removed", without_submission_pod(world, place)));
            let outlived = outlived(world).filter(|_| world.orphan.is_none());
            out.extend(
                outlived
                    .map(|next| edge("a submission pod is removed", without_submission_pod(&next, place))),
            );
            return;
        }
        if pod.stage == Stage::Pending
            && let Some(next) = world.troubled(Trouble::Hold)
        {
            out.push(edge(
                "a submission pod is held",
                change(&next, SubmissionPod { stage: Stage::Held, ..pod }),
            ));
        }
        let ended = |stage| SubmissionPod { stage, made: Made::Nothing, ..pod };
        if pod.stage == Stage::Working
            && let Some(next) = world.troubled(Trouble::Refusal)
        {
            let next = change(&next, ended(Stage::Ended(Exit::Failed)));
            out.push(edge("spark-submit fails", next));
            // Spark's client deletes the driver's pod if a later step of the submission fails.
            out.extend(taken_back(&next, pod.made).map(|next| edge("spark-submit fails", next)));
            out.extend(completed(&next, pod.made).map(|next| edge("spark-submit fails", next)));
        }
        if pod.may_go_on()
            && let Some(next) = world.troubled(Trouble::Eviction)
        {
            let next = change(&next, ended(Stage::Lost));
            out.push(edge("a submission pod fails", next));
            out.extend(completed(&next, pod.made).map(|next| edge("a submission pod fails", next)));
            let outlived = outlived(&next).filter(|_| world.orphan.is_none());
            out.extend(outlived.map(|next| edge("a submission pod fails", next)));
        }
        let deleted = world.troubled(Trouble::Kill).into_iter().chain(world.is_going().then_some(*world));
        for mut next in deleted {
            delete(&mut next.submission_pods[place]);
            out.push(edge("a submission pod is deleted", next));
        }
    }

    /// Starts the pod, or carries out the next step of its `spark-submit`.
    pub fn submission_pod_goes_on(&self, world: &World, place: usize, pod: SubmissionPod) -> Option<Edge> {
        let mut next = *world;
        let SubmissionPod { run, made, .. } = pod;
        match pod.stage {
            Stage::Pending | Stage::Held if !pod.terminating => {
                // A container does not start before its ConfigMap exists.
                let files = world.config_maps[usize::from(run.ordinal)]?;
                next.submission_pods[place] = Some(SubmissionPod { stage: Stage::Working, ..pod });
                let broken =
                    (files != run.spec).then(|| "spark-submit reads the ConfigMap of another run".to_owned());
                Some(Edge { step: "a submission pod starts", world: next, broken })
            }
            Stage::Working => {
                let (outcome, broken) = self.spark_submit_makes(&mut next, run, made);
                let pod = match outcome {
                    Ok(made) => SubmissionPod { made, ..pod },
                    Err(exit) => SubmissionPod { stage: Stage::Ended(exit), made: Made::Nothing, ..pod },
                };
                next.submission_pods[place] = Some(pod);
                Some(Edge { step: "spark-submit continues", world: next, broken })
            }
            Stage::Pending | Stage::Held | Stage::Ended(_) | Stage::Lost => None,
        }
    }

    /// Creates the next object of a `spark-submit`. Returns the objects created so far, or the outcome of
    /// `spark-submit`; and the invariant that is broken.
    pub fn spark_submit_makes(
        &self,
        world: &mut World,
        run: RunNo,
        made: Made,
    ) -> (Result<Made, Exit>, Option<String>) {
        let name = usize::from(self.config.setting.names[usize::from(run.spec)]);
        match made {
            Made::Nothing if world.drivers[name].is_some() => (Err(Exit::DriverExists), None),
            Made::Nothing | Made::Pod(_) if world.is_closing => (Err(Exit::Failed), None),
            Made::All(_) => (Err(Exit::Done), None),
            Made::Nothing => {
                let (uid, broken) = self.makes_driver(world, run, name);
                (Ok(Made::Pod(uid)), broken)
            }
            Made::Pod(uid) => {
                if let Some(pod) = world.drivers[name].as_mut().filter(|pod| pod.uid == uid) {
                    pod.complete = true;
                }
                (Ok(Made::All(uid)), None)
            }
        }
    }

    /// Creates the driver's pod with this name. Returns the pod's uid, and the invariant that is broken.
    pub fn makes_driver(&self, world: &mut World, run: RunNo, name: usize) -> (u8, Option<String>) {
        let broken = self.a_driver_is_made(world, run, name).err();
        let uid = world.new_uid();
        world.drivers[name] = Some(Pod {
            uid,
            run: Some(run),
            phase: Phase::Pending,
            terminating: false,
            protected: false,
            complete: false,
            template: self.oracle.template(run.spec),
        });
        (uid, broken)
    }
}

/// Returns the state after the watch has reported all drivers and submission pods. One watch reports both, in the order
/// of their changes.
pub fn heard_of_pods(world: &World) -> Option<Edge> {
    let mut next = *world;
    for name in 0..NAMES {
        next = heard_of_driver(&next, name).map_or(next, |edge| edge.world);
    }
    next.operator.submission_pods = world.seen_submission_pods();
    (next != *world).then(|| edge("the watch reports the pods", next))
}

/// Returns the state in which the application is deleted because its namespace is. `None` if the namespace is not.
pub fn collected(world: &World) -> Option<Edge> {
    let mut next = *world;
    next.application.life = Life::Deleted;
    next.changed();
    let is_collected = world.is_closing && world.application.life == Life::Alive;
    is_collected.then(|| edge("the application is deleted with its namespace", next))
}

/// Returns the state in which `spark-submit` has created the driver's ConfigMap, too, before it ended.
fn completed(world: &World, made: Made) -> Option<World> {
    let made = made.driver()?;
    let mut next = *world;
    next.drivers.iter_mut().flatten().find(|driver| driver.uid == made)?.complete = true;
    Some(next)
}

/// Returns the state in which `spark-submit` has deleted the driver's pod that it had created.
fn taken_back(world: &World, made: Made) -> Option<World> {
    let made = made.driver()?;
    let mut next = *world;
    let mut drivers = next.drivers.iter_mut().flatten();
    let driver = drivers.find(|driver| driver.uid == made && !driver.terminating)?;
    driver.terminating = true;
    // The status may name this driver already, if the driver has started or the watch had not reported the submission
    // pod.
    next.past.lost |= driver.run?.bit();
    Some(next)
}

/// Deletes a submission pod. One whose container has ended is removed immediately.
pub fn delete(pod: &mut Option<SubmissionPod>) {
    *pod = pod.filter(SubmissionPod::may_go_on).map(|pod| SubmissionPod { terminating: true, ..pod });
}

pub fn without_submission_pod(world: &World, place: usize) -> World {
    let mut next = *world;
    next.submission_pods[place] = None;
    next
}

impl World {
    /// Returns the submission pods as they are on the API server, without the objects that `spark-submit` has created.
    pub fn seen_submission_pods(&self) -> [Option<SubmissionPod>; SUBMISSION_PODS] {
        self.submission_pods.map(|pod| pod.map(|pod| SubmissionPod { made: Made::Nothing, ..pod }))
    }

    /// Whether Kubernetes deletes the application's objects: because the namespace or the application is being deleted,
    /// or no longer exists.
    pub fn is_going(&self) -> bool {
        self.is_closing || self.application.life != Life::Alive
    }
}
