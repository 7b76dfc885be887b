//! Lets the executors of several applications take the room of their placeholders in turn: see `plan::lifecycle`.

use super::pods::PodIndex;
use api::SparkApplication;
use kube::ResourceExt;
use parking_lot::Mutex;
use plan::{Observed, Plan, lifecycle::Nominations, pod_summary::PodSummary};
use std::collections::{HashMap, HashSet};

/// The exchanges that have begun and that no cache shows yet, by the uids of applications.
#[derive(Default)]
pub(super) struct ExchangeTurns(Mutex<HashMap<String, Nominations>>);

impl ExchangeTurns {
    /// Decides about an application, with the exchanges of all others in view. If it has executors to exchange, nothing is
    /// decided about the exchanges of others at the same time.
    pub fn decide(
        &self,
        pods: &PodIndex,
        application: &SparkApplication,
        uid: &str,
        seen: &mut Observed,
        decide: impl FnOnce(&Observed) -> Plan,
    ) -> Plan {
        let mut decided = self.0.lock();
        if !seen.executors.iter().any(PodSummary::is_gated) {
            decided.remove(uid);
            drop(decided);
            return decide(seen);
        }
        let namespace = application.namespace().unwrap_or_default();
        seen.elsewhere = pods.exchanges_of_others(&namespace, &application.name_any());
        for (_, nominations) in decided.iter().filter(|(of, _)| *of != uid) {
            seen.elsewhere.add_begun(nominations);
        }
        let nominations = decided.entry(uid.to_owned()).or_default();
        nominations.forget_reported(&seen.executors);
        seen.nominations.clone_from(nominations);
        let plan = decide(seen);
        nominations.add(&plan.actions);
        plan
    }

    /// Forgets an application that is gone, or about to be.
    pub fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// Forgets all applications that are not `listed`.
    pub fn forget_others(&self, listed: &HashSet<String>) {
        self.0.lock().retain(|uid, _| listed.contains(uid));
    }
}
