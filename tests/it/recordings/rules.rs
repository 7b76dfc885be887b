//! Rules for the comparison with recordings: which recorded cases native submission cannot be compared with, and what a
//! refusal must name.
//!
//! A case that is in none of these tables must have equal objects, or must be refused for the same property.

use super::case::Case;
use crate::prelude::*;
use spark_client::{Reason, Submission};
use std::sync::LazyLock;

/// Whether a property configures the client that creates the objects.
pub fn says_who_submits(key: &str) -> bool {
    ["spark.kubernetes.authenticate.submission.", "spark.kubernetes.context", "spark.kubernetes.trust"]
        .iter()
        .any(|prefix| key.starts_with(prefix))
}

/// Whether a case may be left to `spark-submit` for `reason`.
pub fn may_be_handed(case: &Case, submission: &Submission, reason: Reason) -> bool {
    let Submission { properties, environment, .. } = submission;
    let has = |key: &str| properties.contains_key(key);
    match reason {
        Reason::FeatureSteps => ["featureSteps", "excludedFeatureSteps"]
            .iter()
            .any(|steps| has(&format!("spark.kubernetes.driver.pod.{steps}"))),
        // A program without a scheme is named relative to where spark-submit runs.
        Reason::Upload => {
            has("spark.kubernetes.file.upload.path") || !submission.primary_resource.contains(':')
        }
        Reason::Glob => {
            case.command.iter().any(|token| token.contains("://") && token.contains(['*', '?', '[', '{']))
        }
        Reason::MainClass => submission.main_class.is_none(),
        Reason::Identity => properties.keys().any(|key| says_who_submits(key)),
        Reason::Kerberos => {
            environment.hadoop_token_file.is_some()
                || environment.hadoop_conf.is_some()
                || has("spark.hadoop.hadoop.security.authentication")
        }
        Reason::Substitution => {
            environment.spark_submit_opts.is_some() || properties.values().any(|value| value.contains("${"))
        }
        Reason::Destination => {
            let property = |key: &str| properties.get(key).map_or("", String::as_str);
            !property("spark.master").starts_with("k8s://")
                || property("spark.submit.deployMode") != "cluster"
        }
        Reason::SubmitterFile => {
            let files =
                ["podTemplateFile", "caCertFile", "clientKeyFile", "clientCertFile", "krb5.path", "keytab"];
            properties
                .iter()
                .any(|(key, value)| files.iter().any(|file| key.ends_with(file)) && value.contains(':'))
        }
        // No version of Spark has the setting, or none that is known here.
        Reason::UnknownSetting => true,
    }
}

/// Returns why native submission accepts a case that `spark-submit` refuses, if the difference is intended; the module
/// documentation of `spark_client` lists the intended differences (D1, D2, …).
pub fn accepted_on_purpose(case: &Case, submission: &Submission) -> Option<&'static str> {
    let said = |text: &str| case.stderr_tail.contains(text);
    if said("ClassNotFoundException") && said("FileSystem not found") {
        return Some("D1: nobody asks a remote file system");
    }
    if said("unresolved dependency") || said("Provided Maven Coordinates must be in the form") {
        return Some("D2: packages are resolved by the driver");
    }
    if submission.primary_resource.to_lowercase().ends_with(".r") && said("URI scheme is not \"file\"") {
        return Some("D8: R with remote jars");
    }
    None
}

/// Whether the first object that Spark sends is not a Pod, so that every API server refuses it.
pub fn sends_no_pod(case: &Case) -> bool {
    case.sent().first().is_some_and(|exchange| exchange.body["kind"] != "Pod")
}

/// Whether the JVM could not read its own command line (D3).
pub fn has_lost_letters(case: &Case) -> bool {
    let posix = ["LC_ALL", "LANG"]
        .iter()
        .any(|name| matches!(case.env.get(*name).map(String::as_str), Some("POSIX" | "C")));
    posix && !case.command.iter().all(|token| token.is_ascii())
}

/// Error texts of Spark that name no property, each with names of which the native message must contain one.
static SAID: LazyLock<Vec<(String, Vec<String>)>> = LazyLock::new(|| yaml(&data("recordings/said.yaml")));
/// Properties that every case has, so that they identify no case.
const ALWAYS: [&str; 3] =
    ["spark.master", "spark.submit.deployMode", "spark.kubernetes.submission.waitAppCompletion"];

/// Whether `message` names the property that Spark complained about.
pub fn names_the_same(case: &Case, submission: Option<&Submission>, message: &str) -> bool {
    let said: Vec<_> = case
        .stderr_tail
        .lines()
        .filter(|line| line.contains("Exception") || line.contains("Error:") || line.contains("Caused by"))
        .filter(|line| !line.trim_start().starts_with("at "))
        .collect();
    if let Some((_, names)) = SAID.iter().find(|(text, _)| said.iter().any(|line| line.contains(text))) {
        return names.iter().any(|name| message.contains(name));
    }
    let keys: Vec<_> = said.iter().flat_map(|line| keys_in(line)).collect();
    if !keys.is_empty() {
        return keys.iter().any(|key| message.contains(key));
    }
    // Spark names no property at all, so the message must name a property or an argument that not every case has.
    let properties = submission.iter().flat_map(|submission| submission.properties.keys());
    let own = properties.filter(|key| !ALWAYS.contains(&key.as_str()) && *key != "spark.app.name");
    let tokens = case.command.iter().filter_map(|token| token.split_once('=')).map(|(key, _)| key);
    own.map(String::as_str).chain(tokens).any(|key| message.contains(key) && !ALWAYS.contains(&key))
}

/// Returns the properties that are named in a line of Spark's output.
fn keys_in(line: &str) -> Vec<&str> {
    let places = line.match_indices("spark.").map(|(at, _)| at);
    let begins =
        places.filter(|at| !line[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '.' || c == '/'));
    let ends =
        |rest: &str| rest.find(|c: char| !(c.is_alphanumeric() || "._-".contains(c))).unwrap_or(rest.len());
    begins.map(|at| line[at..at + ends(&line[at..])].trim_end_matches('.')).collect()
}
