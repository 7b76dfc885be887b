//! Checks the fields of a spec that only extensions read.

use super::decision::{Change, Decision};
use plan::extension::Extensions;
use serde_json::Value;

/// Returns `decision` with the warnings of all extensions about the fields that the change sets anew, or a refusal if an
/// extension finds mistakes in them.
pub(super) fn decided(
    extensions: &Extensions,
    decision: Decision,
    change: &Change,
    is_schedule: bool,
) -> Decision {
    let Decision::Allowed { mut warnings } = decision else { return decision };
    let root = if is_schedule { "spec.template" } else { "spec" };
    let is_going = !change.object["metadata"]["deletionTimestamp"].is_null();
    let mut invalid = Vec::new();
    for extension in extensions.iter().filter(|_| !is_going) {
        let fields = |object: &Value| {
            let spec = if is_schedule { &object["spec"]["template"] } else { &object["spec"] };
            // An empty text counts as none.
            let given = |field: &str| Some(spec[field].clone()).filter(|value| value != "");
            Value::from_iter(
                extension.fields().iter().map(|field| (*field, given(field).unwrap_or_default())),
            )
        };
        let asked = fields(change.object);
        if change.old.is_null() || fields(change.old) != asked {
            let found = extension.check(root, &asked);
            warnings.extend(found.warnings);
            invalid.extend(found.invalid);
        }
    }
    Decision::of(invalid, warnings)
}
