//! Knows the objects of a queue: which wait, which are worked on, and since when; and which come back at a later time. Each object
//! has one place, and the namespaces take turns.

use super::Key;
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;
use work::Lines;

/// The longest time for which an object waits, or a reconcile takes, while no reconcile ends: then the loop counts as stuck. Each
/// request has a deadline of half a minute, and a reconcile whose requests all fail makes two or three requests.
const STUCK: Duration = Duration::from_secs(3 * 60);
/// The longest time of a single reconcile, even if other reconciles end: it may have a thousand events to send to an API
/// server that is slow for each of them.
const HUNG: Duration = Duration::from_secs(15 * 60);

/// The objects of a queue.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub waiting: Lines<String, VecDeque<String>>,
    pub later: BTreeSet<(Instant, Key)>,
    /// The objects that wait or are worked on. Apart from those that come back later, of which there may be as many as there are
    /// applications: whoever counts looks at all, while nobody else comes to the queue.
    places: HashMap<Key, Place>,
    /// When each object comes back that is in `later`.
    due: HashMap<Key, Instant>,
    /// The number of objects of each namespace that are worked on.
    running: HashMap<String, u16>,
    /// When the work on an object last ended.
    moved: Option<Instant>,
}

#[derive(Debug)]
enum Place {
    /// Since when there is a reason to work on the object; none if only its time has come.
    Waiting(Option<Instant>),
    /// Since when the object is worked on, and since when there is a reason to do so again.
    Running { since: Instant, again: Option<Instant> },
}

impl Places {
    /// Has an object wait, or be worked on again if it is being worked on. `since` is when there was a reason; none if only its
    /// time has come.
    pub(super) fn push(&mut self, key: Key, since: Option<Instant>) {
        if let Some(Place::Waiting(before) | Place::Running { again: before, .. }) = self.places.get_mut(&key)
        {
            return *before = before.or(since);
        }
        if let Some(due) = self.due.remove(&key) {
            self.later.remove(&(due, key.clone()));
        }
        self.waiting.line(&key.0).push_back(key.1.clone());
        self.places.insert(key, Place::Waiting(since));
    }

    pub(super) fn take_due(&mut self, now: Instant) {
        while let Some((_, key)) = self.later.first().filter(|(due, _)| *due <= now).cloned() {
            self.push(key, None);
        }
    }

    /// Takes the object that is next, of a namespace of which fewer than `at_once` are worked on. Returns it with the time for
    /// which it has waited; none if only its time has come.
    pub(super) fn pop(&mut self, at_once: u16, now: Instant) -> Option<(Key, Option<Duration>)> {
        let Self { waiting, running, .. } = self;
        let key =
            waiting.take_if(|namespace| running.get(namespace).is_none_or(|running| *running < at_once))?;
        *self.running.entry(key.0.clone()).or_default() += 1;
        let waited = match self.places.insert(key.clone(), Place::Running { since: now, again: None }) {
            Some(Place::Waiting(Some(since))) => Some(now - since),
            _ => None,
        };
        Some((key, waited))
    }

    /// Ends the work on an object, which comes back when it is `due` if there is no reason before; none if that is not needed.
    pub(super) fn done(&mut self, key: Key, due: Option<Instant>) {
        self.moved = Some(Instant::now());
        if let Some(running) = self.running.get_mut(&key.0) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&key.0);
            }
        }
        match (self.places.remove(&key), due) {
            (Some(Place::Running { again: Some(since), .. }), _) => self.push(key, Some(since)),
            (_, Some(due)) => {
                self.later.insert((due, key.clone()));
                self.due.insert(key, due);
            }
            (_, None) => {}
        }
    }

    /// Returns the objects that there is a reason to work on, and since when.
    pub(super) fn waits(&self) -> impl Iterator<Item = (&Key, Instant)> {
        self.places.iter().filter_map(|(key, place)| match place {
            Place::Waiting(since) | Place::Running { again: since, .. } => Some((key, (*since)?)),
        })
    }

    /// Returns the objects that are worked on, and since when.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&Key, Instant)> {
        self.places.iter().filter_map(|(key, place)| match place {
            Place::Running { since, .. } => Some((key, *since)),
            Place::Waiting(_) => None,
        })
    }

    /// Describes the object of this kind that shows that the loop is stuck, if one does.
    pub(super) fn stuck(&self, kind: &str, now: Instant) -> Option<String> {
        let age = |since: Instant| now.saturating_duration_since(since);
        let stands = self.moved.is_none_or(|moved| age(moved) > STUCK);
        let said = |what: &str, ((namespace, name), since): (&Key, Instant)| {
            format!("{kind} {namespace}/{name} {what} for {} s", age(since).as_secs())
        };
        let hung = self.runs().min_by_key(|(_, since)| *since);
        let hung = hung.filter(|(_, since)| age(*since) > HUNG || stands && age(*since) > STUCK);
        let kept_waiting = || {
            let oldest = self.waits().min_by_key(|(_, since)| *since);
            oldest.filter(|(_, since)| stands && age(*since) > STUCK)
        };
        hung.map(|oldest| said("has been in its reconcile", oldest))
            .or_else(|| kept_waiting().map(|oldest| said("has waited for its reconcile", oldest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(places: &mut Places, name: &str) {
        places.push(("default".to_owned(), name.to_owned()), Some(Instant::now()));
    }

    fn pop(places: &mut Places) -> Key {
        places.pop(2, Instant::now()).unwrap().0
    }

    fn stuck(places: &Places, seconds: u64) -> Option<String> {
        places.stuck("SparkApplication", Instant::now() + Duration::from_secs(seconds))
    }

    #[test]
    fn work_that_nobody_does_is_stuck_and_an_idle_loop_is_not() {
        let places = &mut Places::default();
        assert_eq!(stuck(places, 100_000), None);
        push(places, "pi");
        assert_eq!(stuck(places, 60), None);
        let waits = "SparkApplication default/pi has waited for its reconcile for 200 s";
        assert_eq!(stuck(places, 200).as_deref(), Some(waits));

        let pi = pop(places);
        assert_eq!(stuck(places, 60), None);
        let runs = "SparkApplication default/pi has been in its reconcile for 200 s";
        assert_eq!(stuck(places, 200).as_deref(), Some(runs));
        push(places, "pi");
        places.done(pi.clone(), None);
        assert_eq!(stuck(places, 200).as_deref(), Some(waits), "again");

        pop(places);
        places.done(pi, Some(Instant::now()));
        assert_eq!(stuck(places, 100_000), None);
        places.take_due(Instant::now());
        assert_eq!(stuck(places, 100_000), None, "its time has come, and there is no other reason");
    }

    #[test]
    fn a_reconcile_that_hangs_while_others_end_is_stuck_in_the_end() {
        let places = &mut Places::default();
        push(places, "slow");
        pop(places);
        let moved = |places: &mut Places, seconds| {
            places.moved = Some(Instant::now() + Duration::from_secs(seconds));
            stuck(places, seconds)
        };
        assert_eq!(moved(places, 600), None);
        assert!(moved(places, 1200).unwrap().contains("default/slow has been in its reconcile"));
    }

    #[test]
    fn nothing_is_kept_of_what_is_done() {
        let places = &mut Places::default();
        push(places, "pi");
        let pi = pop(places);
        places.done(pi, None);
        assert!(places.places.is_empty() && places.running.is_empty());
        push(places, "pi");
        let pi = pop(places);
        places.done(pi, Some(Instant::now()));
        push(places, "pi");
        assert!(places.due.is_empty() && places.later.is_empty());
    }
}
