//! Bounds the memory of submissions that wait for their turn or run, so that a tenant with many large applications
//! takes no more than others leave: an application for which there is no room is planned later.

use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc, time::Duration};

/// The room of each namespace, which other namespaces cannot take, in bytes of the objects as they are sent. An
/// ordinary submission has 12 KiB.
const OF_EACH: usize = 1 << 20;
/// The room of all submissions together, in bytes. If it is taken, a namespace that has taken [`OF_EACH`] has to wait.
const OF_ALL: usize = 32 << 20;
/// The pause before an application for which there is no room is reconciled again. The ordinary submissions that fill
/// the room take longer than that.
pub(super) const AGAIN: Duration = Duration::from_secs(5);

/// The room that the submissions which wait or run take: the bytes of each namespace.
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

    /// Takes room for a submission of `bytes`, which was planned because there was some room.
    pub(super) fn take(self: &Arc<Self>, namespace: &str, bytes: usize) -> Place {
        *self.0.lock().entry(namespace.to_owned()).or_default() += bytes;
        Place { room: Arc::clone(self), namespace: namespace.to_owned(), bytes }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.0.lock();
        if let Some(bytes) = taken.get_mut(&self.namespace) {
            *bytes -= self.bytes;
        }
        taken.retain(|_, bytes| *bytes > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_many_large_submissions_leaves_room_to_others() {
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
        assert_eq!(of_others.len(), 2, "each namespace has room of its own");

        places.truncate(places.len() - 2);
        assert!(room.is_there("a") && room.is_there("b"));
        drop((places, of_others));
        assert!(room.0.lock().is_empty());
    }
}
