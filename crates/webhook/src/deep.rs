//! Reads reviews with objects that are nested deeper than `serde_json` allows: only the parts that the decision needs,
//! and the path that is nested too deep.
//!
//! The user who sends such an object gets a refusal that names the mistake, as for every other mistake. If the answer
//! were not an AdmissionReview, the API server would report to the user that the webhook failed. In this module objects
//! stay JSON text, which `serde_json` skips at any depth.

use super::object::Object;
use plan::nesting::{self, DEEPEST};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};

/// The content of a review with an object that could not be read.
pub(super) struct Found<'t> {
    /// The new object, if it can be read. Null if `too_deep` is set, or if the review is to be allowed without a check.
    pub object: Object<'t>,
    /// The path in the new object that is nested too deep, if the object is to be refused for that.
    pub too_deep: Option<String>,
}

/// Returns the content of a review with these objects; none if neither object is nested too deep, which means that the
/// review could not be read for another reason.
pub(super) fn found<'t>(object: Option<&'t RawValue>, old: Option<&'t RawValue>) -> Option<Found<'t>> {
    let [new, old] = [object, old].map(|object| object.and_then(Outline::of));
    let paths = [&new, &old].map(|object| object.as_ref().and_then(Outline::too_deep));
    let is_kept = new.as_ref().is_some_and(|new| new.is_deleted() || new.has_spec_of(old.as_ref()));
    match paths {
        [None, None] => None,
        // As in `applications::decided`: an object is allowed if it is being deleted or if its spec is unchanged.
        _ if is_kept => Some(Found { object: Object::default(), too_deep: None }),
        [Some(path), _] => Some(Found { object: Object::default(), too_deep: Some(path) }),
        // The user corrects a stored object that is nested too deep.
        [None, Some(_)] => {
            let object = object.map(|object| serde_json::from_str(object.get())).transpose().ok()?;
            Some(Found { object: object.unwrap_or_default(), too_deep: None })
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

    /// Returns the path of the first value that is nested too deep. `managedFields` are skipped, because they are never
    /// read.
    fn too_deep(&self) -> Option<String> {
        let of_object = self.fields.iter().map(|(name, value)| (name.to_string(), value));
        let read = self.metadata.iter().filter(|(name, _)| *name != "managedFields");
        let of_metadata = read.map(|(name, value)| (format!("metadata.{name}"), value));
        let mut fields = of_object.chain(of_metadata);
        fields.find_map(|(path, value)| nesting::path_beyond(value.get(), &path, DEEPEST))
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
