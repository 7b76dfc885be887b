//! What is decided about an object under review, and from what.

use api::Excess;
use json_patch::Patch;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{any::Any, sync::OnceLock, time::Duration};
use validation::{Invalid, Precision, Refusal};

/// The decision about an object.
pub(super) enum Decision {
    /// The object is admitted unchanged; the warnings are shown to the user who has sent it.
    Allowed { warnings: Vec<String> },
    /// The object is admitted with this patch, which may be empty.
    Changed(Patch),
    /// The object breaks rules.
    Refused {
        /// The fields or annotations that are wrong, without their values: for the log.
        subjects: Vec<String>,
        /// All mistakes, for the user.
        message: String,
        warnings: Vec<String>,
    },
    /// The object cannot be read as the kind that it claims to be.
    Unreadable(String),
}

impl Decision {
    /// The object is admitted unchanged and without warnings.
    pub(super) const ALLOWED: Self = Self::Allowed { warnings: Vec::new() };

    /// The object is refused if there are mistakes, else admitted unchanged.
    pub(super) fn of(invalid: Vec<Invalid>, warnings: Vec<String>) -> Self {
        if invalid.is_empty() {
            return Self::Allowed { warnings };
        }
        let subjects = invalid.iter().map(|invalid| invalid.field.clone()).collect();
        Self::Refused { subjects, message: Refusal(invalid).to_string(), warnings }
    }

    /// The object is refused unread.
    pub(super) fn unread(excess: &Excess) -> Self {
        Self::Refused {
            // Its path may be any text, and subjects become labels of metrics.
            subjects: vec!["bounds".to_owned()],
            message: excess.to_string(),
            warnings: Vec::new(),
        }
    }
}

/// The change under review: the new version of the object, and the stored version or null.
pub(super) struct Change<'a> {
    pub object: &'a Value,
    pub old: &'a Value,
    /// The namespace of the request, which is the object's even if its metadata names none.
    pub namespace: &'a str,
    /// The precision of the times in the names of a schedule's runs.
    pub precision: Precision,
    /// The shortest period of a schedule.
    pub shortest_period: Duration,
    /// The [`Versions`], once somebody has asked for them.
    pub versions: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Both versions of an object as what it claims to be.
pub(super) struct Versions<K> {
    /// The new version, or why it cannot be read.
    pub new: Result<K, String>,
    /// The stored version. One that cannot be read counts as none.
    pub old: Option<K>,
}

impl Change<'_> {
    /// Returns both versions, which are read once. If the metadata of the new one names no namespace, it gets that of the
    /// request.
    pub(super) fn versions<K: DeserializeOwned + Send + Sync + 'static>(&self) -> &Versions<K> {
        let read = || -> Box<dyn Any + Send + Sync> {
            let mut placed = self.object.clone();
            if let Some(metadata) = placed["metadata"].as_object_mut() {
                metadata.entry("namespace").or_insert_with(|| self.namespace.into());
            }
            let new = serde_json::from_value(placed).map_err(|error| error.to_string());
            Box::new(Versions { new, old: K::deserialize(self.old).ok() })
        };
        self.versions.get_or_init(read).downcast_ref().expect("a review is about one kind")
    }

    /// Returns the stored version and the new one; none if the new one cannot be read. Such an object is allowed only because
    /// its spec has not changed or because it is being deleted, so it needs no further checks.
    pub(super) fn readable<K: DeserializeOwned + Send + Sync + 'static>(&self) -> Option<(Option<&K>, &K)> {
        let Versions { new, old } = self.versions::<K>();
        Some((old.as_ref(), new.as_ref().ok()?))
    }
}
