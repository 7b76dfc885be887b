//! Defines seeded bugs, which the exploration must find. Each changes the input of the decision core, its plan, or what
//! the operator remembers of the plan.

use crate::budget::listed;
use batch_schedulers::{Exchanges, Recalled};
use plan::{Action, Observed, Plan, PodPatch};
use std::sync::Arc;

listed! {
    pub enum Mutation {
        /// The exchanges of other applications are ignored.
        OthersIgnored,
        /// The operator's own nominations count only after the watch has reported them.
        DecisionsForgotten,
        /// A placeholder that is being deleted counts as deleted.
        TerminatingTakenForGone,
        /// Executors are not nominated for nodes, so no capacity is reserved for them.
        NotNominated,
        /// No timer is set for an application that waits for another one.
        NoTimer,
        /// Placeholders are not deleted in a plan that nominates no executor.
        PlaceholdersLeft,
    }
}

impl Mutation {
    /// Applies the bug to the input of the decision core.
    pub fn of_question(self, seen: &mut Observed) {
        match self {
            Self::OthersIgnored => {
                let recalled = seen.recalled::<Recalled>().cloned().unwrap_or_default();
                let of_others = Exchanges::default();
                seen.recalled = vec![Arc::new(Recalled { of_others, ..recalled })];
            }
            Self::TerminatingTakenForGone => seen.others.retain(|pod| !pod.terminating),
            _ => {}
        }
    }

    /// Applies the bug to the plan of the decision core.
    pub fn of_plan(self, plan: &mut Plan) {
        match self {
            Self::NotNominated => plan.actions.retain(|action| !nominates(action)),
            Self::NoTimer => plan.wake = None,
            Self::PlaceholdersLeft => {
                let begins = plan.actions.iter().any(nominates);
                plan.actions.retain(|action| begins || !matches!(action, Action::DeletePod { .. }));
            }
            _ => {}
        }
    }
}

const fn nominates(action: &Action) -> bool {
    matches!(action, Action::PatchPod { patch: PodPatch::Status(_), .. })
}
