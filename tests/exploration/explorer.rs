//! Visits every state (`World`) that a model can reach, and checks each. The search is breadth first, so that a
//! violation is shown with the shortest sequence of steps that leads to it.

use crate::say;
use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt::{Debug, Display},
    hash::{BuildHasherDefault, Hash, Hasher},
    iter,
    num::NonZero,
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

/// The maximum number of steps within which a model without further troubles must come to rest.
const PATIENCE: usize = 500;

/// A model that can be explored.
pub trait Model {
    type World: Copy + Hash;

    /// Returns the initial state.
    fn beginning(&self) -> Self::World;

    /// Adds to `out` all steps that can happen next in the state `world`.
    fn edges(&mut self, world: &Self::World, out: &mut Vec<EdgeOf<Self>>);

    /// Returns the next step if no further trouble happens. `None` if the state is at rest.
    fn fair(&mut self, world: &Self::World) -> Option<EdgeOf<Self>>;

    /// Checks a state at rest, which no step follows. The error says what is wrong with the state.
    fn rests(&mut self, world: &Self::World) -> Result<(), String>;

    /// Describes a step for the story of a violation.
    fn describe(&self, before: &Self::World, edge: &EdgeOf<Self>) -> String;
}

/// The outcome of a request of the operator to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Answered,
    /// The request did not reach the API server.
    Failed,
    /// The API server carried out the request, but the response was lost.
    Unheard,
}

impl Call {
    pub const ALL: [Self; 3] = [Self::Answered, Self::Failed, Self::Unheard];

    /// Returns the name of the step in which a request has this outcome.
    pub const fn step(self) -> &'static str {
        match self {
            Self::Answered => "a request is answered",
            Self::Failed => "a request fails",
            Self::Unheard => "the response to a request is lost",
        }
    }
}

/// A step and the state that it leads to.
#[derive(Clone, Debug)]
pub struct Edge<W> {
    pub step: &'static str,
    pub world: W,
    /// The invariant that the step breaks, if any.
    pub broken: Option<String>,
}

/// Returns a step that breaks no invariant.
pub const fn edge<W>(step: &'static str, world: W) -> Edge<W> {
    Edge { step, world, broken: None }
}

pub type EdgeOf<M> = Edge<<M as Model>::World>;

/// Explores `model`, prints the numbers of states and steps, and fails with the story of the violation if an invariant
/// is broken. `bounds` describes the limits of the exploration.
pub fn explore_and_report<M: Model>(name: &str, bounds: &impl Display, model: &mut M) {
    let begun = Instant::now();
    let Found { worlds, edges, broken } = explore(model);
    say(&format!("explored: {name}: {worlds} states, {edges} steps, {bounds}, {:.0?}", begun.elapsed()));
    if let Some(broken) = broken {
        panic!("{name}: {}\n{}", broken.why, broken.story);
    }
}

/// Explores a model with each of these seeded bugs, and fails if one of them breaks no invariant.
pub fn finds<B: Copy + Debug + Send + Sync>(bugs: &[B], explored_with: impl Fn(B) -> Found + Sync) {
    let missed = on_all_processors(bugs, |bug| {
        let Found { worlds, broken, .. } = explored_with(*bug);
        let Some(broken) = broken else { return Some(*bug) };
        say(&format!("found: {bug:?}, after {worlds} states: {}", broken.why));
        None
    });
    let missed: Vec<_> = missed.into_iter().flatten().collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Runs `work` on each of `items`, on as many threads as there are processors. The order of the results is not defined.
pub fn on_all_processors<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let one_by_one = || {
        let taken = iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed)));
        taken.map(&work).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(one_by_one)).collect();
        let results =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        results.flatten().collect()
    })
}

/// The result of an exploration.
pub struct Found {
    pub worlds: usize,
    pub edges: usize,
    pub broken: Option<Broken>,
}

/// A violated invariant, and the steps that lead to the violation.
pub struct Broken {
    pub why: String,
    pub story: String,
}

/// A map from fingerprints, or from what decisions depend on.
pub type Memory<K, V> = HashMap<K, V, BuildHasherDefault<Folding>>;

/// Explores `model` until an invariant is broken or all states were visited.
pub fn explore<M: Model>(model: &mut M) -> Found {
    let beginning = model.beginning();
    // The fingerprint of each known state, with that of the state from which it was first reached; 0 for the initial
    // state.
    let mut known = Memory::default();
    let mut good = HashSet::<u64, BuildHasherDefault<Folding>>::default();
    let number = fingerprint(&beginning);
    known.insert(number, 0);
    let (mut level, mut next_level) = (vec![(number, beginning)], Vec::new());
    let (mut edges, mut count) = (Vec::new(), 0);
    let mut broken = None;
    'levels: while !level.is_empty() {
        for (number, world) in level.drain(..) {
            if let Err((why, way)) = settles(model, (number, world), &mut good) {
                broken = Some(Broken { why, story: story(model, &known, number, &way) });
                break 'levels;
            }
            model.edges(&world, &mut edges);
            count += edges.len();
            for edge in edges.drain(..) {
                if let Some(why) = &edge.broken {
                    let (why, way) = (why.clone(), [edge]);
                    broken = Some(Broken { why, story: story(model, &known, number, &way) });
                    break 'levels;
                }
                let reached = fingerprint(&edge.world);
                if let Entry::Vacant(entry) = known.entry(reached) {
                    entry.insert(number);
                    next_level.push((reached, edge.world));
                }
            }
        }
        std::mem::swap(&mut level, &mut next_level);
    }
    Found { worlds: known.len(), edges: count, broken }
}

/// Checks that the model comes to rest in a correct state if it starts in the state `from`, whose fingerprint is
/// `number`, and no further trouble happens. `good` contains the states for which this is known. The error is what is
/// wrong, and the steps that lead there.
fn settles<M: Model>(
    model: &mut M,
    (number, from): (u64, M::World),
    good: &mut HashSet<u64, BuildHasherDefault<Folding>>,
) -> Result<(), (String, Vec<EdgeOf<M>>)> {
    if good.contains(&number) {
        return Ok(());
    }
    let (mut world, mut way) = (from, Vec::new());
    let mut passed = vec![number];
    while !good.contains(&passed[passed.len() - 1]) {
        let Some(edge) = model.fair(&world) else {
            model.rests(&world).map_err(|why| (why, way))?;
            break;
        };
        world = edge.world;
        let broken = edge.broken.clone();
        passed.push(fingerprint(&world));
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

/// Describes the steps from the initial state to the state with the fingerprint `number`, and the steps `then` that
/// follow.
fn story<M: Model>(model: &mut M, known: &Memory<u64, u64>, number: u64, then: &[EdgeOf<M>]) -> String {
    let mut numbers = vec![number];
    while let Some(before) = known.get(&numbers[numbers.len() - 1]).filter(|before| **before != 0) {
        numbers.push(*before);
    }
    let mut world = model.beginning();
    let mut story = String::new();
    for number in numbers.iter().rev().skip(1) {
        let mut edges = Vec::new();
        model.edges(&world, &mut edges);
        let edge = edges.into_iter().find(|edge| fingerprint(&edge.world) == *number).unwrap();
        story += &model.describe(&world, &edge);
        story.push('\n');
        world = edge.world;
    }
    story.push_str("and then\n");
    for edge in then {
        story += &model.describe(&world, edge);
        story.push('\n');
        world = edge.world;
    }
    story
}

/// Returns the number by which the exploration recognizes a state that it has visited.
pub fn fingerprint(world: &impl Hash) -> u64 {
    let mut hasher = Folding::default();
    world.hash(&mut hasher);
    hasher.finish()
}

/// A fast 64-bit hasher for short writes, by folded multiplication. Its hashes identify the states that were visited, and
/// place keys in maps.
/// Among ten million states, the probability of a collision is about 1 in 400,000.
#[derive(Default)]
pub struct Folding {
    word: u64,
    bytes: u32,
    hash: u64,
}

impl Folding {
    fn fold(&mut self) {
        let product = u128::from(self.hash ^ self.word ^ 0x9e37_79b9_7f4a_7c15) * 0xa076_1d64_78bd_642f;
        self.hash = (product as u64).rotate_left(23) ^ (product >> 64) as u64;
        (self.word, self.bytes) = (0, 0);
    }
}

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u8(*byte));
    }

    fn write_u8(&mut self, byte: u8) {
        self.word |= u64::from(byte) << (8 * self.bytes);
        self.bytes += 1;
        if self.bytes == 8 {
            self.fold();
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.fold();
        self.word = u64::from(number);
        self.fold();
    }

    /// Hashes the variant of an enum as one byte: the enums have few variants.
    fn write_isize(&mut self, variant: isize) {
        self.write_u8(variant as u8);
    }

    /// Ignores the length of an array: it never changes.
    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        let mut last = Self { ..*self };
        last.fold();
        last.fold();
        last.hash
    }
}
