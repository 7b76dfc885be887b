//! Reads reviews with objects that exceed [`Bounds`] (or are nested deeper than `serde_json` allows): only the parts that
//! the decision needs, and the path at which a bound is exceeded.
//!
//! The user who sends such an object gets a refusal that names the mistake, as for every other mistake. If the answer
//! were not an AdmissionReview, the API server would report to the user that the webhook failed. In this module objects
//! stay JSON text, which `serde_json` can skip whatever it contains.

use super::object::Object;
use api::{Bounds, Excess};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};

/// The fields of an object, as JSON text.
type Fields<'t> = BTreeMap<Cow<'t, str>, &'t RawValue>;

/// Returns the new object, and the excess for which it is to be refused, if there is one; `None` if both the new and the old
/// object are within their bounds. The new object is null if it is to be refused, or if the review is to be allowed without
/// a check.
pub(super) fn found(object: Option<&RawValue>, old: Option<&RawValue>) -> Option<(Object, Option<Excess>)> {
    let excess = [object, old].map(|object| Bounds::OBJECT.excess(object?.get(), ""));
    let [new, old] = [object, old].map(fields);
    let spec = new.get("spec").map(|spec| spec.get());
    let deletion = fields(new.get("metadata").copied()).remove("deletionTimestamp");
    // As in `Checks::findings`: an object is allowed if it is being deleted or if its spec is unchanged. The texts of
    // specs are compared: the API server writes both in the same way.
    let is_kept = deletion.is_some_and(|value| value.get() != "null")
        || spec.is_some() && spec == old.get("spec").map(|spec| spec.get());
    match excess {
        [None, None] => None,
        _ if is_kept => Some((Object::default(), None)),
        [Some(excess), _] => Some((Object::default(), Some(excess))),
        // The stored object exceeds its bounds, and this update corrects that.
        [None, Some(_)] => {
            let object = object.map(|object| serde_json::from_str(object.get())).transpose().ok()?;
            Some((object.unwrap_or_default(), None))
        }
    }
}

/// Returns the fields of an object; empty if it is not an object.
fn fields(object: Option<&RawValue>) -> Fields<'_> {
    object.and_then(|object| serde_json::from_str(object.get()).ok()).unwrap_or_default()
}
