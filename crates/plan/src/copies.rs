//! Pods of a run that differ only in their numbers.

use serde_json::Value;

/// The copies of one pod. There may be many of them, so each is built when it is needed. Their number is the value of the
/// label `spark-exec-id`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Copies {
    /// A copy without its name and without its number.
    pub template: Value,
    /// The beginning of all names; the number of the copy follows, from 1.
    pub prefix: String,
    pub count: u32,
    /// The end of the message to the user that a copy cannot be created: what the application does until the copy
    /// exists.
    pub meanwhile: &'static str,
}

impl Copies {
    /// Returns the copies in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = Value> {
        (1..=self.count).map(|number| self.with_number(number))
    }

    /// Returns the copy with this number.
    pub fn with_number(&self, number: u32) -> Value {
        let mut pod = self.template.clone();
        pod["metadata"]["name"] = format!("{}{number}", self.prefix).into();
        pod["metadata"]["labels"][api::label::SPARK_EXEC_ID] = number.to_string().into();
        pod
    }

    /// Returns the numbers of the copies that do not exist; `is_there` says of a name whether such a copy exists.
    pub fn missing(&self, is_there: impl Fn(&str) -> bool) -> Vec<u32> {
        (1..=self.count).filter(|number| !is_there(&format!("{}{number}", self.prefix))).collect()
    }
}
