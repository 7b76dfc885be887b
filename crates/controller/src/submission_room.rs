//! Bounds what submissions that wait for their turn have in memory, so that a tenant with many large applications takes
//! no more than others leave: an application for which there is no room is planned later.

use parking_lot::Mutex;
use std::{
    collections::{HashMap, hash_map::Entry},
    mem,
    sync::Arc,
    time::Duration,
};

/// What the submissions of each namespace may have, whatever others have, in bytes of the objects as they are sent. An
/// ordinary submission has 12 KiB.
const OF_EACH: usize = 1 << 20;
/// What all submissions together may have before a namespace is told to wait that has its share.
const OF_ALL: usize = 32 << 20;
/// The pause before an application looks for room again. The ordinary submissions that fill the room take longer than that.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// Room for the submissions that wait or are under way: the bytes that those of each namespace have.
#[derive(Default)]
pub(super) struct SubmissionRoom(Mutex<HashMap<String, usize>>);

/// The room that one submission takes, until the value is dropped.
pub(super) struct Place {
    room: Arc<SubmissionRoom>,
    namespace: String,
    bytes: usize,
}

impl SubmissionRoom {
    /// Whether the next submission of this namespace may be planned.
    pub(super) fn is_there(&self, namespace: &str) -> bool {
        let taken = self.0.lock();
        taken.values().sum::<usize>() < OF_ALL || taken.get(namespace).is_none_or(|bytes| *bytes < OF_EACH)
    }

    /// Takes room for a submission of `bytes`, which was planned because there was some.
    pub(super) fn take(self: &Arc<Self>, namespace: &str, bytes: usize) -> Place {
        *self.0.lock().entry(namespace.to_owned()).or_default() += bytes;
        Place { room: Arc::clone(self), namespace: namespace.to_owned(), bytes }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.0.lock();
        if let Entry::Occupied(mut of_namespace) = taken.entry(mem::take(&mut self.namespace)) {
            *of_namespace.get_mut() -= self.bytes;
            if *of_namespace.get() == 0 {
                of_namespace.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_many_large_submissions_leaves_room_to_others_and_goes_on_when_they_end() {
        let room = Arc::<SubmissionRoom>::default();
        let large = 3 << 20;
        let mut places = Vec::new();
        while room.is_there("a") {
            places.push(room.take("a", large));
        }
        assert_eq!(places.len(), OF_ALL.div_ceil(large));
        let mut of_others = Vec::new();
        while room.is_there("b") {
            of_others.push(room.take("b", OF_EACH / 2));
        }
        assert_eq!(of_others.len(), 2, "each namespace has its share");

        places.truncate(places.len() - 2);
        assert!(room.is_there("a") && room.is_there("b"));
        drop((places, of_others));
        assert!(room.0.lock().is_empty());
    }
}
