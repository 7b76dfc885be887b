//! Computes the steps that can follow a state, and checks the invariants.
//!
//! The scheduler is modelled after kube-scheduler 1.37: it first tries a nominated pod on its node. There it counts all
//! pods that are bound to the node, also terminating ones, and all other pods that are nominated for the node, also
//! gated ones. A pod that does not fit loses its nomination.

use super::{
    mutation::Mutation,
    oracle::{Act, Known, Oracle, Question},
    world::*,
};
use crate::explorer::{self, Call, edge};

pub struct Config {
    pub name: &'static str,
    /// The node of each placeholder, by application. A node has capacity for its placeholders and nothing else.
    pub nodes: [[u8; PAIRS]; APPLICATIONS],
    /// The maximum number of changes by which the watch may be behind.
    pub lag: usize,
    pub budget: Budget,
}

pub struct Model<'a> {
    config: &'a Config,
    oracle: Oracle,
}

type Edge = explorer::Edge<World>;

impl<'a> Model<'a> {
    pub fn new(config: &'a Config, mutation: Option<Mutation>) -> Self {
        Self { config, oracle: Oracle::new(mutation) }
    }

    /// Returns the node of a placeholder.
    const fn home(&self, (application, pair): Place) -> u8 {
        self.config.nodes[application as usize][pair as usize]
    }

    /// Whether a node has capacity for one more pod than those that are bound to or nominated for it. `tried` is the
    /// place of that pod if it is an executor.
    fn has_room(&self, world: &World, node: u8, tried: Option<Place>) -> bool {
        let mut room = -i32::from(world.rival == Some(node));
        for place in places() {
            let Pair { placeholder, executor } = world.pair(place);
            let is_here = self.home(place) == node;
            let is_held = is_here && placeholder != Placeholder::Gone;
            let is_taken = match executor {
                Executor::Placed(on) => on == node,
                Executor::Waiting { nominated, .. } => nominated == Some(node) && tried != Some(place),
                Executor::Unborn | Executor::Deleted => false,
            };
            room += i32::from(is_here) - i32::from(is_held) - i32::from(is_taken);
        }
        room > 0
    }

    /// The scheduler tries to schedule an executor.
    fn tried(&self, before: &World, place: Place) -> Option<Edge> {
        let Executor::Waiting { is_gated: false, nominated } = before.pair(place).executor else {
            return None;
        };
        let nodes = nominated.into_iter().chain(0..NODES as u8);
        let node = nodes.into_iter().find(|node| self.has_room(before, *node, Some(place)));
        let mut world = *before;
        world.pair_mut(place).executor = match node {
            Some(node) => Executor::Placed(node),
            None => Executor::Waiting { is_gated: false, nominated: None },
        };
        let is_lost = nominated.is_none() || node != nominated;
        // This is no violation if the placeholder's node and the node that the executor gets are excused.
        let is_excused =
            before.is_excused(self.home(place)) && node.is_none_or(|node| before.is_excused(node));
        let broken = (is_lost && !is_excused)
            .then(|| "an executor does not get the capacity of its placeholder".to_owned());
        (world != *before || broken.is_some()).then_some(Edge {
            step: "an executor is scheduled",
            world,
            broken,
        })
    }

    /// The scheduler tries to schedule the pod of another owner.
    fn rival_tried(&self, before: &World) -> Option<Edge> {
        let node = (0..NODES as u8).find(|node| self.has_room(before, *node, None));
        let node = node.filter(|_| before.rival.is_none())?;
        let broken =
            (!before.is_excused(node)).then(|| "another pod gets the capacity of an executor".to_owned());
        Some(Edge {
            step: "the other pod is scheduled",
            world: World { rival: Some(node), ..*before },
            broken,
        })
    }

    /// The operator observes and decides. `None` if that changes nothing.
    fn reconcile(&mut self, before: &World, application: usize, elapsed: Elapsed) -> Option<Edge> {
        let mut world = *before;
        let operator = &mut world.operator;
        let is_looked_at = operator.is_awake[application]
            || match operator.wakes[application] {
                Wake::Never => false,
                Wake::Soon => true,
                Wake::Later => elapsed != Elapsed::Nothing,
            };
        if operator.doing[application].is_some() || !is_looked_at {
            return None;
        }
        let known = |of: usize| Known {
            pairs: operator.pairs[of],
            nodes: self.config.nodes[of],
            nominations: operator.nominations[of],
        };
        let question = Question { own: known(application), other: known(1 - application), elapsed };
        let plan = self.oracle.ask(&question);
        let answer = self.oracle.answer(plan);
        operator.nominations[application] = answer.nominations;
        operator.is_awake[application] = false;
        operator.wakes[application] = answer.wake;
        operator.doing[application] = (!answer.acts.is_empty()).then_some(Doing { plan, done: 0 });
        let step = if elapsed == Elapsed::Nothing { "a reconcile begins" } else { "a reconcile begins late" };
        (world != *before).then_some(edge(step, world))
    }

    /// Carries out the next action of a reconcile.
    fn goes_on(&self, before: &World, application: usize, call: Call) -> Option<Edge> {
        let doing = before.operator.doing[application]?;
        let acts = &self.oracle.answer(doing.plan).acts;
        let mut world = if call == Call::Answered { *before } else { before.troubled(Trouble::Fault)? };
        if call != Call::Failed {
            let pairs = &mut world.pairs[application];
            match acts[usize::from(doing.done)] {
                Act::Nominate { pair, node } => {
                    if let Executor::Waiting { nominated, .. } = &mut pairs[pair].executor {
                        *nominated = Some(node);
                    }
                }
                Act::Ungate(pair) => {
                    if let Executor::Waiting { is_gated, .. } = &mut pairs[pair].executor {
                        *is_gated = false;
                    }
                }
                Act::DeletePlaceholder(pair) if pairs[pair].placeholder == Placeholder::Placed => {
                    pairs[pair].placeholder = Placeholder::Terminating;
                }
                Act::DeletePlaceholder(_) => {}
                Act::DeleteExecutor(_) => unreachable!("the run does not end"),
            }
        }
        let done = doing.done + 1;
        let goes_on = call == Call::Answered && usize::from(done) < acts.len();
        world.operator.doing[application] = goes_on.then_some(Doing { done, ..doing });
        world.operator.is_awake[application] |= call != Call::Answered;
        Some(edge(call.step(), world))
    }

    fn driver_creates(before: &World, application: usize) -> Option<Edge> {
        let mut own = places().filter(|place| usize::from(place.0) == application);
        let place = own.find(|place| before.pair(*place).executor == Executor::Unborn)?;
        let mut world = *before;
        world.pair_mut(place).executor = Executor::Waiting { is_gated: true, nominated: None };
        Some(edge("a driver creates an executor", world))
    }

    /// The watch reports the oldest change that it has not reported.
    fn heard_of(before: &World) -> Option<Edge> {
        let ((application, pair), now) = before.unheard[0]?;
        let mut world = *before;
        world.unheard.rotate_left(1);
        world.unheard[LAG - 1] = None;
        let (application, pair) = (usize::from(application), usize::from(pair));
        world.operator.pairs[application][pair] = now;
        world.operator.is_awake[application] = true;
        Some(edge("the watch reports a change", world))
    }

    fn placeholder_goes(before: &World, place: Place) -> Option<Edge> {
        let mut world = *before;
        let placeholder = &mut world.pair_mut(place).placeholder;
        let is_going = *placeholder == Placeholder::Terminating;
        *placeholder = Placeholder::Gone;
        is_going.then_some(edge("a placeholder is removed", world))
    }

    fn troubles(&mut self, world: &World, out: &mut Vec<Edge>) {
        if let Some(mut next) = world.troubled(Trouble::Crash) {
            next.operator = operator(next.pairs);
            next.unheard = [None; LAG];
            out.push(edge("the operator is killed", next));
        }
        if let Some(delayed) = world.troubled(Trouble::Delay) {
            for application in 0..APPLICATIONS {
                for elapsed in LATE {
                    let Some(mut edge) = self.reconcile(&delayed, application, elapsed) else { continue };
                    self.config.nodes[application].iter().for_each(|node| edge.world.excuse(*node));
                    out.push(edge);
                }
            }
        }
        for place in places() {
            let Pair { placeholder, executor } = world.pair(place);
            if let Executor::Waiting { .. } | Executor::Placed(_) = executor
                && let Some(mut next) = world.troubled(Trouble::Deletion)
            {
                next.pair_mut(place).executor = Executor::Deleted;
                next.excuse(self.home(place));
                out.push(edge("an executor is deleted", next));
            }
            if placeholder == Placeholder::Placed
                && let Some(mut next) = world.troubled(Trouble::Eviction)
            {
                next.pair_mut(place).placeholder = Placeholder::Terminating;
                next.excuse(self.home(place));
                out.push(edge("a placeholder is evicted", next));
            }
        }
    }

    /// Returns a next step for which no timer of minutes has to elapse.
    fn soon(&mut self, world: &World) -> Option<Edge> {
        let goes_on = || (0..APPLICATIONS).find_map(|of| self.goes_on(world, of, Call::Answered));
        if let Some(edge) = Self::heard_of(world).or_else(goes_on) {
            return Some(edge);
        }
        let reconciles = (0..APPLICATIONS).find_map(|of| self.reconcile(world, of, Elapsed::Nothing));
        if reconciles.is_some() {
            return reconciles;
        }
        let tried = || places().find_map(|place| self.tried(world, place));
        let goes = || places().find_map(|place| Self::placeholder_goes(world, place));
        let creates = || (0..APPLICATIONS).find_map(|application| Self::driver_creates(world, application));
        self.rival_tried(world).or_else(tried).or_else(goes).or_else(creates)
    }
}

/// The times after which the timers of minutes elapse.
const LATE: [Elapsed; 4] = [Elapsed::Patience, Elapsed::Turn, Elapsed::Exchange, Elapsed::Wait];

/// Returns an operator that has just started.
const fn operator(pairs: [Pairs; APPLICATIONS]) -> Operator {
    Operator {
        pairs,
        nominations: [[None; PAIRS]; APPLICATIONS],
        doing: [None; APPLICATIONS],
        is_awake: [true; APPLICATIONS],
        wakes: [Wake::Never; APPLICATIONS],
    }
}

impl explorer::Model for Model<'_> {
    type World = World;

    fn beginning(&self) -> World {
        let pair = Pair { placeholder: Placeholder::Placed, executor: Executor::Unborn };
        let pairs = [[pair; PAIRS]; APPLICATIONS];
        World {
            pairs,
            unheard: [None; LAG],
            operator: operator(pairs),
            rival: None,
            excused: 0,
            left: self.config.budget,
        }
    }

    fn edges(&mut self, world: &World, out: &mut Vec<Edge>) {
        for application in 0..APPLICATIONS {
            for call in Call::ALL {
                out.extend(self.goes_on(world, application, call));
            }
            out.extend(self.reconcile(world, application, Elapsed::Nothing));
            out.extend(Self::driver_creates(world, application));
        }
        for place in places() {
            out.extend(self.tried(world, place));
            out.extend(Self::placeholder_goes(world, place));
        }
        out.extend(Self::heard_of(world));
        out.extend(self.rival_tried(world));
        self.troubles(world, out);
        let lag = self.config.lag;
        out.retain_mut(|edge| edge.world.reports_changes_since(world, lag));
    }

    fn fair(&mut self, world: &World) -> Option<Edge> {
        if let Some(mut edge) = self.soon(world) {
            edge.world.reports_changes_since(world, self.config.lag);
            return Some(edge);
        }
        for elapsed in LATE {
            for application in 0..APPLICATIONS {
                let Some(mut edge) = self.reconcile(world, application, elapsed) else { continue };
                let is_late = edge.world.operator.doing[application].is_some() && world.excused == 0;
                edge.broken = is_late.then(|| "progress needs a timer of minutes".to_owned());
                return Some(edge);
            }
        }
        None
    }

    fn rests(&mut self, world: &World) -> Result<(), String> {
        for place in places() {
            let Pair { placeholder, executor } = world.pair(place);
            if placeholder != Placeholder::Gone {
                return Err("a placeholder is left".to_owned());
            }
            let is_excused = world.is_excused(self.home(place));
            match executor {
                Executor::Placed(node) if node == self.home(place) || is_excused => {}
                Executor::Deleted => {}
                // The other pod has got its capacity.
                Executor::Waiting { is_gated: false, .. } if is_excused && world.rival.is_some() => {}
                executor => return Err(format!("in a state at rest, an executor is {executor:?}")),
            }
        }
        Ok(())
    }

    fn describe(&self, before: &World, edge: &Edge) -> String {
        let mut story = edge.step.to_owned();
        for (was, is) in before.operator.doing.iter().zip(&edge.world.operator.doing) {
            if let (None, Some(doing)) = (was, is) {
                story += &format!(": {:?}", self.oracle.answer(doing.plan).acts);
            }
        }
        for place in places() {
            let (was, is) = (before.pair(place), edge.world.pair(place));
            if was != is {
                story += &format!("; {place:?} {is:?}");
            }
        }
        story
    }
}
