//! Contains the map of Spark's properties, and writes it as a file that Spark reads.

use spark_client::{SYNTAX, escaped, trimmed};
use std::collections::BTreeMap;

/// How many bytes of properties may be passed as arguments. The number is far below 128 KiB, Linux's limit for a single
/// argument.
const ROOM_IN_ARGUMENTS: usize = 64 * 1024;

/// Spark properties. Setting a property again replaces its value.
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

    /// Returns these properties, and those of `others` whose keys are not among them.
    pub(super) fn over(self, mut others: BTreeMap<String, String>) -> Self {
        others.extend(self.0);
        Self(others)
    }

    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Returns the text of a file in the format of `java.util.Properties`, in UTF-8, the encoding in which Spark reads
    /// its `--properties-file`.
    ///
    /// Spark removes blanks from both ends of a value when it reads the file: see [`Properties::for_arguments`].
    pub(super) fn to_file(&self) -> String {
        let line = |(key, value): (&String, &String)| {
            format!("{}={}\n", escaped(key, true, &SYNTAX), escaped(value, false, &[]))
        };
        self.0.iter().map(line).collect()
    }

    /// Returns the properties whose values the file would change, as `key=value` for `--conf`, which takes precedence
    /// over the file. These are values with blanks at their ends; the value of an environment variable or an annotation
    /// may have such blanks.
    ///
    /// The result does not contain properties that would not arrive unchanged as arguments either (the script
    /// `spark-class` deletes carriage returns, a JVM in the POSIX locale knows only ASCII, Linux allows no NUL in
    /// arguments), nor properties that would exceed the limit for arguments.
    pub fn for_arguments(&self) -> Vec<String> {
        let mut room = ROOM_IN_ARGUMENTS;
        let cut = self.0.iter().filter(|(_, value)| trimmed(value) != *value);
        cut.filter(|(key, _)| key.starts_with(api::conf::PREFIX) && !key.contains('='))
            .map(|(key, value)| format!("{key}={value}"))
            .filter(|argument| argument.is_ascii() && !argument.contains(['\r', '\0']))
            .filter(|argument| {
                let rest = room.checked_sub(argument.len());
                room = rest.unwrap_or(room);
                rest.is_some()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Properties;

    /// Linux does not start a program with an argument of more than 128 KiB (Kubeflow issue 433).
    #[test]
    fn what_a_file_would_cut_is_an_argument_unless_it_is_too_large() {
        let mut properties = Properties::default();
        let cases = include_str!("../../../tests/data/spark-client/blanks.json");
        for [key, value] in serde_json::from_str::<Vec<[String; 2]>>(cases).unwrap() {
            properties.set(key, value);
        }
        properties.set("spark.large", format!(" {}", "x".repeat(200_000)));
        assert_eq!(properties.for_arguments(), ["spark.after=x\t", "spark.before= a=b", "spark.only= "]);
    }
}
