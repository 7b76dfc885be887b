//! Decides about applications with what extensions remember of them.

use super::pods::PodIndex;
use api::SparkApplication;
use jiff::Timestamp;
use kube::ResourceExt;
use parking_lot::Mutex;
use plan::{
    Observed, Plan, Policy,
    extension::{ExtensionMemory, Extensions, PodsOfOthers},
    lifecycle,
};

/// The memories of all extensions. The lock is held while an application is decided about of which one of them has to note
/// the decision.
pub(super) struct ExtensionMemories(Mutex<Vec<Box<dyn ExtensionMemory>>>);

impl ExtensionMemories {
    pub fn new(extensions: &Extensions) -> Self {
        Self(Mutex::new(extensions.memories()))
    }

    /// Decides about an application: see [`lifecycle::next`].
    pub fn decide(
        &self,
        pods: &PodIndex,
        application: &SparkApplication,
        mut seen: Observed,
        now: Timestamp,
        policy: &Policy,
    ) -> Plan {
        let uid = application.uid().unwrap_or_default();
        let (namespace, name) = (application.namespace().unwrap_or_default(), application.name_any());
        let mut memories = self.0.lock();
        let mut is_noted = false;
        for memory in memories.iter_mut() {
            let others: &PodsOfOthers<'_> = &|each| pods.of_others(&namespace, &name, each);
            is_noted |= memory.recall(&uid, &mut seen, others, now);
        }
        // Other decisions wait for one that is to be noted, and for no other.
        let memories = is_noted.then_some(memories);
        let plan = lifecycle::next(application, &seen, now, policy);
        if let Some(mut memories) = memories {
            memories.iter_mut().for_each(|memory| memory.note(&uid, &plan.actions));
        }
        plan
    }

    /// Forgets the applications whose uids are not to be kept.
    pub fn retain(&self, is_kept: impl Fn(&str) -> bool) {
        self.0.lock().iter_mut().for_each(|memory| memory.retain(&is_kept));
    }
}
