//! Shares the memory for answers of drivers among namespaces: a tenant decides how slowly a driver answers, and has one
//! namespace or a few.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The number of places.
const MOST: usize = 8;

/// Places for answers. A namespace takes at most as many as it leaves free: drivers of one namespace hold half of the places
/// at most, those of two three quarters. Shares of callers would bind nobody, who may have any number of tokens.
pub(crate) struct Places {
    /// The namespace of each place that is taken.
    taken: Mutex<Vec<String>>,
    freed: Notify,
}

/// The place of one answer, which is free again when this value is dropped.
pub(crate) struct Place<'p> {
    places: &'p Places,
    namespace: &'p str,
}

impl Places {
    pub(crate) const fn new() -> Self {
        Self { taken: Mutex::new(Vec::new()), freed: Notify::const_new() }
    }

    /// Waits for a place for an answer of a driver in this namespace.
    pub(crate) async fn place<'p>(&'p self, namespace: &'p str) -> Place<'p> {
        loop {
            // Made before the look, so that a place that becomes free between the two is not missed.
            let freed = self.freed.notified();
            if let Some(place) = self.free(namespace) {
                return place;
            }
            freed.await;
        }
    }

    /// Returns a place, if there is one for this namespace.
    fn free<'p>(&'p self, namespace: &'p str) -> Option<Place<'p>> {
        let mut taken = self.taken.lock();
        let own = taken.iter().filter(|of| *of == namespace).count();
        if own >= MOST - taken.len() {
            return None;
        }
        taken.push(namespace.to_owned());
        Some(Place { places: self, namespace })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if let Some(place) = taken.iter().position(|of| of == self.namespace) {
            taken.swap_remove(place);
        }
        self.places.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    /// Once, two windows into drivers that answered slowly held six of eight places for half a minute, and then six more.
    #[tokio::test]
    async fn drivers_that_answer_slowly_leave_places_to_those_of_other_namespaces() {
        let places = Places::new();
        let crowd =
            |namespace: &'static str| std::iter::from_fn(|| places.free(namespace)).collect::<Vec<_>>();
        let mut held = ["a", "b", "c", "d", "e"].map(crowd);
        assert_eq!(held.each_ref().map(Vec::len), [4, 2, 1, 1, 0]);
        let mut waits = Box::pin(places.place("e"));
        assert!((&mut waits).now_or_never().is_none());
        held[0].pop();
        assert!(waits.now_or_never().is_some());
        drop(held);
        assert!(places.taken.lock().is_empty());
    }
}
