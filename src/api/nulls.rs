//! How is an explicit `null` read? As if the key had been left out, which is what Go and the Kubernetes API
//! do.

use serde_json::Value;

/// The same document without the members of objects that are `null`, at any depth. Elements of lists stay,
/// since taking one away would move the others.
pub(super) fn without_nulls(document: Value) -> Value {
    match document {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(elements) => elements.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

/// Makes types that are derived with `#[serde(remote = "Self")]` read `null` as absent, in all their fields
/// and in all that is inside them: once for a whole document instead of once a field, so that no field can be
/// forgotten.
macro_rules! reads_null_as_absent {
    ($($kind:ty),+) => {$(
        impl<'de> ::serde::Deserialize<'de> for $kind {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let document = ::serde_json::Value::deserialize(deserializer)?;
                // `remote = "Self"` makes the derived function an inherent one: this is not a recursion.
                <$kind>::deserialize($crate::api::nulls::without_nulls(document))
                    .map_err(::serde::de::Error::custom)
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
    fn null_members_go_and_null_elements_stay() {
        let document = json!({"a": null, "b": {"c": null, "d": [null, {"e": null}]}, "f": false});
        assert_eq!(without_nulls(document), json!({"b": {"d": [null, {}]}, "f": false}));
    }
}
