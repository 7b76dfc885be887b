//! Reads JSON values from YAML, each of which the YAML parser counts in its budget.

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use std::fmt;

/// A JSON value all parts of which the YAML parser has counted, so that the parser's budget bounds it. This is not so
/// for a `Value` that is read from YAML directly: below a key that `serde_json` reserves, it parses the text too.
#[derive(Debug)]
pub(crate) struct Counted(pub(crate) Value);

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Parts).map(Self)
    }
}

struct Parts;

impl<'de> Visitor<'de> for Parts {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Counted(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Counted(value))) = entries.next_entry()? {
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// In a `Value`, a text of a megabyte could become any number of values, whatever the parser's budget is.
    #[test]
    fn a_text_below_a_reserved_key_is_not_parsed() {
        const RESERVED: &str = "$serde_json::private::RawValue";
        let yaml = format!("[{{\"{RESERVED}\": '[1]', b: x}}, 1, -2, 0.5, true, ~]");
        let Counted(value) = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(value, json!([{(RESERVED): "[1]", "b": "x"}, 1, -2, 0.5, true, null]));
        let yaml = format!("\"{RESERVED}\": '[1]'");
        let parsed: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(parsed, json!([1]), "serde_json has no such key any more");
    }
}
