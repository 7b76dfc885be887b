//! Reads Spark's properties by Spark's rules: some values as they are written, others by type and with every `${…}`
//! replaced.
//!
//! The rules are those of Spark's `ConfigReader` and `ConfigBuilder`. The driver itself always gets the values as they
//! are written.

use super::{expansion::expanded, line::Line, memory, not_native::NotNative};
use std::collections::BTreeMap;

/// The properties of a submission, by key, and the release line of Spark that reads them.
pub struct Conf(pub BTreeMap<String, String>, pub Line);

impl Conf {
    /// Returns the value as it is written, without replacing any `${…}`.
    pub fn raw(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Sets a property, or replaces its value.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }

    /// Sets a property if there is a value.
    pub fn set_some(&mut self, key: impl Into<String>, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.set(key, value.to_string());
        }
    }

    /// Sets `<prefix><name>` for every entry.
    pub fn set_all(&mut self, prefix: &str, entries: &BTreeMap<String, String>) {
        for (name, value) in entries {
            self.set(format!("{prefix}{name}"), value);
        }
    }

    /// Returns the union of these properties and `others`. If both have a key, the value of these properties is used.
    pub fn over(self, mut others: BTreeMap<String, String>) -> Self {
        others.extend(self.0);
        Self(others, self.1)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Returns, for every key that begins with `prefix`, the rest of the key and the value as it is written.
    pub fn prefixed<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let matching = self.0.range(prefix.to_owned()..).take_while(move |(key, _)| key.starts_with(prefix));
        matching.map(move |(key, value)| (&key[prefix.len()..], value.as_str()))
    }

    /// Returns the first of `keys` that is set. This is for settings that Spark also reads from an older key, or from a
    /// key that several settings share.
    pub(super) fn first_set<'k>(&self, keys: &[&'k str]) -> Option<&'k str> {
        keys.iter().copied().find(|key| self.has(key))
    }

    /// Returns the value of `key` in which every `${…}` is replaced.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, NotNative> {
        expanded(&self.0, key)
    }

    /// Returns the value of `key`, which must be one of `allowed`.
    pub(super) fn option(&self, key: &str, allowed: &[&str]) -> Result<Option<String>, NotNative> {
        match self.text(key)? {
            Some(text) if !allowed.contains(&text.as_str()) => Err(NotNative::refused(
                key,
                format_args!("should be one of {}, but is `{text}`", allowed.join(" | ")),
            )),
            text => Ok(text),
        }
    }

    /// Returns a whole number.
    ///
    /// # Errors
    ///
    /// When Spark would refuse the value, or when only the JVM knows it.
    pub fn int(&self, key: &str) -> Result<Option<i32>, NotNative> {
        self.typed(key, "a whole number", |text| int(text.trim()))
    }

    /// Returns a number that Spark reads without one of its typed configuration entries, so neither blanks nor `${…}`
    /// are allowed.
    pub(super) fn raw_int(&self, key: &str) -> Result<Option<i32>, NotNative> {
        let Some(text) = self.raw(key) else { return Ok(None) };
        int(text).map(Some).ok_or_else(|| mistyped(key, "a whole number", text))
    }

    /// Returns whether a setting is on.
    ///
    /// # Errors
    ///
    /// The same as those of [`Conf::int`].
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, NotNative> {
        self.typed(key, "true or false", |text| boolean(text.trim()))
    }

    /// Returns a number that must not be negative.
    pub(super) fn factor(&self, key: &str) -> Result<Option<f64>, NotNative> {
        self.typed(key, "a number of 0 or more", memory::factor)
    }

    /// Returns an amount of memory in MiB, rounded down to a whole number. Spark accepts negative amounts.
    pub(super) fn mib(&self, key: &str) -> Result<Option<i64>, NotNative> {
        self.typed(key, "an amount of memory, such as 512m", |text| {
            let (text, sign) = text.strip_prefix('-').map_or((text, 1), |text| (text, -1));
            self.1.bytes(text).and_then(|bytes| i64::try_from(bytes >> 20).ok()).map(|mib| mib * sign)
        })
    }

    /// Returns an amount of memory in bytes. A number without a unit is a number of bytes.
    pub(super) fn bytes(&self, key: &str) -> Result<Option<u64>, NotNative> {
        let read = |text: &str| text.trim().parse().ok().or_else(|| self.1.bytes(text));
        self.typed(key, "an amount of memory, such as 512m", read)
    }

    /// Returns the elements of a list that is separated by commas.
    pub(super) fn list(&self, key: &str) -> Result<Vec<String>, NotNative> {
        Ok(self.text(key)?.map(|text| elements(&text)).unwrap_or_default())
    }

    fn typed<T>(
        &self,
        key: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, NotNative> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        read(&text).map(Some).ok_or_else(|| mistyped(key, what, &text))
    }
}

fn mistyped(key: &str, what: &str, text: &str) -> NotNative {
    NotNative::refused(key, format_args!("should be {what}, but is `{text}`"))
}

/// Parses a number as Java's `Integer.parseInt` does.
pub(super) fn int(text: &str) -> Option<i32> {
    text.parse().ok()
}

/// Parses a boolean as Scala's `toBoolean` does.
pub(super) fn boolean(text: &str) -> Option<bool> {
    text.to_ascii_lowercase().parse().ok()
}

/// Returns the elements of a list that is separated by commas, without blank elements and without the blanks around an
/// element.
pub fn elements(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|element| !element.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn conf(properties: &[(&str, &str)]) -> Conf {
        Conf(
            properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            Line::V4_0,
        )
    }

    #[test]
    fn only_references_to_set_properties_are_replaced() {
        let conf = conf(&[
            ("spark.a", "x-${spark.b}-${spark.b}"),
            ("spark.b", "${spark.c}"),
            ("spark.c", "c"),
            ("spark.loop", "${spark.loop}"),
            ("spark.env", "${env:HOME}"),
            ("spark.default", "${spark.nothing}"),
            ("spark.other", "${} ${ } ${HOME} ${my:x} $(X) ${spark.c} ${spark.c"),
        ]);
        assert_eq!(conf.text("spark.a").unwrap().unwrap(), "x-c-c");
        assert_eq!(conf.text("spark.other").unwrap().unwrap(), "${} ${ } ${HOME} ${my:x} $(X) c ${spark.c");
        assert!(
            matches!(conf.text("spark.loop"), Err(NotNative::Refused { why, .. }) if why.contains("spark.loop"))
        );
        for key in ["spark.env", "spark.default"] {
            let refused = conf.text(key).unwrap_err();
            assert!(matches!(refused, NotNative::Fallback { reason: Reason::Substitution, .. }), "{refused}");
        }
    }

    #[test]
    fn typed_values_are_parsed_as_in_spark() {
        let conf = conf(&[
            ("spark.int", " +5 "),
            ("spark.yes", " TRUE "),
            ("spark.factor", "0.20"),
            ("spark.memory", "512k"),
            ("spark.less", "-2g"),
            ("spark.list", " a, ,b,"),
            ("spark.text", " x "),
        ]);
        assert_eq!(conf.int("spark.int"), Ok(Some(5)));
        assert!(conf.raw_int("spark.int").is_err());
        assert_eq!(conf.boolean("spark.yes"), Ok(Some(true)));
        assert_eq!(conf.factor("spark.factor"), Ok(Some(0.2)));
        assert_eq!(conf.mib("spark.memory"), Ok(Some(0)));
        assert_eq!(conf.mib("spark.less"), Ok(Some(-2048)));
        assert_eq!(conf.list("spark.list").unwrap(), ["a", "b"]);
        assert_eq!(conf.text("spark.text").unwrap().unwrap(), " x ");
        assert_eq!(conf.int("spark.unset"), Ok(None));
        for key in ["spark.text", "spark.list"] {
            let NotNative::Refused { field, .. } = conf.int(key).unwrap_err() else { panic!("{key}") };
            assert_eq!(field, key);
        }
    }
}
