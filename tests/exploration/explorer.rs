//! Are all worlds that can be reached as they should be? Breadth first, so that what is wrong is shown by the shortest
//! way to it.

use std::{
    collections::{HashMap, HashSet},
    fmt::Debug,
    hash::{BuildHasherDefault, Hash, Hasher},
};

/// How many steps it takes at most until nothing happens any more.
const PATIENCE: usize = 500;

/// What can be explored.
pub trait Model {
    type World: Copy + Hash;
    type Step: Copy + Debug;

    /// Where it begins.
    fn beginning(&self) -> Self::World;

    /// All that can happen next.
    fn edges(&mut self, world: &Self::World, out: &mut Vec<EdgeOf<Self>>);

    /// What happens next where nothing goes wrong any more; none if nothing does.
    fn fair(&mut self, world: &Self::World) -> Option<EdgeOf<Self>>;

    /// Nothing happens any more: is all as it should be?
    fn rests(&mut self, world: &Self::World) -> Result<(), String>;

    /// What happens in a step, in words.
    fn tell(&self, before: &Self::World, edge: &EdgeOf<Self>) -> String;
}

/// A step, and where it leads.
#[derive(Clone, Debug)]
pub struct Edge<S, W> {
    pub step: S,
    pub world: W,
    /// Which invariant is broken by it.
    pub broken: Option<String>,
}

pub type EdgeOf<M> = Edge<<M as Model>::Step, <M as Model>::World>;

/// What was found.
pub struct Found {
    pub worlds: usize,
    pub edges: usize,
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

pub fn explore<M: Model>(model: &mut M) -> Found {
    let beginning = model.beginning();
    // Each world, and from which it was reached first.
    let mut known = Numbers::default();
    let mut good = HashSet::<u64, BuildHasherDefault<Itself>>::default();
    known.insert(fingerprint(&beginning), 0);
    let (mut level, mut next_level) = (vec![beginning], Vec::new());
    let (mut edges, mut count) = (Vec::new(), 0);
    let mut broken = None;
    'levels: while !level.is_empty() {
        for world in level.drain(..) {
            let number = fingerprint(&world);
            if let Err((why, way)) = settles(model, world, &mut good) {
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
                if let std::collections::hash_map::Entry::Vacant(entry) =
                    known.entry(fingerprint(&edge.world))
                {
                    entry.insert(number);
                    next_level.push(edge.world);
                }
            }
        }
        std::mem::swap(&mut level, &mut next_level);
    }
    Found { worlds: known.len(), edges: count, broken }
}

/// Whether all comes right from here on where nothing goes wrong any more.
fn settles<M: Model>(
    model: &mut M,
    from: M::World,
    good: &mut HashSet<u64, BuildHasherDefault<Itself>>,
) -> Result<(), (String, Vec<EdgeOf<M>>)> {
    let (mut world, mut way) = (from, Vec::new());
    let mut passed = vec![fingerprint(&world)];
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

/// How it comes to the world with this number, and what happens then.
fn story<M: Model>(model: &mut M, known: &Numbers<u64>, number: u64, then: &[EdgeOf<M>]) -> String {
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
        story += &model.tell(&world, &edge);
        story.push('\n');
        world = edge.world;
    }
    story.push_str("and then\n");
    for edge in then {
        story += &model.tell(&world, edge);
        story.push('\n');
        world = edge.world;
    }
    story
}

/// What stands for this world among those that were seen.
pub fn fingerprint(world: &impl Hash) -> u64 {
    let mut hasher = Folding::default();
    world.hash(&mut hasher);
    hasher.finish()
}

/// A fast hash of few bytes at a time, by folded multiplication. Two of ten million worlds have the same one with a
/// probability of one to a hundred thousand.
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

    /// The variants of enums, of which there are few.
    fn write_isize(&mut self, variant: isize) {
        self.write_u8(variant as u8);
    }

    /// The lengths of arrays, which are what they are.
    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        let mut last = Self { ..*self };
        last.fold();
        last.fold();
        last.hash
    }
}
