//! Rules for the comparison with recordings: which recorded cases native submission cannot be compared with, and what a
//! refusal must name.
//!
//! A case that is in none of these tables must have equal objects, or must be refused for the same property.

use super::case::Case;
use crate::prelude::*;
use spark_client::{Reason, Submission};
use std::sync::LazyLock;

/// A kind of case that native submission leaves to `spark-submit`: a description, the test for such a case, and the
/// reason that native submission must report.
type Handed = (&'static str, fn(&Case, &Submission) -> bool, Reason);

const HANDED: [Handed; 10] = [
    (
        "code of the user's changes the pod, or a step of Spark's is left out",
        |_, submission| {
            let steps = ["featureSteps", "excludedFeatureSteps"];
            steps.iter().any(|steps| has(submission, &format!("spark.kubernetes.driver.pod.{steps}")))
        },
        Reason::FeatureSteps,
    ),
    (
        "local files are uploaded",
        |_, submission| has(submission, "spark.kubernetes.file.upload.path"),
        Reason::Upload,
    ),
    (
        "a program is named relative to where spark-submit runs",
        |_, submission| !submission.primary_resource.contains(':'),
        Reason::Upload,
    ),
    (
        "a pattern of remote files is resolved",
        |case, _| {
            case.command.iter().any(|token| token.contains("://") && token.contains(['*', '?', '[', '{']))
        },
        Reason::Glob,
    ),
    ("the main class stands in the jar", |_, submission| submission.main_class.is_none(), Reason::MainClass),
    (
        "somebody else than the operator creates the objects",
        |_, submission| submission.properties.keys().any(|key| says_who_submits(key)),
        Reason::Identity,
    ),
    (
        "Hadoop's security is on",
        |_, submission| {
            submission.environment.hadoop_token_file.is_some()
                || submission.environment.hadoop_conf.is_some()
                || has(submission, "spark.hadoop.hadoop.security.authentication")
        },
        Reason::Kerberos,
    ),
    (
        "a value refers to the environment, to the JVM or to a default of Spark's",
        |_, submission| {
            submission.environment.spark_submit_opts.is_some()
                || submission.properties.values().any(|value| value.contains("${"))
        },
        Reason::Substitution,
    ),
    (
        "the master is no API server, or the driver runs where it is submitted",
        |_, submission| {
            let property = |key: &str| submission.properties.get(key).map_or("", String::as_str);
            !property("spark.master").starts_with("k8s://")
                || property("spark.submit.deployMode") != "cluster"
        },
        Reason::Destination,
    ),
    (
        "a file is fetched from a remote file system",
        |_, submission| {
            let files =
                ["podTemplateFile", "caCertFile", "clientKeyFile", "clientCertFile", "krb5.path", "keytab"];
            let mut properties = submission.properties.iter();
            properties.any(|(key, value)| files.iter().any(|file| key.ends_with(file)) && value.contains(':'))
        },
        Reason::SubmitterFile,
    ),
];

/// Whether a property configures the client that creates the objects.
pub fn says_who_submits(key: &str) -> bool {
    ["spark.kubernetes.authenticate.submission.", "spark.kubernetes.context", "spark.kubernetes.trust"]
        .iter()
        .any(|prefix| key.starts_with(prefix))
}

/// Returns the rule by which a case may be left to `spark-submit` for `reason`, or `None` if no rule allows it.
pub fn handed(case: &Case, submission: &Submission, reason: Reason) -> Option<&'static str> {
    let mut rules = HANDED.iter().filter(|(_, is_in, of)| *of == reason && is_in(case, submission));
    let unknown = (reason == Reason::UnknownSetting)
        .then_some("a setting that no version of Spark has, or none that is known here");
    rules.next().map(|(what, ..)| *what).or(unknown)
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

fn has(submission: &Submission, key: &str) -> bool {
    submission.properties.contains_key(key)
}
