//! Reads reviews with objects that are beyond the bounds of what is read (or nested deeper than `serde_json` allows):
//! only the parts that the decision needs, and the path that is too much.
//!
//! The user who sends such an object gets a refusal that names the mistake, as for every other mistake. If the answer
//! were not an AdmissionReview, the API server would report to the user that the webhook failed. In this module objects
//! stay JSON text, which `serde_json` skips whatever it has.

use super::object::Object;
use api::{Bounds, Excess};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};

/// The content of a review with an object that could not be read.
pub(super) struct Found {
    /// The new object, if it is read. Null if `excess` is set, or if the review is to be allowed without a check.
    pub object: Object,
    /// What in the new object is beyond its bounds, if the object is to be refused for that.
    pub excess: Option<Excess>,
}

/// Returns the content of a review with these objects; none if both are within their bounds.
pub(super) fn found(object: Option<&RawValue>, old: Option<&RawValue>) -> Option<Found> {
    let excess = [object, old].map(|object| Bounds::OBJECT.excess(object?.get(), ""));
    let [new, old] = [object, old].map(|object| object.and_then(Outline::of));
    let is_kept = new.as_ref().is_some_and(|new| new.is_deleted() || new.has_spec_of(old.as_ref()));
    match excess {
        [None, None] => None,
        // As in `applications::decided`: an object is allowed if it is being deleted or if its spec is unchanged.
        _ if is_kept => Some(Found { object: Object::default(), excess: None }),
        [Some(excess), _] => Some(Found { object: Object::default(), excess: Some(excess) }),
        // The user corrects a stored object.
        [None, Some(_)] => {
            let object = object.map(|object| serde_json::from_str(object.get())).transpose().ok()?;
            Some(Found { object: object.unwrap_or_default(), excess: None })
        }
    }
}

/// The fields of an object except `metadata`, and the fields of its metadata, as JSON text.
struct Outline<'t> {
    fields: Fields<'t>,
    metadata: Fields<'t>,
}

type Fields<'t> = BTreeMap<Cow<'t, str>, &'t RawValue>;

impl<'t> Outline<'t> {
    fn of(object: &'t RawValue) -> Option<Self> {
        let mut fields: Fields = serde_json::from_str(object.get()).ok()?;
        let metadata = fields.remove("metadata");
        let metadata = metadata.and_then(|metadata| serde_json::from_str(metadata.get()).ok());
        Some(Self { fields, metadata: metadata.unwrap_or_default() })
    }

    fn is_deleted(&self) -> bool {
        self.metadata.get("deletionTimestamp").is_some_and(|value| value.get() != "null")
    }

    /// Whether both objects have the same spec. The texts are compared: the API server writes both in the same way.
    fn has_spec_of(&self, old: Option<&Self>) -> bool {
        let spec = |outline: &Self| outline.fields.get("spec").map(|spec| spec.get());
        old.is_some_and(|old| spec(old).is_some() && spec(old) == spec(self))
    }
}
