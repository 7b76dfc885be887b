//! Finds out why a review cannot be read whose objects are nested deeper than `serde_json` reads, and answers it as far as it
//! can be read.
//!
//! Whoever sends such an object is told so by the review, as of every other mistake; with a reply that is no review, the API
//! server reports a webhook that failed. Objects stay text here, which `serde_json` skips at any depth.

use super::object::Object;
use crate::plan::nesting::{self, DEEPEST};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};

/// What a review is about of which an object could not be read.
pub(super) struct Found<'t> {
    /// Null where nothing is to be decided.
    pub object: Object<'t>,
    /// What is nested too deep in it, if it could not be read.
    pub too_deep: Option<String>,
}

/// None where the objects of a review are not nested too deep, so that it could not be read for another reason.
pub(super) fn found<'t>(object: Option<&'t RawValue>, old: Option<&'t RawValue>) -> Option<Found<'t>> {
    let [new, old] = [object, old].map(|object| object.and_then(Outline::of));
    let paths = [&new, &old].map(|object| object.as_ref().and_then(Outline::too_deep));
    let is_kept = new.as_ref().is_some_and(|new| new.is_deleted() || new.has_spec_of(old.as_ref()));
    match paths {
        [None, None] => None,
        // As for every other object that is stored already: see `applications`.
        _ if is_kept => Some(Found { object: Object::default(), too_deep: None }),
        [Some(path), _] => Some(Found { object: Object::default(), too_deep: Some(path) }),
        // Somebody corrects it.
        [None, Some(_)] => {
            let object = object.map(|object| serde_json::from_str(object.get())).transpose().ok()?;
            Some(Found { object: object.unwrap_or_default(), too_deep: None })
        }
    }
}

/// The fields of an object, and those of its metadata, as text.
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

    /// The path of what is nested too deep, but for `managedFields`, which are never read.
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

    /// The API server writes both alike.
    fn has_spec_of(&self, old: Option<&Self>) -> bool {
        let spec = |outline: &Self| outline.fields.get("spec").map(|spec| spec.get());
        old.is_some_and(|old| spec(old).is_some() && spec(old) == spec(self))
    }
}
