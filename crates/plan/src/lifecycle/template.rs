//! Writes the template of a run's executors anew after an edit that leaves the run alone: see
//! [`submission::executor_template`]. The driver has the fingerprint of its template as an annotation, by which the next pass
//! sees whether the template is that of the present spec.

use super::{Pass, is_followed_on};
use crate::{Action, Plan, events};
use api::{Role, names::annotation};
use submission::{
    executor_template::ExecutorTemplate,
    run::Run,
    spec_hash::{has_partial_run, partial_hash},
};
use validation::validate;

impl Pass<'_> {
    /// Adds the action that brings the template of the executors up to date, if the driver has one that can be written anew.
    /// Records that edits of it leave the run alone: this is known only once the driver is seen. A spec with mistakes
    /// leaves the template as it is.
    pub(super) fn renew_template(&self, plan: &mut Plan) {
        let recorded = self.status.submission_id.as_deref().unwrap_or_default();
        let driver = self.own_driver().filter(|pod| pod.is_of(Role::Driver, recorded) && !pod.terminating);
        let Some(driver) = driver.filter(|_| is_followed_on(plan)) else { return };
        let Some(known) = driver.mark(annotation::TEMPLATE) else { return };
        if !has_partial_run(self.application) {
            plan.status.spec_hash = Some(partial_hash(&self.application.spec));
        }
        let application = self.policy.with_default_account(self.application);
        let Some(run) = Run::recorded(self.application) else { return };
        let Ok(application) = validate(&application) else { return };
        let Ok(template) = ExecutorTemplate::of(application, &run, &self.policy.submission) else { return };
        if template.fingerprint() != known {
            plan.events.push(events::template_renewed(self.name()));
            let (driver, uid) = (driver.name.clone(), driver.uid.clone());
            plan.actions.push(Action::RenewTemplate { template, driver, uid });
        }
    }
}
