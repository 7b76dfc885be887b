//! Checks that the batch scheduler that an application or a schedule names is one to which the operator hands
//! applications over (`--enable-batch-scheduler`).

use super::decision::{Change, Decision};
use plan::gang::{BatchSchedulers, names_without_effect};
use serde_json::Value;

/// The batch schedulers that applications may name; none if applications are not handed over to any.
#[derive(Clone, Debug)]
pub struct NamedBatchSchedulers(pub Option<BatchSchedulers>);

impl NamedBatchSchedulers {
    /// Returns `decision`, or a refusal if the change names another batch scheduler than before, or other options, and
    /// the operator does not know the scheduler or cannot hand the options on. Adds a warning if the operator hands applications over to no batch scheduler at all.
    pub(super) fn decided(&self, decision: Decision, change: &Change, is_schedule: bool) -> Decision {
        let Decision::Allowed { mut warnings } = decision else { return decision };
        let root = if is_schedule { "spec.template" } else { "spec" };
        let fields = |object: &pod_customization::borrowed_json::BorrowedJson| {
            let spec = if is_schedule { &object["spec"]["template"] } else { &object["spec"] };
            let name = spec["batchScheduler"].as_str().unwrap_or_default().to_owned();
            (name, Value::from(&spec["batchSchedulerOptions"]))
        };
        let (name, options) = fields(change.object);
        let is_kept = !change.old.is_null() && fields(change.old) == (name.clone(), options.clone());
        if is_kept || !change.object["metadata"]["deletionTimestamp"].is_null() {
            return Decision::Allowed { warnings };
        }
        let Some(schedulers) = &self.0 else {
            warnings.extend(names_without_effect(root, &name, !options.is_null()));
            return Decision::Allowed { warnings };
        };
        // The API server has checked the types of the options by the schema.
        let options = serde_json::from_value(options).unwrap_or_default();
        let found = schedulers.check(root, &name, &options);
        warnings.extend(found.warnings);
        Decision::of(found.invalid, warnings)
    }
}
