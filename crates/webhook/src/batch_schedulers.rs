//! Checks that the batch scheduler that an application or a schedule names is one to which the operator hands
//! applications over (`--enable-batch-scheduler`).

use super::review::{Change, Decision};
use plan::gang::{BatchSchedulers, names_without_effect};

/// The batch schedulers that applications may name; none if applications are not handed over to any.
#[derive(Clone, Debug)]
pub struct NamedBatchSchedulers(pub Option<BatchSchedulers>);

impl NamedBatchSchedulers {
    /// Returns `decision`, or a refusal if the change names another batch scheduler than before and the operator does
    /// not know it. Adds a warning if the operator hands applications over to no batch scheduler at all.
    pub(super) fn decided(&self, decision: Decision, change: &Change, is_schedule: bool) -> Decision {
        let Decision::Allowed { mut warnings } = decision else { return decision };
        let root = if is_schedule { "spec.template" } else { "spec" };
        let fields = |object: &pod_customization::borrowed_json::BorrowedJson| {
            let spec = if is_schedule { &object["spec"]["template"] } else { &object["spec"] };
            let name = spec["batchScheduler"].as_str().unwrap_or_default().to_owned();
            (name, !spec["batchSchedulerOptions"].is_null())
        };
        let (name, has_options) = fields(change.object);
        let is_kept = !change.old.is_null() && fields(change.old) == (name.clone(), has_options);
        if is_kept || !change.object["metadata"]["deletionTimestamp"].is_null() {
            return Decision::Allowed { warnings };
        }
        let Some(schedulers) = &self.0 else {
            warnings.extend(names_without_effect(root, &name, has_options));
            return Decision::Allowed { warnings };
        };
        match schedulers.known(&name) {
            Ok(()) => Decision::Allowed { warnings },
            Err(why) => {
                let field = format!("{root}.batchScheduler");
                Decision::Refused { message: format!("{field}: {why}"), subjects: vec![field], warnings }
            }
        }
    }
}
