//! Defines bugs that the exploration must find. Each bug is made on purpose: in the input of the decision core, in its
//! plan, or in what is remembered of it.

use crate::budget::listed;
use batch_schedulers::{Exchanges, Recalled};
use plan::{Action, Observed, Plan, PodPatch};
use std::sync::Arc;

listed! {
    pub enum Mutation {
        /// The exchanges of other applications are not looked at.
        OthersIgnored,
        /// Nominations count only once the watch has reported them.
        DecisionsForgotten,
        /// A placeholder that is being deleted counts as gone.
        TerminatingTakenForGone,
        /// No room is reserved for executors.
        NotNominated,
        /// An application that waits for another one is not looked at again.
        NoTimer,
        /// Placeholders whose executors are placed stay.
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
