//! Records a run that was submitted and never recorded, because its spec was edited or the application was suspended
//! before.
//!
//! The run is recorded before its driver is deleted: no other run may have its number, and so, once the edit is taken
//! back or the application is resumed, its id. Otherwise what is still known of its driver would be taken for the
//! driver of the later run.

use super::{
    Pass, SOON,
    history::{self, Cause, Outcome},
    questions,
};
use crate::{Action, Plan, run::Run, submission_pod};
use api::{Role, SparkApplicationStatus, State};

impl Pass<'_> {
    /// Records a run that another one, `next`, takes the place of, if there is one.
    pub(super) fn forerunner_recorded(&self, next: &Run) -> Option<Plan> {
        let id = self.forerunner().filter(|id| next.id.as_str() != *id)?;
        let mut status = self.status.clone();
        let outcome = Outcome::new(State::Invalidating, "SpecEdited", None);
        self.record(&mut status, id, outcome);
        Self::announce(&mut status, Cause::SpecEdited);
        // Nothing may be left by which they could be found later: somebody may have deleted the submission pod. They are called by the
        // run's ordinal, which was to be that of `next`.
        let files = submission_pod::config_map(&submission_pod::name(self.application, next));
        Some(Plan {
            actions: vec![Action::DeleteChildren(vec![files])],
            ..self.plan(status, Vec::new(), Some(SOON))
        })
    }

    /// Writes down how the present run has ended, and the one that was about to be.
    pub(super) fn end_early(&self, status: &mut SparkApplicationStatus, outcome: Outcome) {
        if status.submission_id.is_some() {
            Self::ended(status, outcome.clone(), self.now);
        }
        if questions(self.application).launch
            && let Some(id) = self.forerunner()
        {
            self.record(status, id, outcome);
        }
    }

    /// The id of a run that has a driver, or a submission that may have made one, and is not written down.
    fn forerunner(&self) -> Option<&str> {
        let submitted = self.seen.submission.as_ref().map(|submission| submission.id.as_str());
        let strays = self.strays(None).into_iter().filter(|pod| pod.role == Some(Role::Driver));
        let submissions = self.seen.submission_pods.iter().filter(|pod| pod.is_controlled_by(self.uid()));
        let drivers = self.own_driver().into_iter().chain(strays).chain(submissions);
        drivers
            .filter_map(|pod| pod.submission_id.as_deref())
            .chain(submitted)
            .find(|id| !self.has_recorded(id))
    }

    fn record(&self, status: &mut SparkApplicationStatus, id: &str, outcome: Outcome) {
        let ordinal = status.run_ordinal.unwrap_or_default() + 1;
        if history::run(status, ordinal).is_none() {
            Self::announce(status, self.cause());
        }
        status.run_ordinal = Some(ordinal);
        status.submission_id = Some(id.to_owned());
        Self::ended(status, outcome, self.now);
    }
}
