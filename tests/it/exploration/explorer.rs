//! Are all worlds that can be reached as they should be? Breadth first, so that what is wrong is shown by the shortest
//! way to it.

use super::{
    configs::Config,
    model::{Edge, Model, Step, shown},
    mutation::Mutation,
    world::World,
};
use spark_operator::api::State;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt::Write,
    hash::{BuildHasherDefault, Hasher},
};

/// How many steps it takes at most until nothing happens any more.
const PATIENCE: usize = 500;

/// What was found.
pub struct Found {
    pub worlds: usize,
    pub edges: usize,
    /// The steps from state to state that were seen.
    pub transitions: BTreeSet<(State, State)>,
    pub broken: Option<Broken>,
}

/// An invariant that does not hold, and how it came to that.
pub struct Broken {
    pub why: String,
    pub story: String,
}

/// A number that is as good as random already.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are kept")
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Numbers<V> = HashMap<u64, V, BuildHasherDefault<Itself>>;

pub fn explore(config: &Config, mutation: Option<Mutation>) -> Found {
    let mut model = Model::new(config, mutation);
    let beginning = model.beginning();
    // Each world, and from which it was reached first.
    let mut known = Numbers::default();
    let mut good = HashSet::<u64, BuildHasherDefault<Itself>>::default();
    known.insert(beginning.fingerprint(), 0);
    let (mut level, mut next_level) = (vec![beginning], Vec::new());
    let (mut edges, mut count) = (Vec::new(), 0);
    let mut broken = None;
    'levels: while !level.is_empty() {
        for world in level.drain(..) {
            let number = world.fingerprint();
            if let Err((why, way)) = settles(&mut model, world, &mut good) {
                broken = Some(Broken { why, story: story(&mut model, &known, number, &way) });
                break 'levels;
            }
            model.edges(&world, &mut edges);
            count += edges.len();
            for edge in edges.drain(..) {
                if let Some(why) = &edge.broken {
                    let (why, way) = (why.clone(), [edge]);
                    broken = Some(Broken { why, story: story(&mut model, &known, number, &way) });
                    break 'levels;
                }
                if let std::collections::hash_map::Entry::Vacant(entry) =
                    known.entry(edge.world.fingerprint())
                {
                    entry.insert(number);
                    next_level.push(edge.world);
                }
            }
        }
        std::mem::swap(&mut level, &mut next_level);
    }
    Found { worlds: known.len(), edges: count, transitions: model.seen.take(), broken }
}

/// Whether all comes right from here on where nothing goes wrong any more.
fn settles(
    model: &mut Model,
    from: World,
    good: &mut HashSet<u64, BuildHasherDefault<Itself>>,
) -> Result<(), (String, Vec<Edge>)> {
    let (mut world, mut way) = (from, Vec::new());
    let mut passed = vec![world.fingerprint()];
    while !good.contains(&passed[passed.len() - 1]) {
        let Some(edge) = model.fair(&world) else {
            model.rests(&world).map_err(|why| (why, way))?;
            break;
        };
        world = edge.world;
        let broken = edge.broken.clone();
        passed.push(world.fingerprint());
        way.push(edge);
        if let Some(why) =
            broken.or_else(|| (way.len() > PATIENCE).then(|| "it never comes to rest".to_owned()))
        {
            way.truncate(60);
            return Err((why, way));
        }
    }
    good.extend(passed);
    Ok(())
}

/// How it comes to the world with this number, and what happens then.
fn story(model: &mut Model, known: &Numbers<u64>, number: u64, then: &[Edge]) -> String {
    let mut numbers = vec![number];
    while let Some(before) = known.get(&numbers[numbers.len() - 1]).filter(|before| **before != 0) {
        numbers.push(*before);
    }
    let mut world = model.beginning();
    let mut story = String::new();
    for number in numbers.iter().rev().skip(1) {
        let mut edges = Vec::new();
        model.edges(&world, &mut edges);
        let edge = edges.into_iter().find(|edge| edge.world.fingerprint() == *number).unwrap();
        tell(model, &world, &edge, &mut story);
        world = edge.world;
    }
    story.push_str("and then\n");
    for edge in then {
        tell(model, &world, edge, &mut story);
        world = edge.world;
    }
    story
}

fn tell(model: &Model, before: &World, edge: &Edge, story: &mut String) {
    let World { application, drivers, executors, operator, .. } = &edge.world;
    write!(story, "{:?}", edge.step).unwrap();
    if let (Step::Reconcile { .. }, Some(doing)) = (edge.step, operator.doing) {
        let decision = model.oracle.decision(doing.plan);
        let (from, to) = (operator.application.status, decision.status);
        let state = |status| shown(model.oracle.facts(status).state);
        write!(story, " of {}: {:?}, {}", state(from), decision.acts, state(to)).unwrap();
    }
    if application.status != before.application.status {
        let facts = model.oracle.facts(application.status);
        write!(story, "; it is {} with run {:?}", shown(facts.state), facts.run).unwrap();
    }
    if drivers != &before.drivers {
        write!(story, "; drivers {:?}", drivers.iter().flatten().collect::<Vec<_>>()).unwrap();
    }
    if executors != &before.executors {
        write!(story, "; executors {:?}", executors.iter().flatten().collect::<Vec<_>>()).unwrap();
    }
    if operator.submission != before.operator.submission {
        write!(story, "; submission {:?}", operator.submission).unwrap();
    }
    story.push('\n');
}
