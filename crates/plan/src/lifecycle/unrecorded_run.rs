//! Records the forerunner: a run that was submitted but not recorded in the status, because the spec was edited or the
//! application was suspended first.
//!
//! The forerunner is recorded before its driver is deleted, so that no other run gets its ordinal. If the edit is
//! reverted or the application is resumed, a run with the same ordinal would also have the forerunner's submission id,
//! and the operator would take facts about the forerunner's driver for facts about the driver of that run.

use super::{Cause, Pass, SOON, history, questions};
use crate::{Action, Plan};
use api::{Role, RunRecord, SparkApplicationStatus, State};
use submission::{run::Run, submission_pod};

impl Pass<'_> {
    /// Returns the plan that records the forerunner, in whose place `next` will run; `None` if there is no forerunner.
    pub(super) fn forerunner_recorded(&self, next: &Run) -> Option<Plan> {
        let id = self.unrecorded_run().filter(|id| next.id.as_str() != *id)?;
        let mut status = self.status.clone();
        self.record(&mut status, id, history::outcome(State::Invalidating, "SpecEdited", None));
        Self::announce(&mut status, Cause::SpecEdited);
        // The ConfigMap of the forerunner's submission pod is deleted now: if somebody else has deleted that pod, the
        // ConfigMap could not be found later. The name of the ConfigMap contains the forerunner's ordinal, which `next`
        // still has, too.
        let mut left = vec![submission_pod::config_map(&submission_pod::name(self.application, next))];
        left.extend(self.of_extensions(id, None));
        let actions = vec![Action::DeleteChildren(left)];
        Some(Plan { actions, ..self.plan(status, Vec::new(), Some(SOON)) })
    }

    /// Records the outcome of the present run. If the next run was submitted but not recorded, records that run with
    /// the same outcome.
    pub(super) fn end_early(&self, status: &mut SparkApplicationStatus, outcome: RunRecord) {
        if status.submission_id.is_some() {
            Self::ended(status, outcome.clone(), self.now);
        }
        if questions(self.application).launch
            && let Some(id) = self.unrecorded_run()
        {
            self.record(status, id, outcome);
        }
    }

    /// Returns the submission id of a run that is not recorded and that has a driver, or a submission that may have
    /// created a driver.
    fn unrecorded_run(&self) -> Option<&str> {
        let submitted = self.seen.submission.as_ref().map(|submission| submission.id.as_str());
        let strays = self.strays(None).into_iter().filter(|pod| pod.role == Some(Role::Driver));
        let submissions = self.seen.submission_pods.iter().filter(|pod| pod.is_controlled_by(self.uid()));
        let drivers = self.driver().into_iter().chain(strays).chain(submissions);
        let mut ids = drivers.filter_map(|pod| pod.submission_id.as_deref()).chain(submitted);
        ids.find(|id| !self.has_recorded(id))
    }

    fn record(&self, status: &mut SparkApplicationStatus, id: &str, outcome: RunRecord) {
        let ordinal = status.run_ordinal.unwrap_or_default() + 1;
        if history::run(status, ordinal).is_none() {
            Self::announce(status, self.cause());
        }
        status.run_ordinal = Some(ordinal);
        status.submission_id = Some(id.to_owned());
        Self::ended(status, outcome, self.now);
    }
}
