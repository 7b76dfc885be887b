//! Gives out permits by turns of namespaces: who waits in one namespace delays those of each other namespace by one turn,
//! however many they are.

use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};
use tokio::sync::oneshot;

/// What waits, by namespace: the namespaces take turns, and within a namespace first come, first served.
#[derive(Debug)]
pub(super) struct Lines<T> {
    lines: HashMap<String, VecDeque<T>>,
    /// The namespaces in which something waits, in the order of their turns.
    turns: VecDeque<String>,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self { lines: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<T> Lines<T> {
    pub(super) fn push(&mut self, namespace: &str, item: T) {
        let line = self.lines.entry(namespace.to_owned()).or_insert_with(|| {
            self.turns.push_back(namespace.to_owned());
            VecDeque::new()
        });
        line.push_back(item);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Returns how many wait in a namespace.
    pub(super) fn len(&self, namespace: &str) -> usize {
        self.lines.get(namespace).map_or(0, VecDeque::len)
    }

    /// Returns what is next, with its namespace. Namespaces that `may` not have a turn now keep their place.
    pub(super) fn pop(&mut self, may: impl Fn(&str) -> bool) -> Option<(String, T)> {
        let place = self.turns.iter().position(|namespace| may(namespace))?;
        let namespace = self.turns.remove(place)?;
        let line = self.lines.get_mut(&namespace)?;
        let item = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&namespace);
        } else {
            self.turns.push_back(namespace.clone());
        }
        Some((namespace, item))
    }
}

/// A number of permits. Cheap to clone: all clones share them.
#[derive(Clone, Debug)]
pub(super) struct Turns(Arc<Mutex<Permits>>);

#[derive(Debug)]
struct Permits {
    free: usize,
    waiting: Lines<oneshot::Sender<Turn>>,
}

/// A permit; dropping it gives it to the next in turn.
#[derive(Debug)]
pub(super) struct Turn(Option<Turns>);

impl Turns {
    pub(super) fn new(permits: usize) -> Self {
        Self(Arc::new(Mutex::new(Permits { free: permits, waiting: Lines::default() })))
    }

    /// Waits for the turn of `namespace`.
    pub(super) async fn turn(&self, namespace: &str) -> Turn {
        let turn = {
            let mut permits = self.0.lock();
            if permits.free > 0 {
                permits.free -= 1;
                return Turn(Some(self.clone()));
            }
            let (sender, turn) = oneshot::channel();
            permits.waiting.push(namespace, sender);
            turn
        };
        turn.await.expect("a sender that waits is dropped only when it has sent")
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.0.lock().free
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        loop {
            let next = {
                let mut permits = turns.0.lock();
                let next = permits.waiting.pop(|_| true);
                permits.free += usize::from(next.is_none());
                next
            };
            let Some((_, next)) = next else { return };
            match next.send(Self(Some(turns.clone()))) {
                Ok(()) => return,
                // Whoever waited there has given up.
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
    fn each_namespace_has_its_turn_and_those_that_may_not_keep_it() {
        let mut lines = Lines::default();
        for (namespace, item) in [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("b", 2)] {
            lines.push(namespace, item);
        }
        let mut next =
            |barred: &str| lines.pop(|namespace| namespace != barred).map(|(a, i)| format!("{a}{i}"));
        assert_eq!(next("a").as_deref(), Some("b1"));
        let rest: Vec<_> = std::iter::from_fn(|| next("")).collect();
        assert_eq!(rest, ["a1", "c1", "b2", "a2", "a3"]);
        assert!(lines.lines.is_empty() && lines.turns.is_empty());
    }

    #[tokio::test]
    async fn a_crowd_delays_others_by_one_turn_and_who_gives_up_none() {
        let turns = Turns::new(1);
        let first = turns.turn("a").await;
        let mut crowd: Vec<_> = (0..9).map(|_| Box::pin(turns.turn("a"))).collect();
        assert!(crowd.iter_mut().all(|one| one.now_or_never().is_none()));
        let mut other = Box::pin(turns.turn("b"));
        assert!((&mut other).now_or_never().is_none());
        drop(crowd.remove(0));
        drop(first);
        // The turn of the crowd was that of the one that has given up.
        drop(other.now_or_never().expect("the next turn"));
        let second = (&mut crowd[0]).now_or_never().expect("nobody else waits");
        drop(crowd);
        drop(second);
        assert_eq!(turns.free(), 1);
    }
}
