//! Bounds what submissions that wait for their turn have in memory, so that a tenant with many large applications takes
//! no more than others leave: an application for which there is no room is planned later.

use super::queue::Queue;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use work::Lines;

/// What the submissions of each namespace may have, whatever others have, in bytes of the objects as they are sent. An
/// ordinary submission has 12 KiB.
const OF_EACH: usize = 1 << 20;
/// What all submissions together may have before a namespace is told to wait that has its share.
const OF_ALL: usize = 32 << 20;
/// How long an application waits for room if it is not queued before.
pub(super) const AGAIN: Duration = Duration::from_secs(5);
/// How many applications are planned for one whose submission has ended. More than one, so that small submissions follow
/// large ones in growing numbers.
const NEXT: usize = 2;

/// Room for the submissions that wait or are under way.
pub(super) struct SubmissionRoom {
    state: Mutex<State>,
    /// The queue to which the applications return that have waited for room.
    queue: Arc<Queue>,
}

#[derive(Default)]
struct State {
    bytes: usize,
    of_namespaces: HashMap<String, usize>,
    waiting: Lines<String, VecDeque<String>>,
    /// Namespace and name of each application that waits.
    waits: HashSet<(String, String)>,
}

/// The room that one submission takes, until the value is dropped.
pub(super) struct Place {
    room: Arc<SubmissionRoom>,
    namespace: String,
    bytes: usize,
}

impl SubmissionRoom {
    pub(super) fn new(queue: Arc<Queue>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), queue })
    }

    /// Whether the next submission of this application may be planned. If not, the application is queued again when there
    /// is room.
    pub(super) fn is_there(&self, namespace: &str, name: &str) -> bool {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let of_namespace = state.of_namespaces.get(namespace);
        let is_there = state.bytes < OF_ALL || of_namespace.is_none_or(|bytes| *bytes < OF_EACH);
        if !is_there && state.waits.insert((namespace.to_owned(), name.to_owned())) {
            state.waiting.line(&namespace.to_owned()).push_back(name.to_owned());
        }
        is_there
    }

    /// Takes room for a submission of `bytes`, which was planned because there was some.
    pub(super) fn take(self: &Arc<Self>, namespace: &str, bytes: usize) -> Place {
        let mut state = self.state.lock();
        state.bytes += bytes;
        *state.of_namespaces.entry(namespace.to_owned()).or_default() += bytes;
        drop(state);
        Place { room: Arc::clone(self), namespace: namespace.to_owned(), bytes }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut guard = self.room.state.lock();
        let State { bytes, of_namespaces, waiting, waits } = &mut *guard;
        *bytes -= self.bytes;
        if let Some(of_namespace) = of_namespaces.get_mut(&self.namespace) {
            *of_namespace -= self.bytes;
            if *of_namespace == 0 {
                of_namespaces.remove(&self.namespace);
            }
        }
        // First some of this namespace, which may have room again where others still have none.
        let takes = (0..2 * NEXT).filter_map(|i| waiting.take_if(|key| i >= NEXT || *key == self.namespace));
        let next: Vec<_> = takes.collect();
        for key in &next {
            waits.remove(key);
        }
        drop(guard);
        for (namespace, name) in next {
            self.room.queue.push(&namespace, &name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workloads;
    use prometheus_client::registry::Registry;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_namespace_with_many_large_submissions_leaves_room_to_others_and_goes_on_when_they_end() {
        let queue = Queue::new(Workloads::new(&mut Registry::default(), 9).applications);
        let room = SubmissionRoom::new(Arc::clone(&queue));
        let large = 3 << 20;
        let mut places = Vec::new();
        while room.is_there("a", "refused") {
            places.push(room.take("a", large));
        }
        assert_eq!(places.len(), OF_ALL.div_ceil(large));
        for name in ["1", "2", "3", "3"] {
            assert!(!room.is_there("a", name), "{name}");
        }
        let mut of_others = Vec::new();
        while room.is_there("b", "of-b") {
            of_others.push(room.take("b", OF_EACH / 2));
        }
        assert_eq!(of_others.len(), 2, "each namespace has its share");

        let next = async || timeout(Duration::from_secs(1), queue.next()).await.ok().map(|(_, name)| name);
        places.pop();
        let mut queued = Vec::from_iter([next().await, next().await, next().await, next().await]);
        queued.sort();
        assert_eq!(queued.into_iter().flatten().collect::<Vec<_>>(), ["1", "2", "of-b", "refused"]);
        assert_eq!(next().await, None);
        places.clear();
        assert_eq!(next().await.as_deref(), Some("3"));
        assert_eq!(next().await, None, "it has waited once");
        drop(of_others);
        let state = room.state.lock();
        assert!(state.bytes == 0 && state.of_namespaces.is_empty() && state.waits.is_empty());
    }
}
