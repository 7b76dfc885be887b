//! Defines a state of the model: the executors of two applications and their placeholders, the operator's memory, and
//! the troubles that may still happen.

use crate::budget::{self, listed};

pub const APPLICATIONS: usize = 2;
/// The number of executors of each application.
pub const PAIRS: usize = 2;
pub const NODES: usize = 2;
/// The maximum number of changes by which the watch may be behind, in the widest exploration.
pub const LAG: usize = 3;

/// An application and one of its pairs. Its type is not `usize`, because the hasher of fingerprints ignores that type.
pub type Place = (u8, u8);

/// The pairs of one application.
pub type Pairs = [Pair; PAIRS];

/// The node for which the executor of each pair was nominated, as long as the watch has not reported that.
pub type Nominated = [Option<u8>; PAIRS];

/// A state of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The pods on the API server.
    pub pairs: [Pairs; APPLICATIONS],
    /// The changes that the watch has not reported yet, the oldest first.
    pub unheard: [Option<(Place, Pair)>; LAG],
    pub operator: Operator,
    /// The node of a pod of another owner, which takes any capacity that is not reserved. `None` if the pod is not
    /// bound to a node.
    pub rival: Option<u8>,
    /// The excused nodes, one bit each: because of a trouble there, their executors may lose their capacity.
    pub excused: u8,
    pub left: Budget,
}

/// An executor and its placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    pub placeholder: Placeholder,
    pub executor: Executor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placeholder {
    Placed,
    /// The placeholder is being deleted, and still takes its capacity.
    Terminating,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Executor {
    /// The driver has not created the executor yet.
    Unborn,
    Waiting {
        is_gated: bool,
        nominated: Option<u8>,
    },
    /// The executor is bound to this node.
    Placed(u8),
    /// The executor was deleted.
    Deleted,
}

impl Executor {
    pub const fn is_gated(self) -> bool {
        matches!(self, Self::Waiting { is_gated: true, .. })
    }
}

/// The memory of the operator process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operator {
    /// The operator's copies of the pods.
    pub pairs: [Pairs; APPLICATIONS],
    pub nominations: [Nominated; APPLICATIONS],
    pub doing: [Option<Doing>; APPLICATIONS],
    /// Whether an application is queued for a reconcile: its pods have changed, or its last reconcile has failed.
    pub is_awake: [bool; APPLICATIONS],
    /// The timer for the next reconcile of an application if nothing changes.
    pub wakes: [Wake; APPLICATIONS],
}

/// A reconcile that has decided but has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Doing {
    pub plan: u32,
    /// The number of actions that are done.
    pub done: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wake {
    Never,
    /// Within a second.
    Soon,
    Later,
}

/// The time that has elapsed since executors and drivers were created, compared with the timeouts of exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elapsed {
    Nothing,
    /// Longer than an executor waits for other applications.
    Patience,
    /// Longer than an executor lets other executors of its node go first.
    Turn,
    /// Longer than an executor waits for its capacity.
    Exchange,
    /// Longer than a placeholder waits for its executor.
    Wait,
}

listed! {
    /// An event that goes wrong.
    pub enum Trouble {
        /// The operator is killed.
        Crash,
        /// A request of the operator fails, or its response is lost.
        Fault,
        /// Timers elapse because a node or the operator is slow.
        Delay,
        /// An executor is deleted.
        Deletion,
        /// A placeholder is deleted by another party than the operator.
        Eviction,
    }
}

/// The numbers of troubles that may still happen.
pub type Budget = budget::Budget<Trouble, { Trouble::ALL.len() }>;

impl World {
    /// Returns this state with one trouble less in its budget. `None` if no trouble of this kind may happen any more.
    pub fn troubled(&self, trouble: Trouble) -> Option<Self> {
        Some(Self { left: self.left.without(trouble)?, ..*self })
    }

    pub const fn is_excused(&self, node: u8) -> bool {
        self.excused & (1 << node) != 0
    }

    pub const fn excuse(&mut self, node: u8) {
        self.excused |= 1 << node;
    }

    pub const fn pair(&self, (application, pair): Place) -> Pair {
        self.pairs[application as usize][pair as usize]
    }

    pub const fn pair_mut(&mut self, (application, pair): Place) -> &mut Pair {
        &mut self.pairs[application as usize][pair as usize]
    }

    /// Queues the changes since `before` for the watch. Returns false if the watch would be more than `lag` changes
    /// behind.
    pub fn reports_changes_since(&mut self, before: &Self, lag: usize) -> bool {
        for place in places() {
            let now = self.pair(place);
            if now == before.pair(place) {
                continue;
            }
            let mut free = self.unheard[..lag].iter_mut().filter(|unheard| unheard.is_none());
            let Some(free) = free.next() else { return false };
            *free = Some((place, now));
        }
        true
    }
}

pub fn places() -> impl Iterator<Item = Place> {
    (0..APPLICATIONS as u8).flat_map(|application| (0..PAIRS as u8).map(move |pair| (application, pair)))
}
