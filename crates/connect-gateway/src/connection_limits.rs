//! Counts connections and decides whether one more is allowed: many connections to one SparkConnect leave some for the
//! others.

use super::spark_connect::Uid;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use std::{collections::HashMap, sync::Arc};

/// The maximum number of bytes that are read at once. Their buffer exists only while they are forwarded: an idle
/// connection has none, whereas `tokio::io::copy_bidirectional` would keep one for each direction.
pub(crate) const CHUNK: usize = 64 << 10;
/// The size of the kernel's buffer for one direction of one socket, in bytes. By default, it grows to 6 MiB for each
/// client or server that does not read, and counts as memory of the container. With 64 KiB and the round trip of a
/// cluster, less than a millisecond, a connection transfers more than 60 MB a second.
pub(crate) const SOCKET_BUFFER: usize = 64 << 10;
/// The maximum memory of a connection in bytes: the buffers for both directions of both sockets, which the kernel
/// doubles (socket(7)), and a chunk for each direction.
const CONNECTION_MEMORY: u64 = (4 * 2 * SOCKET_BUFFER + 2 * CHUNK) as u64;

/// The maximum numbers of connections: in total, and to one SparkConnect.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub in_all: usize,
    pub of_one: usize,
}

/// Connection slots. While more than half of them are free, a SparkConnect may have up to [`Limit::of_one`]. The other
/// half is reserved: it is divided into equal shares for the namespaces, and each of these into equal shares for the
/// SparkConnects of the namespace.
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

/// The slot of one connection. It is free again when this value is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arc<Room>,
    uid: Uid,
    namespace: String,
}

impl Taken {
    /// Whether a SparkConnect with `own` connections is below its guaranteed share. `half` is the number of reserved
    /// slots, which are divided equally among the namespaces and then among the SparkConnects of each. If a namespace
    /// has more SparkConnects than reserved slots, they share these slots first come, first served.
    fn is_below_share(&self, half: usize, own: usize, namespace: &str) -> bool {
        let of_namespace = (half / self.sharing.len().max(1)).max(1);
        match of_namespace / self.sharing.get(namespace).copied().unwrap_or(1) {
            0 => self.of_namespace.get(namespace).is_none_or(|taken| *taken < of_namespace),
            share => own < share,
        }
    }
}

impl Room {
    /// Returns a room in which all slots are free; `gauge` counts those that are taken.
    pub(crate) fn new(limit: Limit, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { limit, taken: Mutex::default(), gauge })
    }

    /// Divides the reserved slots among the SparkConnects that exist: `namespaces` yields the namespace of each.
    pub(crate) fn share<'n>(&self, namespaces: impl Iterator<Item = &'n str>) {
        let mut taken = self.taken.lock();
        taken.sharing.clear();
        for namespace in namespaces {
            *taken.sharing.entry(namespace.to_owned()).or_default() += 1;
        }
        taken.of_one.retain(|_, own| *own > 0);
        taken.of_namespace.retain(|_, own| *own > 0);
    }

    /// Returns a slot for a connection to this SparkConnect. `None` if it may not have one more.
    pub(crate) fn place(self: &Arc<Self>, uid: &Uid, namespace: &str) -> Option<Place> {
        let mut taken = self.taken.lock();
        let Limit { in_all, of_one } = self.limit;
        let half = in_all.div_ceil(2);
        let own = taken.of_one.get(uid).copied().unwrap_or_default();
        let needs_share = taken.all >= in_all - half;
        if own >= of_one || taken.all >= in_all || needs_share && !taken.is_below_share(half, own, namespace)
        {
            return None;
        }
        taken.all += 1;
        *taken.of_one.entry(Arc::clone(uid)).or_default() += 1;
        *taken.of_namespace.entry(namespace.to_owned()).or_default() += 1;
        self.gauge.inc();
        Some(Place { room: Arc::clone(self), uid: Arc::clone(uid), namespace: namespace.to_owned() })
    }

    /// Whether any connection to this SparkConnect has a slot.
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

/// Returns the number of connections to allow: `wanted`, or fewer if the limit of open files or of memory (in bytes) is
/// too low, but at least one. Each connection has two sockets. Half of the files and a quarter of the memory are left
/// for ports and everything else. Each connection counts with its maximum memory, because its client decides how much
/// it takes.
pub(crate) fn max_connections(wanted: usize, files: Option<u64>, memory: Option<u64>) -> usize {
    let by_files = files.map(|files| files / 4);
    let by_memory = memory.map(|memory| (memory - memory / 4) / CONNECTION_MEMORY);
    let most = by_files.into_iter().chain(by_memory).min().and_then(|most| usize::try_from(most).ok());
    wanted.min(most.unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter;

    #[test]
    fn many_connections_to_one_spark_connect_leave_the_others_their_shares() {
        let room = Room::new(Limit { in_all: 40, of_one: 30 }, Gauge::default());
        let names = ["a", "b", "c", "d", "e"];
        room.share(names.into_iter());
        let uids: Vec<_> = names.map(Uid::from).into();
        let crowd = |uid: &Uid| iter::from_fn(|| room.place(uid, uid)).collect::<Vec<_>>();
        let places: Vec<_> = uids.iter().map(crowd).collect();
        let counts: Vec<_> = places.iter().map(Vec::len).collect();
        assert_eq!(counts, [20, 4, 4, 4, 4], "the first has half of the slots, the others have their shares");
        assert_eq!(room.gauge.get(), 36);
        drop(places);
        assert_eq!((room.gauge.get(), room.has_any(&uids[0])), (0, false));
        room.share(names[1..].iter().copied());
        let taken = room.taken.lock();
        assert!(
            taken.of_one.is_empty() && taken.of_namespace.is_empty(),
            "SparkConnects that are gone leave no entry"
        );
    }

    /// If each SparkConnect had the same share, thousands of them in one namespace would leave one slot to those of
    /// others.
    #[test]
    fn a_namespace_with_many_spark_connects_has_only_the_share_of_one_namespace() {
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
    fn neither_one_spark_connect_nor_all_together_exceed_their_limits() {
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

    /// Otherwise a tenant with connections that nobody reads could fill the gateway's memory, which ends all sessions.
    #[test]
    fn the_limits_of_open_files_and_memory_bound_the_number_of_connections() {
        for (files, memory, expected) in [
            (None, None, 10_000),
            (Some(4_096), None, 1_024),
            (Some(1 << 20), Some(1 << 30), 1_228),
            (Some(1 << 20), Some(16 << 30), 10_000),
            (None, Some(1 << 10), 1),
        ] {
            assert_eq!(max_connections(10_000, files, memory), expected, "{files:?} {memory:?}");
        }
    }
}
