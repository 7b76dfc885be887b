//! Shares a limited number of places among owners, which are parties or namespaces. An owner may take at most as many
//! places as it leaves free: one owner at most half of them, two owners three quarters, so that some are left for the
//! next.

use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::Notify;
use work::may_have;

/// A number of places.
#[derive(Debug)]
pub(crate) struct Shares {
    most: usize,
    /// The number of places that each owner has taken.
    taken: Mutex<BTreeMap<Arc<str>, usize>>,
    freed: Notify,
}

/// Places of an owner, which become free when this value is dropped. An owner may have several such values.
#[derive(Debug)]
pub(crate) struct Share<'s> {
    all: &'s Shares,
    owner: Arc<str>,
    places: usize,
}

impl Shares {
    /// Returns `most` free places.
    pub(crate) const fn new(most: usize) -> Self {
        Self { most, taken: Mutex::new(BTreeMap::new()), freed: Notify::const_new() }
    }

    /// Returns a share of an owner without places.
    pub(crate) fn empty(&self, owner: &str) -> Share<'_> {
        Share { all: self, owner: owner.into(), places: 0 }
    }

    /// Returns a share with one place. `None` if the owner may not have one more now.
    pub(crate) fn one(&self, owner: &str) -> Option<Share<'_>> {
        let mut share = self.empty(owner);
        share.grow(1).then_some(share)
    }

    /// Returns a share with one place, as soon as the owner may have one more.
    pub(crate) async fn next(&self, owner: &str) -> Share<'_> {
        loop {
            // Created before the check, so that a place that becomes free between the two is noticed.
            let freed = self.freed.notified();
            if let Some(share) = self.one(owner) {
                return share;
            }
            freed.await;
        }
    }
}

impl Share<'_> {
    /// Adds this number of places, which is at least one, or none. Returns whether the owner may have all of them, if
    /// they are taken one after the other.
    pub(crate) fn grow(&mut self, places: usize) -> bool {
        let mut taken = self.all.taken.lock();
        let free = self.all.most - taken.values().sum::<usize>();
        let own = taken.get(&self.owner).copied().unwrap_or_default();
        let may = may_have(own + places - 1, (free + 1).saturating_sub(places));
        if may {
            taken.insert(Arc::clone(&self.owner), own + places);
            self.places += places;
        }
        may
    }

    /// Frees this number of places. The share must have as many.
    pub(crate) fn shrink(&mut self, places: usize) {
        self.places -= places;
        let mut taken = self.all.taken.lock();
        if let Some(own) = taken.get_mut(&self.owner) {
            *own -= places;
            if *own == 0 {
                taken.remove(&self.owner);
            }
        }
        drop(taken);
        self.all.freed.notify_waiters();
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        // An attempt that failed drops an empty share, which has nothing to free and wakes nobody.
        if self.places > 0 {
            self.shrink(self.places);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::iter;

    /// Without shares, two windows with slow drivers could hold six of eight places for half a minute, again and again.
    #[tokio::test]
    async fn each_owner_leaves_places_to_others_and_a_freed_place_goes_to_a_waiting_one() {
        let shares = Shares::new(8);
        let crowd = |owner: &'static str| iter::from_fn(|| shares.one(owner)).collect::<Vec<_>>();
        let mut held = ["a", "b", "c", "d", "e"].map(crowd);
        assert_eq!(held.each_ref().map(Vec::len), [4, 2, 1, 1, 0]);
        let mut waits = Box::pin(shares.next("e"));
        assert!((&mut waits).now_or_never().is_none());
        held[0].pop();
        assert!(waits.now_or_never().is_some());
        drop(held);
        assert!(shares.taken.lock().is_empty());
    }

    #[test]
    fn a_share_grows_and_shrinks() {
        let shares = Shares::new(4);
        let (mut a, mut b) = (shares.empty("a"), shares.empty("b"));
        assert!(!a.grow(3) && !a.grow(9) && a.grow(2) && !a.grow(1), "half of all");
        assert!(b.grow(1) && !b.grow(1), "half of the rest");
        a.shrink(2);
        assert!(b.grow(1));
        drop((a, b));
        assert!(shares.taken.lock().is_empty());
    }
}
