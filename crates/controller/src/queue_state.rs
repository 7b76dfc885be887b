//! The state of a queue: which objects wait, which are being worked on, and since when, and which return at a later
//! time. Each object has one entry, and namespaces take turns.

use super::Key;
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;
use work::Lines;

/// How long an object may wait, or a reconcile may take, while no reconcile ends, until the loop counts as stuck. Each
/// request has a deadline of half a minute, and a reconcile whose requests all fail makes two or three requests.
const STUCK: Duration = Duration::from_secs(3 * 60);
/// How long a single reconcile may take, even if other reconciles end, until the loop counts as stuck: it may have a
/// thousand events to send to a slow API server.
const HUNG: Duration = Duration::from_secs(15 * 60);

/// The state of a queue.
#[derive(Debug, Default)]
pub(super) struct QueueState {
    pub waiting: Lines<String, VecDeque<String>>,
    /// The objects that return later, ordered by time.
    pub later: BTreeSet<(Instant, Key)>,
    /// The objects that wait or are being worked on. Objects that return later are not among them, because there may be
    /// as many as applications: metrics iterate over all entries while the queue is locked.
    entries: HashMap<Key, Entry>,
    /// The time at which each object in `later` returns.
    due: HashMap<Key, Instant>,
    /// The number of objects of each namespace that are being worked on.
    running: HashMap<String, u16>,
    /// When the work on an object last ended.
    last_done: Option<Instant>,
}

#[derive(Debug)]
enum Entry {
    /// The time of the first event that has queued the object; `None` if only the end of its pause has.
    Waiting(Option<Instant>),
    /// The time at which the work began, and that of the first event since that has queued the object again.
    Running { since: Instant, again: Option<Instant> },
}

impl QueueState {
    /// Queues an object; one that is being worked on is worked on again. `since` is the time of the event that queues
    /// the object; `None` if it is queued because its pause has ended.
    pub(super) fn push(&mut self, key: Key, since: Option<Instant>) {
        if let Some(Entry::Waiting(first) | Entry::Running { again: first, .. }) = self.entries.get_mut(&key)
        {
            return *first = first.or(since);
        }
        if let Some(due) = self.due.remove(&key) {
            self.later.remove(&(due, key.clone()));
        }
        self.waiting.line(&key.0).push_back(key.1.clone());
        self.entries.insert(key, Entry::Waiting(since));
    }

    pub(super) fn take_due(&mut self, now: Instant) {
        while let Some((_, key)) = self.later.first().filter(|(due, _)| *due <= now).cloned() {
            self.push(key, None);
        }
    }

    /// Removes the next object from the queue, of a namespace of which fewer than `at_once` objects are being worked
    /// on. Returns it with the time for which it has waited; `None` if only the end of its pause has queued it.
    pub(super) fn pop(&mut self, at_once: u16, now: Instant) -> Option<(Key, Option<Duration>)> {
        let Self { waiting, running, .. } = self;
        let key =
            waiting.take_if(|namespace| running.get(namespace).is_none_or(|running| *running < at_once))?;
        *self.running.entry(key.0.clone()).or_default() += 1;
        let waited = match self.entries.insert(key.clone(), Entry::Running { since: now, again: None }) {
            Some(Entry::Waiting(Some(since))) => Some(now - since),
            _ => None,
        };
        Some((key, waited))
    }

    /// Ends the work on an object, which returns at `due` if no event queues it before; `None` if that is not needed.
    pub(super) fn done(&mut self, key: Key, due: Option<Instant>) {
        self.last_done = Some(Instant::now());
        if let Some(running) = self.running.get_mut(&key.0) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&key.0);
            }
        }
        match (self.entries.remove(&key), due) {
            (Some(Entry::Running { again: Some(since), .. }), _) => self.push(key, Some(since)),
            (_, Some(due)) => {
                self.later.insert((due, key.clone()));
                self.due.insert(key, due);
            }
            (_, None) => {}
        }
    }

    /// Returns the objects that events have queued, and since when; not those of which only the pause has ended.
    pub(super) fn waits(&self) -> impl Iterator<Item = (&Key, Instant)> {
        self.entries.iter().filter_map(|(key, entry)| match entry {
            Entry::Waiting(since) | Entry::Running { again: since, .. } => Some((key, (*since)?)),
        })
    }

    /// Returns the objects that are being worked on, and since when.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&Key, Instant)> {
        self.entries.iter().filter_map(|(key, entry)| match entry {
            Entry::Running { since, .. } => Some((key, *since)),
            Entry::Waiting(_) => None,
        })
    }

    /// Describes the object that shows that the loop of this kind is stuck; `None` if the loop is not stuck.
    pub(super) fn stuck(&self, kind: &str, now: Instant) -> Option<String> {
        let age = |since: Instant| now.saturating_duration_since(since);
        let is_stalled = self.last_done.is_none_or(|last_done| age(last_done) > STUCK);
        let said = |what: &str, ((namespace, name), since): (&Key, Instant)| {
            format!("{kind} {namespace}/{name} {what} for {} s", age(since).as_secs())
        };
        let hung = self.runs().min_by_key(|(_, since)| *since);
        let hung = hung.filter(|(_, since)| age(*since) > HUNG || is_stalled && age(*since) > STUCK);
        let kept_waiting = || {
            let oldest = self.waits().min_by_key(|(_, since)| *since);
            oldest.filter(|(_, since)| is_stalled && age(*since) > STUCK)
        };
        hung.map(|oldest| said("has been in its reconcile", oldest))
            .or_else(|| kept_waiting().map(|oldest| said("has waited for its reconcile", oldest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(state: &mut QueueState, name: &str) {
        state.push(("default".to_owned(), name.to_owned()), Some(Instant::now()));
    }

    fn pop(state: &mut QueueState) -> Key {
        state.pop(2, Instant::now()).unwrap().0
    }

    fn stuck(state: &QueueState, seconds: u64) -> Option<String> {
        state.stuck("SparkApplication", Instant::now() + Duration::from_secs(seconds))
    }

    #[test]
    fn a_loop_with_waiting_work_counts_as_stuck_and_an_idle_loop_does_not() {
        let state = &mut QueueState::default();
        assert_eq!(stuck(state, 100_000), None);
        push(state, "pi");
        assert_eq!(stuck(state, 60), None);
        let waits = "SparkApplication default/pi has waited for its reconcile for 200 s";
        assert_eq!(stuck(state, 200).as_deref(), Some(waits));

        let pi = pop(state);
        assert_eq!(stuck(state, 60), None);
        let runs = "SparkApplication default/pi has been in its reconcile for 200 s";
        assert_eq!(stuck(state, 200).as_deref(), Some(runs));
        push(state, "pi");
        state.done(pi.clone(), None);
        assert_eq!(stuck(state, 200).as_deref(), Some(waits), "again");

        pop(state);
        state.done(pi, Some(Instant::now()));
        assert_eq!(stuck(state, 100_000), None);
        state.take_due(Instant::now());
        assert_eq!(stuck(state, 100_000), None, "only its pause has ended");
    }

    #[test]
    fn a_reconcile_that_hangs_while_others_end_counts_as_stuck() {
        let state = &mut QueueState::default();
        push(state, "slow");
        pop(state);
        let ended_after = |state: &mut QueueState, seconds| {
            state.last_done = Some(Instant::now() + Duration::from_secs(seconds));
            stuck(state, seconds)
        };
        assert_eq!(ended_after(state, 600), None);
        assert!(ended_after(state, 1200).unwrap().contains("default/slow has been in its reconcile"));
    }

    #[test]
    fn an_object_whose_work_has_ended_leaves_no_entry() {
        let state = &mut QueueState::default();
        push(state, "pi");
        let pi = pop(state);
        state.done(pi, None);
        assert!(state.entries.is_empty() && state.running.is_empty());
        push(state, "pi");
        let pi = pop(state);
        state.done(pi, Some(Instant::now()));
        push(state, "pi");
        assert!(state.due.is_empty() && state.later.is_empty());
    }
}
