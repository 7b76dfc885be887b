//! Decides whether the spec was edited after the recorded run was created from it.
//!
//! The spec was edited if both `metadata.generation` and the hash differ from the recorded ones. If the status contains
//! no hash, or a hash of another version, the spec counts as not edited, and its generation and hash are recorded now.
//! So neither a new version of the operator nor a switch from Kubeflow's operator to this one causes any application to
//! run again.
//!
//! After an edit that leaves the run alone, the pod template of the run's executors is replaced: see
//! [`submission::executor_template`]. The driver has the fingerprint of its template as an annotation, by which the
//! next pass sees whether the template is that of the present spec.

use crate::{Action, Plan, events};
use api::{Role, SparkApplication, SparkApplicationStatus, State, annotation, label};
use kube_core::ResourceExt;
use submission::{
    executor_template::ExecutorTemplate,
    run::Run,
    spec_hash::{has_partial_run, hash_of, is_hash_of, partial_hash},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// The spec has not changed since the recorded run, or no run is recorded.
    None,
    /// There is no record to compare with, or the edit does not require another run. Only generation and hash are
    /// recorded.
    Immaterial,
    /// The edit requires another run.
    Material,
}

pub(super) fn of(application: &SparkApplication) -> Edit {
    let Some(status) = application.status.as_ref().filter(|status| status.submission_id.is_some()) else {
        return Edit::None;
    };
    let generation = application.metadata.generation;
    match (status.observed_generation, &status.spec_hash) {
        (Some(recorded), Some(_)) if Some(recorded) == generation => Edit::None,
        _ if is_taken_back(application) => Edit::Immaterial,
        (Some(_), Some(recorded)) if is_hash_of(recorded, &application.spec) == Some(false) => Edit::Material,
        _ => Edit::Immaterial,
    }
}

/// Whether Kueue suspends the present run to take its quota back. In the same update, Kueue removes from the spec what
/// it added when it admitted the application: a run that has succeeded already must not be repeated for that. A user's
/// edit keeps the labels among it.
fn is_taken_back(application: &SparkApplication) -> bool {
    let state = application.state();
    application.spec.suspend == Some(true)
        && application.labels().contains_key(label::QUEUE_NAME)
        && !application.spec.driver.pod.labels.contains_key(label::POD_SET)
        && (state.is_followed() || state == State::Succeeding)
}

/// Records generation and hash of the present spec. After an edit that requires another run, attempts are counted from
/// zero again.
pub(super) fn take_note(application: &SparkApplication, edit: Edit, status: &mut SparkApplicationStatus) {
    if edit == Edit::None {
        return;
    }
    status.observed_generation = application.metadata.generation;
    // The run keeps its kind of hash: with a partial hash, edits of its executors' template leave it alone.
    let goes_on = edit == Edit::Immaterial && has_partial_run(application);
    status.spec_hash = Some(if goes_on { partial_hash(&application.spec) } else { hash_of(application) });
    if edit == Edit::Material {
        status.execution_attempts = 0;
        status.submission_attempts = 0;
        status.last_submission_attempt_time = None;
    }
}

impl super::Pass<'_> {
    /// Adds the action that brings the pod template of the executors up to date, if the driver has one that can be
    /// replaced. Records with a partial hash that edits of the template leave the run alone: this is known only once
    /// the driver is observed. An invalid spec leaves the template as it is.
    pub(super) fn renew_template(&self, plan: &mut Plan) {
        let recorded = self.status.submission_id.as_deref().unwrap_or_default();
        let driver = self.driver().filter(|pod| pod.is_of(Role::Driver, recorded) && !pod.terminating);
        let is_followed = plan.status.application_state.state.is_followed();
        let Some(driver) = driver.filter(|_| is_followed) else { return };
        let Some(known) = driver.mark(annotation::TEMPLATE) else { return };
        if !has_partial_run(self.application) {
            plan.status.spec_hash = Some(partial_hash(&self.application.spec));
        }
        let application = self.policy.with_default_account(self.application);
        let Some(run) = Run::recorded(self.application) else { return };
        let Ok(application) = validation::validate(&application) else { return };
        let Ok(template) = ExecutorTemplate::of(&application, &run, &self.policy.submission) else { return };
        if template.fingerprint() != known {
            plan.events.push(events::template_renewed(self.name()));
            let (driver, uid) = (driver.name.clone(), driver.uid.clone());
            plan.actions.push(Action::RenewTemplate { template, driver, uid });
        }
    }
}
