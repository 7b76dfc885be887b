//! Counts connections and decides whether there is room for one more: a crowd at one SparkConnect takes nobody else's.

use super::spark_connect::Uid;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use std::{collections::HashMap, sync::Arc};

/// The most bytes that are read at once. The buffer for them exists only while they are passed on: an idle connection has
/// none, where `tokio::io::copy_bidirectional` would keep one for each direction.
pub(crate) const CHUNK: usize = 64 << 10;
/// The most bytes that the kernel keeps for one direction of one socket. Otherwise it may be 6 MiB, which count for the
/// memory of the container, for each client and server that does not read. Within a cluster, where a packet takes less than
/// a millisecond, this is more than 60 MB a second.
pub(crate) const KEPT: usize = 64 << 10;
/// The most bytes that a connection may have in memory: both directions of both sockets, for which the kernel reckons twice
/// what it was told (socket(7)), and a chunk for each direction.
const LARGEST: u64 = (4 * 2 * KEPT + 2 * CHUNK) as u64;

/// The greatest numbers of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub in_all: usize,
    pub of_one: usize,
}

/// The room for connections. As long as half of it is free, a SparkConnect may have as many as [`Limit::of_one`]. The
/// other half is divided into equal shares for the namespaces, and each of these into equal shares for its SparkConnects,
/// which nobody else can take.
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
    of_namespace: HashMap<String, usize>,
    /// The number of SparkConnects of each namespace.
    sharing: HashMap<String, usize>,
}

/// The place of one connection, which is free again when this value is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<Room>,
    uid: Uid,
    namespace: String,
}

impl Taken {
    /// Whether a SparkConnect with `own` connections has room in its share of `half`. Those of a namespace that has more
    /// SparkConnects than places have the places of the namespace in common.
    fn has_share(&self, half: usize, own: usize, namespace: &str) -> bool {
        let of_namespace = (half / self.sharing.len().max(1)).max(1);
        match of_namespace / self.sharing.get(namespace).copied().unwrap_or(1) {
            0 => self.of_namespace.get(namespace).is_none_or(|taken| *taken < of_namespace),
            share => own < share,
        }
    }
}

impl Room {
    /// Returns an empty room; `gauge` shows how many places are taken.
    pub(crate) fn new(limit: Limit, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { limit, taken: Mutex::default(), gauge })
    }

    /// Divides the room among SparkConnects in these namespaces from now on.
    pub(crate) fn share<'n>(&self, namespaces: impl Iterator<Item = &'n str>) {
        let mut taken = self.taken.lock();
        taken.sharing.clear();
        for namespace in namespaces {
            *taken.sharing.entry(namespace.to_owned()).or_default() += 1;
        }
        taken.of_one.retain(|_, own| *own > 0);
        taken.of_namespace.retain(|_, own| *own > 0);
    }

    /// Returns a place for a connection to this SparkConnect; none if there is no room.
    pub(crate) fn place(self: &Arc<Self>, uid: &Uid, namespace: &str) -> Option<Place> {
        let mut taken = self.taken.lock();
        let Limit { in_all, of_one } = self.limit;
        let half = in_all.div_ceil(2);
        let own = taken.of_one.get(uid).copied().unwrap_or_default();
        let needs_share = taken.all >= in_all - half;
        if own >= of_one || taken.all >= in_all || needs_share && !taken.has_share(half, own, namespace) {
            return None;
        }
        taken.all += 1;
        *taken.of_one.entry(Arc::clone(uid)).or_default() += 1;
        *taken.of_namespace.entry(namespace.to_owned()).or_default() += 1;
        self.gauge.inc();
        Some(Place { room: Arc::clone(self), uid: Arc::clone(uid), namespace: namespace.to_owned() })
    }

    /// Whether a connection to this SparkConnect has a place.
    pub(crate) fn has_any(&self, uid: &Uid) -> bool {
        self.taken.lock().of_one.get(uid).is_some_and(|own| *own > 0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.taken.lock();
        let Taken { all, of_one, of_namespace, .. } = &mut *taken;
        *all -= 1;
        for own in of_one.get_mut(&self.uid).into_iter().chain(of_namespace.get_mut(&self.namespace)) {
            *own -= 1;
        }
        self.room.gauge.dec();
    }
}

/// Returns how many of `wanted` connections there may be, with so many files and so much memory. Each connection has two
/// sockets, and half of the files is left for ports and everything else, as is a quarter of the memory: whoever connects
/// decides how much of it the connection takes.
pub(crate) fn most(wanted: usize, files: Option<u64>, memory: Option<u64>) -> usize {
    let by_files = files.map(|files| files / 4);
    let by_memory = memory.map(|memory| (memory - memory / 4) / LARGEST);
    let most = by_files.into_iter().chain(by_memory).min().and_then(|most| usize::try_from(most).ok());
    wanted.min(most.unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;

    #[test]
    fn a_crowd_at_one_leaves_room_for_each_other() {
        let room = Room::new(Limit { in_all: 40, of_one: 30 }, Gauge::default());
        let names = ["a", "b", "c", "d", "e"];
        room.share(names.into_iter());
        let uids: Vec<_> = names.map(Uid::from).into();
        let crowd = |uid: &Uid| iter::from_fn(|| room.place(uid, uid)).collect::<Vec<_>>();
        let places: Vec<_> = uids.iter().map(crowd).collect();
        let counts: Vec<_> = places.iter().map(Vec::len).collect();
        assert_eq!(counts, [20, 4, 4, 4, 4], "the first has half of the room, the others their shares");
        assert_eq!(room.gauge.get(), 36);
        drop(places);
        assert_eq!((room.gauge.get(), room.has_any(&uids[0])), (0, false));
        room.share(names[1..].iter().copied());
        let taken = room.taken.lock();
        assert!(
            taken.of_one.is_empty() && taken.of_namespace.is_empty(),
            "nothing is kept of those that are gone"
        );
    }

    /// Once, each SparkConnect had the same share, so that a tenant with thousands of them left one place to those of others.
    #[test]
    fn a_namespace_with_many_has_no_more_than_its_share() {
        let room = Room::new(Limit { in_all: 40, of_one: 30 }, Gauge::default());
        room.share(iter::repeat_n("crowd", 98).chain(["b", "c"]));
        let of_crowd = (0..98).map(|number| Uid::from(number.to_string()));
        let crowd: Vec<_> = of_crowd.filter_map(|uid| room.place(&uid, "crowd")).collect();
        let others = ["b", "c"].map(|name| {
            let uid = Uid::from(name);
            iter::from_fn(|| room.place(&uid, name)).collect::<Vec<_>>()
        });
        assert_eq!((crowd.len(), others.map(|places| places.len())), (20, [6, 6]));
    }

    #[test]
    fn one_that_is_alone_has_no_more_than_one_may_have_and_all_no_more_than_there_are() {
        let room = Room::new(Limit { in_all: 3, of_one: 1 }, Gauge::default());
        let names: Vec<_> = (0..9).map(|number| number.to_string()).collect();
        room.share(names.iter().map(String::as_str));
        let places: Vec<_> = names
            .iter()
            .map(|name| room.place(&Uid::from(name.as_str()), name))
            .take_while(Option::is_some)
            .collect();
        assert_eq!(places.len(), 3);
        drop(places);
        let first = room.place(&Uid::from("a"), "a");
        assert!(first.is_some() && room.place(&Uid::from("a"), "a").is_none());
        assert!(room.place(&Uid::from("b"), "b").is_some());
    }

    /// Once, a tenant whose connections were not read filled the memory of the gateway, which ended the sessions of all.
    #[test]
    fn there_are_no_more_connections_than_files_and_memory_bear() {
        for (files, memory, expected) in [
            (None, None, 10_000),
            (Some(4_096), None, 1_024),
            (Some(1 << 20), Some(1 << 30), 1_228),
            (Some(1 << 20), Some(16 << 30), 10_000),
            (None, Some(1 << 10), 1),
        ] {
            assert_eq!(most(10_000, files, memory), expected, "{files:?} {memory:?}");
        }
    }
}
