//! Decides about applications with gated executors one at a time: see `plan::gang`.

use super::pods::PodIndex;
use api::SparkApplication;
use jiff::Timestamp;
use kube::ResourceExt;
use parking_lot::Mutex;
use plan::{
    Observed, Plan,
    gang::{ExchangeMemory, is_gated},
};
use std::collections::HashSet;

/// The memory of exchanges. The lock is held while an application with gated executors is decided about.
#[derive(Default)]
pub(super) struct ExchangeTurns(Mutex<ExchangeMemory>);

impl ExchangeTurns {
    /// Decides about an application by `decide`. If the application has gated executors, `seen` gets the exchanges of all
    /// others, and nothing is decided about those at the same time.
    pub fn decide(
        &self,
        pods: &PodIndex,
        application: &SparkApplication,
        seen: &mut Observed,
        now: Timestamp,
        decide: impl FnOnce(&Observed) -> Plan,
    ) -> Plan {
        let uid = application.uid().unwrap_or_default();
        if !seen.executors.iter().any(is_gated) {
            self.forget(&uid);
            return decide(seen);
        }
        let mut memory = self.0.lock();
        let namespace = application.namespace().unwrap_or_default();
        let others = pods.blockers_of_others(&namespace, &application.name_any());
        memory.decide(&uid, seen, others, now, decide)
    }

    /// Forgets an application that has no gated executors, is gone, or is about to be.
    pub fn forget(&self, uid: &str) {
        self.0.lock().forget(uid);
    }

    /// Forgets all applications that are not `listed`.
    pub fn forget_others(&self, listed: &HashSet<String>) {
        self.0.lock().waits.retain(|uid, _| listed.contains(uid));
    }
}
