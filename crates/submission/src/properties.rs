//! Contains the map of the properties that concerns set.

use std::collections::BTreeMap;

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

    pub const fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}
