//! Spark's configuration as a map, and as a file that Spark reads.

use std::{collections::BTreeMap, fmt::Write};

/// Spark properties; setting one again replaces it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    pub(super) fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }

    pub(super) fn set_some(&mut self, key: impl Into<String>, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.set(key, value.to_string());
        }
    }

    /// Sets `<prefix><name>` for every entry.
    pub(super) fn set_all(&mut self, prefix: &str, entries: &BTreeMap<String, String>) {
        for (name, value) in entries {
            self.set(format!("{prefix}{name}"), value);
        }
    }

    pub(in crate::plan) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The text of a file in the format of `java.util.Properties`, in UTF-8, which is how Spark reads its
    /// `--properties-file`.
    ///
    /// Spark cuts blanks off both ends of a value when it reads the file, as the driver would in any case.
    pub(super) fn to_file(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (key, value)| {
            writeln!(text, "{}={}", escaped(key, true), escaped(value, false))
                .expect("writing to a String cannot fail");
            text
        })
    }
}

fn escaped(text: &str, is_key: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (i, c) in text.chars().enumerate() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\x0c' => escaped.push_str("\\f"),
            ' ' if is_key || i == 0 => escaped.push_str("\\ "),
            '=' | ':' | '#' | '!' if is_key => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::Properties;

    #[test]
    fn a_file_escapes_what_java_would_take_for_syntax() {
        let mut properties = Properties::default();
        properties.set("spark.a b:c=d", "\\ two\nlines = {{APP_ID}} ${x} ü #");
        properties.set("spark.blank", " x");
        assert_eq!(
            properties.to_file(),
            "spark.a\\ b\\:c\\=d=\\\\ two\\nlines = {{APP_ID}} ${x} ü #\nspark.blank=\\ x\n"
        );
    }
}
