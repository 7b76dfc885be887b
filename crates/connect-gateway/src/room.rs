//! Counts connections and decides whether there is room for one more: a crowd at one SparkConnect takes nobody else's.

use super::spark_connect::Uid;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use std::{collections::HashMap, sync::Arc};

/// The greatest numbers of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub in_all: usize,
    pub of_one: usize,
}

/// The room for connections. As long as half of it is free, a SparkConnect may have as many as [`Limit::of_one`]. The
/// other half is divided into equal shares, which nobody else can take.
#[derive(Debug)]
pub(crate) struct Room {
    limit: Limit,
    taken: Mutex<Taken>,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of_one: HashMap<Uid, usize>,
    /// The number of SparkConnects.
    sharing: usize,
}

/// The place of one connection, which is free again when this value is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<Room>,
    uid: Uid,
}

impl Room {
    /// Returns an empty room; `gauge` shows how many places are taken.
    pub(crate) fn new(limit: Limit, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { limit, taken: Mutex::default(), gauge })
    }

    /// Divides the room among so many SparkConnects from now on.
    pub(crate) fn share(&self, sharing: usize) {
        let mut taken = self.taken.lock();
        taken.sharing = sharing;
        taken.of_one.retain(|_, own| *own > 0);
    }

    /// Returns a place for a connection to this SparkConnect; none if there is no room.
    pub(crate) fn place(self: &Arc<Self>, uid: &Uid) -> Option<Place> {
        let mut taken = self.taken.lock();
        let Limit { in_all, of_one } = self.limit;
        let half = in_all.div_ceil(2);
        let share = (half / taken.sharing.max(1)).max(1);
        let all = taken.all;
        let own = taken.of_one.entry(Arc::clone(uid)).or_default();
        if *own >= of_one || all >= in_all || (all >= in_all - half && *own >= share) {
            return None;
        }
        *own += 1;
        taken.all += 1;
        self.gauge.inc();
        Some(Place { room: Arc::clone(self), uid: Arc::clone(uid) })
    }

    /// Whether a connection to this SparkConnect has a place.
    pub(crate) fn has_any(&self, uid: &Uid) -> bool {
        self.taken.lock().of_one.get(uid).is_some_and(|own| *own > 0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.taken.lock();
        taken.all -= 1;
        if let Some(own) = taken.of_one.get_mut(&self.uid) {
            *own -= 1;
        }
        self.room.gauge.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_at_one_leaves_room_for_each_other() {
        let room = Room::new(Limit { in_all: 40, of_one: 30 }, Gauge::default());
        room.share(5);
        let uids: Vec<_> = ["a", "b", "c", "d", "e"].map(Uid::from).into();
        let crowd = |uid: &Uid| std::iter::from_fn(|| room.place(uid)).collect::<Vec<_>>();
        let places: Vec<_> = uids.iter().map(crowd).collect();
        let counts: Vec<_> = places.iter().map(Vec::len).collect();
        assert_eq!(counts, [20, 4, 4, 4, 4], "the first has half of the room, the others their shares");
        assert_eq!(room.gauge.get(), 36);
        drop(places);
        assert_eq!((room.gauge.get(), room.has_any(&uids[0])), (0, false));
        room.share(4);
        assert!(room.taken.lock().of_one.is_empty(), "nothing is kept of those that are gone");
    }

    #[test]
    fn one_that_is_alone_has_no_more_than_one_may_have_and_all_no_more_than_there_are() {
        let room = Room::new(Limit { in_all: 3, of_one: 1 }, Gauge::default());
        room.share(9);
        let places: Vec<_> = (0..9)
            .map(|number| room.place(&Uid::from(number.to_string())))
            .take_while(Option::is_some)
            .collect();
        assert_eq!(places.len(), 3);
        drop(places);
        let first = room.place(&Uid::from("a"));
        assert!(first.is_some() && room.place(&Uid::from("a")).is_none());
        assert!(room.place(&Uid::from("b")).is_some());
    }
}
