//! Reads the objects under review without `metadata.managedFields`. These are a tenth of an application and half of a
//! pod, and no decision depends on them.

use pod_customization::borrowed_json::{BorrowedJson, FieldName};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use std::fmt;

/// An object under review; null if the review has none.
#[derive(Default)]
pub(super) struct Object<'t>(pub BorrowedJson<'t>);

impl<'de: 't, 't> Deserialize<'de> for Object<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Part::Object.deserialize(deserializer).map(Self)
    }
}

/// Which JSON object is being read.
#[derive(Clone, Copy)]
enum Part {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = BorrowedJson<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = BorrowedJson<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(BorrowedJson::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut read = Vec::new();
        while let Some(FieldName(name)) = map.next_key()? {
            match (self, &*name) {
                (Self::Object, "metadata") => {
                    read.push((name, map.next_value_seed(Self::Metadata)?));
                }
                (Self::Metadata, "managedFields") => {
                    map.next_value::<IgnoredAny>()?;
                }
                (Self::Object | Self::Metadata, _) => {
                    read.push((name, map.next_value()?));
                }
            }
        }
        Ok(BorrowedJson::Object(read))
    }
}
