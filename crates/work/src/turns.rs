//! Fair queues for limited capacity: clients take turns, and within the work of a client, namespaces take turns.
//! However much work of one client or namespace waits, it delays each other one by one turn.

use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    mem,
    net::IpAddr,
    sync::Arc,
};
use tokio::sync::oneshot;

/// A queue of items. A [`VecDeque`] is first in, first out.
pub trait Line: Default {
    type Item;

    /// Returns the number of items.
    fn waiting(&self) -> usize;

    /// Removes and returns the next item.
    fn take(&mut self) -> Option<Self::Item>;

    /// Removes and returns the last item, of several lines that of the longest one.
    fn take_last(&mut self) -> Option<Self::Item>;

    /// Removes the items for which `kept` returns false.
    fn retain(&mut self, kept: &impl Fn(&Self::Item) -> bool);
}

impl<T> Line for VecDeque<T> {
    type Item = T;

    fn waiting(&self) -> usize {
        self.len()
    }

    fn take(&mut self) -> Option<T> {
        self.pop_front()
    }

    fn take_last(&mut self) -> Option<T> {
        self.pop_back()
    }

    fn retain(&mut self, kept: &impl Fn(&T) -> bool) {
        Self::retain(self, kept);
    }
}

/// Queues that take turns, one for each key; each may itself consist of queues that take turns.
#[derive(Debug)]
pub struct Lines<K, L> {
    lines: HashMap<K, L>,
    /// The keys of the lines, none of which is empty, in the order of their turns.
    turns: VecDeque<K>,
}

impl<K, L> Default for Lines<K, L> {
    fn default() -> Self {
        Self { lines: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash, L: Line> Lines<K, L> {
    /// Returns the line with this key, which is created if it does not exist. The caller must add an item to it.
    pub fn line(&mut self, key: &K) -> &mut L {
        self.lines.entry(key.clone()).or_insert_with(|| {
            self.turns.push_back(key.clone());
            L::default()
        })
    }

    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Removes and returns the next item of the first line for whose key `may` returns true, with that key. Lines that
    /// are passed over keep their turn.
    pub fn take_if(&mut self, may: impl Fn(&K) -> bool) -> Option<(K, L::Item)> {
        let place = self.turns.iter().position(may)?;
        let key = self.turns.remove(place)?;
        let line = self.lines.get_mut(&key)?;
        let item = line.take()?;
        if line.waiting() == 0 {
            self.lines.remove(&key);
        } else {
            self.turns.push_back(key.clone());
        }
        Some((key, item))
    }
}

impl<K: Clone + Eq + Hash, L: Line> Line for Lines<K, L> {
    type Item = L::Item;

    fn waiting(&self) -> usize {
        self.lines.values().map(L::waiting).sum()
    }

    fn take(&mut self) -> Option<L::Item> {
        self.take_if(|_| true).map(|(_, item)| item)
    }

    fn take_last(&mut self) -> Option<L::Item> {
        let longest = self.turns.iter().max_by_key(|key| self.lines.get(*key).map(L::waiting))?.clone();
        let line = self.lines.get_mut(&longest)?;
        let item = line.take_last();
        if line.waiting() == 0 {
            self.lines.remove(&longest);
            self.turns.retain(|key| *key != longest);
        }
        item
    }

    fn retain(&mut self, kept: &impl Fn(&L::Item) -> bool) {
        self.lines.retain(|_, line| {
            line.retain(kept);
            line.waiting() > 0
        });
        self.turns.retain(|key| self.lines.contains_key(key));
    }
}

/// A number of permits, for which clients and namespaces take turns. Cheap to clone: all clones share the permits.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Mutex<Permits>>);

#[derive(Debug)]
struct Permits {
    free: usize,
    at_most_waiting: usize,
    waiting: Waiting,
}

/// The callers that wait for a permit, by client, then by namespace.
type Waiting = Lines<Option<IpAddr>, Lines<String, VecDeque<oneshot::Sender<Turn>>>>;

/// A permit; dropping it gives it to the next in turn.
#[derive(Debug)]
pub struct Turn(Option<Turns>);

impl Turns {
    pub fn new(permits: usize) -> Self {
        Self::with_room(permits, usize::MAX)
    }

    /// Creates so many permits, for which at most `at_most_waiting` callers may wait.
    pub fn with_room(permits: usize, at_most_waiting: usize) -> Self {
        Self(Arc::new(Mutex::new(Permits { free: permits, at_most_waiting, waiting: Lines::default() })))
    }

    /// Waits for a permit for work in `namespace`; `peer` is the client for which the work is, if clients take turns.
    /// Returns `None` if the permits are closed, or if too many callers wait: then, of the client with most waiting
    /// callers, the last caller in the namespace with most is refused.
    pub async fn turn(&self, peer: Option<IpAddr>, namespace: &str) -> Option<Turn> {
        let turn = {
            let mut permits = self.0.lock();
            if permits.free > 0 {
                permits.free -= 1;
                return Some(Turn(Some(self.clone())));
            }
            let (sender, turn) = oneshot::channel();
            permits.waiting.line(&peer).line(&namespace.to_owned()).push_back(sender);
            permits.make_room();
            turn
        };
        turn.await.ok()
    }

    /// Refuses all callers that wait, and from now on each caller that would have to wait.
    pub fn close(&self) {
        let mut permits = self.0.lock();
        permits.at_most_waiting = 0;
        drop(mem::take(&mut permits.waiting));
    }

    /// Returns the number of free permits.
    pub fn free(&self) -> usize {
        self.0.lock().free
    }
}

impl PartialEq for Turns {
    /// Whether both share the same permits.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Permits {
    /// Refuses one caller if too many wait. Callers that have given up do not count.
    fn make_room(&mut self) {
        let Self { at_most_waiting, waiting, .. } = self;
        let is_crowded =
            |waiting: &Waiting| *at_most_waiting < usize::MAX && waiting.waiting() > *at_most_waiting;
        if is_crowded(waiting) {
            waiting.retain(&|sender| !sender.is_closed());
        }
        if is_crowded(waiting) {
            waiting.take_last();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        loop {
            let next = {
                let mut permits = turns.0.lock();
                let next = permits.waiting.take();
                permits.free += usize::from(next.is_none());
                next
            };
            let Some(next) = next else { return };
            match next.send(Self(Some(turns.clone()))) {
                Ok(()) => return,
                // That caller has given up.
                Err(mut unwanted) => drop(unwanted.0.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn lines_take_turns_and_a_line_that_is_passed_over_keeps_its_turn() {
        let mut lines = Lines::<_, VecDeque<_>>::default();
        for (namespace, item) in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("b", 2)] {
            lines.line(&namespace).push_back(item);
        }
        let mut next =
            |barred: &str| lines.take_if(|key| *key != barred).map(|(key, item)| format!("{key}{item}"));
        assert_eq!(next("a").as_deref(), Some("b1"));
        let rest: Vec<_> = std::iter::from_fn(|| next("")).collect();
        assert_eq!(rest, ["a1", "c1", "b2", "a2", "a3"]);
        assert!(lines.lines.is_empty() && lines.turns.is_empty());
    }

    #[test]
    fn the_last_item_of_the_longest_line_is_removed_first() {
        let mut clients = Lines::<_, Lines<_, VecDeque<_>>>::default();
        for (client, namespace) in [(1, "a"), (1, "a"), (2, "b"), (2, "a"), (2, "b"), (3, "c")] {
            let number = clients.waiting();
            clients.line(&client).line(&namespace).push_back((client, namespace, number));
        }
        let taken: Vec<_> = std::iter::from_fn(|| clients.take_last()).take(3).collect();
        assert_eq!(taken[0], (2, "b", 4));
        assert!(taken[1..].iter().all(|(client, ..)| *client != 3), "{taken:?}");
        let rest: Vec<_> = std::iter::from_fn(|| clients.take()).map(|(client, ..)| client).collect();
        assert_eq!(rest, [1, 2, 3]);
        assert!(clients.is_empty() && clients.lines.is_empty());
    }

    #[tokio::test]
    async fn many_callers_of_one_namespace_delay_another_by_one_turn() {
        let turns = Turns::new(1);
        let first = turns.turn(None, "a").await;
        let mut crowd: Vec<_> = (0..9).map(|_| Box::pin(turns.turn(None, "a"))).collect();
        assert!(crowd.iter_mut().all(|one| one.now_or_never().is_none()));
        let mut other = Box::pin(turns.turn(None, "b"));
        assert!((&mut other).now_or_never().is_none());
        drop(crowd.remove(0));
        drop(first);
        // Namespace `a` has used its turn for the caller that gave up.
        drop(other.now_or_never().expect("the next turn"));
        let second = (&mut crowd[0]).now_or_never().expect("nobody else waits");
        drop(crowd);
        drop(second);
        assert_eq!(turns.free(), 1);
    }

    #[tokio::test]
    async fn callers_that_have_given_up_do_not_count_as_waiting() {
        let turns = Turns::with_room(1, 2);
        let first = turns.turn(None, "a").await;
        let mut crowd: Vec<_> = (0..2).map(|_| Box::pin(turns.turn(None, "a"))).collect();
        assert!(crowd.iter_mut().all(|one| one.now_or_never().is_none()));
        drop(crowd);
        let mut patient = Box::pin(turns.turn(None, "a"));
        assert!((&mut patient).now_or_never().is_none());
        drop(first);
        assert!(patient.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn closed_turns_refuse_waiting_and_later_callers() {
        let turns = Turns::new(1);
        let first = turns.turn(None, "a").await;
        let mut one = Box::pin(turns.turn(None, "a"));
        assert!((&mut one).now_or_never().is_none());
        turns.close();
        assert!(one.now_or_never().expect("an answer").is_none());
        assert!(turns.turn(None, "a").now_or_never().expect("an answer").is_none());
        drop(first);
        assert_eq!(turns.free(), 1);
    }

    #[tokio::test]
    async fn a_client_with_many_namespaces_gets_no_more_turns_than_another() {
        let (crowd, other) = (Some([10, 0, 0, 1].into()), Some([10, 0, 0, 2].into()));
        let turns = Turns::with_room(1, 4);
        let first = turns.turn(crowd, "a").await;
        let names: Vec<_> = (0..9).map(|i| i.to_string()).collect();
        let mut waiting: Vec<_> = names.iter().map(|name| Box::pin(turns.turn(crowd, name))).collect();
        waiting.retain_mut(|one| one.now_or_never().is_none());
        assert_eq!(waiting.len(), 4, "the others are refused");
        let mut one = Box::pin(turns.turn(other, "b"));
        assert!((&mut one).now_or_never().is_none());
        drop(first);
        // The first turn is that of the client `crowd`, which came first.
        drop(waiting.into_iter().find_map(|mut one| (&mut one).now_or_never()).expect("a turn"));
        assert!(one.now_or_never().flatten().is_some());
    }
}
