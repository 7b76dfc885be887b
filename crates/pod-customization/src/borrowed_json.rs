//! Reads JSON into values that borrow their strings from the input: for large objects of which only a small part is
//! used.
//!
//! Most of a pod under review is neither changed nor compared. With [`Value`], each field name and each text would be a
//! copy, and each object a tree; making and dropping these would be most of the cost of a review.

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, Value};
use std::{borrow::Cow, fmt, ops::Index};

/// JSON like [`Value`], but read-only.
#[derive(Debug, Default)]
pub enum BorrowedJson<'t> {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'t, str>),
    List(Vec<BorrowedJson<'t>>),
    /// The fields in the order of the input. If two fields have the same name, the last one counts.
    Object(Vec<(Cow<'t, str>, BorrowedJson<'t>)>),
}

/// The name of a field, copied only if the name contains an escape sequence.
#[derive(Deserialize)]
pub struct FieldName<'t>(#[serde(borrow)] pub Cow<'t, str>);

static NULL: BorrowedJson<'static> = BorrowedJson::Null;

impl<'t> BorrowedJson<'t> {
    /// Returns the value of a field; none if the field is absent or the value is not an object.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Self> {
        let Self::Object(fields) = self else { return None };
        fields.iter().rev().find_map(|(name, value)| (name == field).then_some(value))
    }

    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the entries of a list; none if the value is not a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(entries) = self { Some(entries) } else { None }
    }

    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    #[must_use]
    pub const fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }
}

/// Returns null for a field that does not exist.
impl<'t> Index<&str> for BorrowedJson<'t> {
    type Output = BorrowedJson<'t>;

    fn index(&self, field: &str) -> &Self {
        self.get(field).unwrap_or(&NULL)
    }
}

/// Copies the JSON with all its strings.
impl From<&BorrowedJson<'_>> for Value {
    fn from(json: &BorrowedJson) -> Self {
        match json {
            BorrowedJson::Null => Self::Null,
            BorrowedJson::Bool(bool) => Self::Bool(*bool),
            BorrowedJson::Number(number) => Self::Number(number.clone()),
            BorrowedJson::Text(text) => Self::String(text.clone().into_owned()),
            BorrowedJson::List(entries) => entries.iter().map(Self::from).collect(),
            BorrowedJson::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone().into_owned(), Self::from(value))).collect()
            }
        }
    }
}

impl<'t> From<&'t Value> for BorrowedJson<'t> {
    fn from(value: &'t Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(*bool),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::Text(text.into()),
            Value::Array(entries) => Self::List(entries.iter().map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Object(fields.iter().map(|(name, value)| (name.into(), value.into())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for BorrowedJson<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Read)
    }
}

struct Read;

impl<'de> Visitor<'de> for Read {
    type Value = BorrowedJson<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(BorrowedJson::Null)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Self::Value, E> {
        Ok(BorrowedJson::Bool(bool))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(BorrowedJson::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(BorrowedJson::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(number).map_or(BorrowedJson::Null, BorrowedJson::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(BorrowedJson::Text(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(BorrowedJson::Text(text.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            entries.push(entry);
        }
        Ok(BorrowedJson::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((FieldName(name), value)) = map.next_entry()? {
            fields.push((name, value));
        }
        Ok(BorrowedJson::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every kind, escapes in names and texts, and two fields of one name.
    const TEXT: &str = r#"{"a\n": ["b", "\u00e9\"", "", null, true], "n": [0, -1, 18446744073709551615, 1e300, 36893488147419103232, -0.0],
        "o": {"x": 1, "x": {"y": []}}, "e": {}}"#;

    #[test]
    fn what_is_read_is_what_serde_json_reads() {
        let expected: Value = serde_json::from_str(TEXT).unwrap();
        let borrowed: BorrowedJson = serde_json::from_str(TEXT).unwrap();
        assert_eq!(Value::from(&borrowed), expected);
        assert_eq!(Value::from(&BorrowedJson::from(&expected)), expected);
        assert!(borrowed["o"]["x"]["y"].as_list().is_some_and(<[_]>::is_empty));
        assert_eq!(borrowed["a\n"].as_list().unwrap()[1].as_str(), Some("é\""));
        assert!(borrowed["a\n"]["b"].is_null() && borrowed["wormhole"].is_null());
    }

    #[test]
    fn texts_are_copied_only_where_something_is_escaped_in_them() {
        let borrowed: BorrowedJson = serde_json::from_str(r#"["plain", "\"quoted\""]"#).unwrap();
        let entries = borrowed.as_list().unwrap();
        assert!(matches!(&entries[0], BorrowedJson::Text(Cow::Borrowed("plain"))));
        assert!(matches!(&entries[1], BorrowedJson::Text(Cow::Owned(_))));
    }

    #[test]
    fn too_many_levels_are_refused() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        let error = serde_json::from_str::<BorrowedJson>(&deep).unwrap_err();
        assert!(error.to_string().starts_with("recursion limit exceeded"), "{error}");
    }
}
