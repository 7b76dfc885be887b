//! Defines the options for the metrics of applications: the prefix of their names, their labels, and the values of
//! these labels.

use super::{Timed, Values};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::{collections::BTreeMap, str::FromStr};

/// The admin's settings for the metrics of applications.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    pub prefix: Prefix,
    pub labels: Vec<Label>,
    /// Upper bounds of the histogram's buckets in seconds, ascending.
    pub submit_latency_buckets: Vec<f64>,
    pub start_latency_buckets: Vec<f64>,
}

impl Options {
    /// Returns the upper bounds of the histogram's buckets of these durations; `None` if they have no histogram.
    pub(super) fn bounds(&self, timed: Timed) -> Option<&[f64]> {
        match timed {
            Timed::Submission => Some(&self.submit_latency_buckets),
            Timed::Start => Some(&self.start_latency_buckets),
            Timed::Success | Timed::Failure => None,
        }
    }
}

/// The prefix of the names of metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix(pub(super) String);

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let prefix = text.replace('-', "_");
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_:".contains(&byte);
        let begins_well = !prefix.starts_with(|first: char| first.is_ascii_digit());
        let wrong =
            "cannot begin the name of a metric: write letters, digits and `_`, no digit first (try `team_`)";
        let is_valid = begins_well && prefix.bytes().all(is_name);
        if is_valid { Ok(Self(prefix)) } else { Err(wrong.to_owned()) }
    }
}

/// A label of applications that is also a label of their metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(String);

impl Label {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// Labels that the operator or Prometheus itself adds to metrics.
        const TAKEN: [&str; 4] = ["cause", "le", "quantile", "state"];
        let label = converted(text);
        if TAKEN.contains(&&*label) || label.starts_with("__") {
            return Err(format!("`{label}` is a label that the metrics already have: leave it out"));
        }
        if label.is_empty() || label.starts_with(|first: char| first.is_ascii_digit()) {
            return Err("is not the name of a label (try `app_type` or `namespace`)".to_owned());
        }
        Ok(Self(label))
    }
}

/// Converts the key of an object's label into a label name that Prometheus accepts. Kubeflow's operator converts only
/// `-`, and fails at other characters.
fn converted(key: &str) -> String {
    key.replace(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_', "_")
}

/// Returns the values of `labels` for an application: for `namespace`, its namespace; for any other, the value of the
/// application's own label, `Unknown` if it has none.
pub fn labels_of(application: &ObjectMeta, labels: &[Label]) -> Values {
    labels_of_executors(application, &BTreeMap::new(), labels)
}

/// Returns the values of `labels` for the executors of an application: the values of the labels that the application
/// gives to their pods, `of_pods`, else as for the application itself.
pub fn labels_of_executors(
    application: &ObjectMeta,
    of_pods: &BTreeMap<String, String>,
    labels: &[Label],
) -> Values {
    let namespace = application.namespace.as_deref().unwrap_or_default();
    let shown = |Label(label): &Label| {
        // Even if the application has a label `namespace` with another value.
        if label == "namespace" {
            return namespace.to_owned();
        }
        let mut found = of_pods.iter().chain(application.labels.iter().flatten());
        let found = found.find(|(key, _)| converted(key) == *label);
        found.map_or_else(|| "Unknown".to_owned(), |(_, value)| value.clone())
    };
    Values { namespace: namespace.to_owned(), shown: labels.iter().map(shown).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::SparkApplication;
    use serde_json::{from_value, json};

    fn labels(names: &[&str]) -> Vec<Label> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn executors_have_the_label_values_of_their_pods_before_the_applications() {
        let application: SparkApplication = from_value(json!({
            "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
            "metadata": {"name": "pi", "namespace": "team", "labels": {"app-type": "etl", "example.com/tier": "gold", "namespace": "another"}},
            "spec": {
                "type": "Scala", "sparkVersion": "4.0.1", "driver": {},
                "executor": {"labels": {"app-type": "worker"}},
            },
        }))
        .unwrap();
        let labels = labels(&["app_type", "namespace", "example.com/tier", "owner"]);
        let SparkApplication { metadata, spec, .. } = application;
        assert_eq!(labels_of(&metadata, &labels).shown, ["etl", "team", "gold", "Unknown"]);
        let of_executors = labels_of_executors(&metadata, &spec.executor.pod.labels, &labels);
        assert_eq!(of_executors.shown, ["worker", "team", "gold", "Unknown"]);
    }

    #[test]
    fn label_names_and_prefixes_that_prometheus_refuses_are_refused() {
        assert_eq!(labels(&["app-type"])[0].as_str(), "app_type");
        for name in ["", "1st", "le", "state", "__name__"] {
            name.parse::<Label>().unwrap_err();
        }
        assert_eq!("team-a:".parse::<Prefix>().unwrap().0, "team_a:");
        for prefix in ["1_", "team a", "é"] {
            assert!(prefix.parse::<Prefix>().unwrap_err().contains("(try `team_`)"), "{prefix}");
        }
    }
}
