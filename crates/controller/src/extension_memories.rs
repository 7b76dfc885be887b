//! Decides about applications with what extensions remember of them.

use super::Context;
use api::SparkApplication;
use jiff::Timestamp;
use kube::ResourceExt;
use plan::{Observed, Plan, extension::PodsOfOthers, lifecycle};

impl Context {
    /// Decides about an application: see [`lifecycle::next`]. The memories are locked while an application is decided about of
    /// which one of them has to note the decision.
    pub(super) fn decide(&self, application: &SparkApplication, mut seen: Observed, now: Timestamp) -> Plan {
        let uid = application.uid().unwrap_or_default();
        let (namespace, name) = (application.namespace().unwrap_or_default(), application.name_any());
        let mut memories = self.extension_memories.lock();
        let mut is_noted = false;
        for memory in memories.iter_mut() {
            let others: &PodsOfOthers<'_> =
                &|each| self.source.cluster.pods.of_others(&namespace, &name, each);
            is_noted |= memory.recall(&uid, &mut seen, others, now);
        }
        // Other decisions wait for one that is to be noted, and for no other.
        let memories = is_noted.then_some(memories);
        let plan = lifecycle::next(application, &seen, now, &self.setup.policy);
        if let Some(mut memories) = memories {
            memories.iter_mut().for_each(|memory| memory.note(&uid, &plan.actions));
        }
        plan
    }

    /// Has extensions forget the applications whose uids are not to be kept.
    pub(super) fn retain_memories(&self, is_kept: impl Fn(&str) -> bool) {
        self.extension_memories.lock().iter_mut().for_each(|memory| memory.retain(&is_kept));
    }
}
