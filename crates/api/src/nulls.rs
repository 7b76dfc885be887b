//! Reads specs and statuses so that an explicit `null` counts as an absent field, as in Go and in the Kubernetes API.
//! Errors name the path of the value that cannot be read.

use serde_json::Value;

/// Removes object members that are `null` from `document`, at any depth. `null` elements of lists are kept, because
/// removing an element would change the positions of the others.
pub(super) fn remove_nulls(document: &mut Value) {
    if let Value::Object(members) = document {
        members.retain(|_, value| !value.is_null());
        members.values_mut().for_each(remove_nulls);
    } else if let Value::Array(elements) = document {
        elements.iter_mut().for_each(remove_nulls);
    }
}

/// Returns `document` without object members that are `null`, at any depth.
pub fn without_nulls(mut document: Value) -> Value {
    remove_nulls(&mut document);
    document
}

/// Returns the text of `error`, preceded by the path of the value: `root` is the member of the object that was parsed,
/// `path` is the path below that member.
pub(super) fn located(root: &str, path: &serde_path_to_error::Path, error: &serde_json::Error) -> String {
    let (path, error) = (path.to_string(), error.to_string());
    // The error of a spec inside another spec already begins with a path.
    match (path.as_str(), error.strip_prefix("spec")) {
        (".", _) => format!("{root}: {error}"),
        (path, Some(inside)) if inside.starts_with(['.', ':']) => format!("{root}.{path}{inside}"),
        (path, _) => format!("{root}.{path}: {error}"),
    }
}

/// Implements `Deserialize` and `Serialize` for types that are derived with `#[serde(remote = "Self")]`, so that `null`
/// counts as absent in all their fields and at any depth. Each type is listed with the name of the object's member that
/// has this type. Nulls are removed once from the complete document instead of once per field, so that no field can be
/// forgotten.
macro_rules! reads_null_as_absent {
    ($($root:literal: $kind:ty),+) => {$(
        impl<'de> ::serde::Deserialize<'de> for $kind {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut document = ::serde_json::Value::deserialize(deserializer)?;
                $crate::nulls::remove_nulls(&mut document);
                // `remote = "Self"` makes the derived function an inherent one: this is not a recursion.
                <$kind>::deserialize(&document).map_err(|error| {
                    // The path is tracked in a second read, after an error only, so that a successful read does not pay
                    // for the tracking.
                    let mut track = ::serde_path_to_error::Track::new();
                    let tracked = ::serde_path_to_error::Deserializer::new(&document, &mut track);
                    let again = <$kind>::deserialize(tracked).err().unwrap_or(error);
                    ::serde::de::Error::custom($crate::nulls::located($root, &track.path(), &again))
                })
            }
        }

        impl ::serde::Serialize for $kind {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$kind>::serialize(self, serializer)
            }
        }
    )+};
}
pub(super) use reads_null_as_absent;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_members_are_removed_and_null_elements_are_kept() {
        let mut document = json!({"a": null, "b": {"c": null, "d": [null, {"e": null}]}, "f": false});
        remove_nulls(&mut document);
        assert_eq!(document, json!({"b": {"d": [null, {}]}, "f": false}));
    }
}
