//! Handles SUSPENDING and SUSPENDED: no pod of the application runs while `spec.suspend` is true.

use super::{
    EVENTUALLY, Pass, SOON,
    history::{Cause, Outcome},
    launch::reset,
};
use crate::{Action, Plan, events};
use api::{ApplicationState, State};

/// Whether an application in this state can be suspended. The state of an application that has ended stays as it is,
/// because nothing of it runs.
const fn can_be_suspended(state: State) -> bool {
    !matches!(state, State::Completed | State::Failed | State::Suspended | State::Suspending)
}

impl Pass<'_> {
    pub(super) fn is_to_be_suspended(&self, state: State) -> bool {
        self.application.spec.suspend == Some(true) && can_be_suspended(state)
    }

    pub(super) fn suspend(&self) -> Plan {
        let mut status = self.moved(State::Suspending, None);
        self.end_early(&mut status, Outcome::new(State::Suspended, "Suspended", None));
        self.plan(status, vec![events::application_suspending(self.name())], Some(SOON))
    }

    /// Moves the application to SUSPENDED only when none of its pods runs any more: a queue such as Kueue may then give
    /// the resources of this application to another application.
    pub(super) fn finish_suspending(&self) -> Plan {
        if let Some(actions) = self.clear() {
            return self.acting(actions);
        }
        let mut status = self.status.clone();
        reset(&mut status);
        status.application_state = ApplicationState { state: State::Suspended, error_message: None };
        let event = events::application_suspended(self.name());
        Plan { actions: self.clean_up(), ..self.plan(status, vec![event], Some(EVENTUALLY)) }
    }

    pub(super) fn stay_suspended(&self) -> Plan {
        if self.application.spec.suspend != Some(true) {
            let mut status = self.moved(State::Resuming, None);
            Self::announce(&mut status, Cause::Resumed);
            return self.plan(status, vec![events::application_resuming(self.name())], Some(SOON));
        }
        // A submission that was still running when the application was suspended may have created a driver since.
        let late = self.own_driver().and_then(Action::delete);
        Plan { actions: Vec::from_iter(late), ..self.stay(Some(EVENTUALLY)) }
    }
}
