//! Reads the objects under review.
//!
//! The user who sends an object that exceeds [`Bounds`] (or is nested deeper than `serde_json` allows) gets a refusal that
//! names the mistake, as for every other mistake. If the answer were not an AdmissionReview, the API server would report to
//! the user that the webhook failed. So such an object stays JSON text, which `serde_json` can skip whatever it contains.

use api::{
    Bounds, Excess,
    lenient::{Fields, without_managed_fields},
};
use serde_json::{Value, value::RawValue};

/// Both versions of an object under review, without `metadata.managedFields`. These are a tenth of an application and half
/// of a pod, and no decision depends on them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Objects {
    /// Null if the review has no new version, if that version is to be refused for its excess, or if the review is to
    /// be allowed without a check.
    pub new: Value,
    /// The stored version. Null if the review has none, or if a version exceeds its bounds.
    pub old: Value,
    /// The excess for which the new version is to be refused.
    pub excess: Option<Excess>,
}

impl Objects {
    /// Reads the new and the stored version, if the review has them. The error says why a version is not an object.
    pub(super) fn read(new: Option<&RawValue>, old: Option<&RawValue>) -> serde_json::Result<Self> {
        let without = |object: Option<&RawValue>| object.map(without_managed_fields).transpose();
        let (new, old) = (without(new)?, without(old)?);
        let (new, old) = (new.as_deref(), old.as_deref());
        let is_typed = |object: &RawValue| Bounds::TYPED.excess(object.get(), "").is_none();
        let whole = || value(new).and_then(|new| Ok(Self { new, old: value(old)?, excess: None }));
        if [new, old].into_iter().flatten().all(is_typed)
            && let Ok(objects) = whole()
        {
            return Ok(objects);
        }
        let excess = [new, old].map(|object| Bounds::OBJECT.excess(object?.get(), ""));
        let [fields_of_new, fields_of_old] = [new, old].map(fields);
        let spec = fields_of_new.get("spec").map(|spec| spec.get());
        let deletion = fields(fields_of_new.get("metadata").copied()).remove("deletionTimestamp");
        // As in `Checks::findings`: an object is allowed if it is being deleted or if its spec is unchanged. The texts of
        // specs are compared: the API server writes both in the same way.
        let is_kept = deletion.is_some_and(|value| value.get() != "null")
            || spec.is_some() && spec == fields_of_old.get("spec").map(|spec| spec.get());
        match excess {
            [None, None] => whole(),
            _ if is_kept => Ok(Self::default()),
            [Some(excess), _] => Ok(Self { excess: Some(excess), ..Self::default() }),
            // The stored object exceeds its bounds, and this update corrects that.
            [None, Some(_)] => Ok(Self { new: value(new)?, ..Self::default() }),
        }
    }
}

/// Returns the fields of an object; empty if it is not an object.
fn fields(object: Option<&RawValue>) -> Fields<'_> {
    object.and_then(|object| serde_json::from_str(object.get()).ok()).unwrap_or_default()
}

fn value(object: Option<&RawValue>) -> serde_json::Result<Value> {
    object.map_or(Ok(Value::Null), |object| serde_json::from_str(object.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(new: &str, old: &str) -> serde_json::Result<Objects> {
        Objects::read(serde_json::from_str(new)?, serde_json::from_str(old)?)
    }

    #[test]
    fn managed_fields_are_neither_counted_nor_read() {
        let managed = |entry: &str, inside: &str, after: &str| {
            let entries = vec![entry; 6_000].join(",");
            format!(r#"{{"metadata":{{"managedFields":{inside}[{entries}]{after},"name":"a"}}}}"#)
        };
        let deep = managed("{}", &"[".repeat(500), &"]".repeat(500));
        let objects = read(&deep, &managed("[\"]\"]", "", "")).unwrap();
        let expected = json!({"metadata": {"name": "a"}});
        assert_eq!(objects, Objects { new: expected.clone(), old: expected, excess: None });
    }

    #[test]
    fn the_last_value_of_a_repeated_field_counts() {
        let repeated = r#"{"metadata":{"name":"a"},"spec":1,"metadata":{"managedFields":0,"name":"b","managedFields":{},"name":"c"},"spec":2}"#;
        assert_eq!(read(repeated, "null").unwrap().new, json!({"metadata": {"name": "c"}, "spec": 2}));
    }

    #[test]
    fn a_version_that_is_not_an_object_is_an_error() {
        assert_eq!(read(r#"{"metadata":null}"#, "null").unwrap().new, json!({"metadata": null}));
        for text in ["7", "[]", "\"\"", r#"{"metadata":7}"#, r#"{"metadata":[]}"#, r#"{"a":"\ud800"}"#] {
            assert!(read(text, "null").is_err() && read("{}", text).is_err(), "{text}");
        }
    }
}
