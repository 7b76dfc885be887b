//! Recognises submissions that only the JVM can carry out, by their properties and environment variables. Other reasons
//! why the JVM is needed are found later, by the step that builds the object concerned.

use super::{
    conf::Conf,
    input::Submission,
    line::Line,
    not_native::{NotNative, Reason},
    submit_conf,
};
use api::names::{conf, env};
use std::sync::LazyLock;

/// Spark's settings on Kubernetes, each with the release lines that know it. The file explains its format.
const SETTINGS: &str = include_str!("settings.txt");

/// The settings that decide with which credentials, and in which cluster, Spark's own client creates the objects.
const IDENTITY: [&str; 3] = ["authenticate.submission.", "context", "trust.certificates"];

/// The directory in which a pod finds the credentials of its service account. Spark's own client uses these credentials
/// by default, so a setting whose value is a path in this directory changes nothing.
pub const IN_CLUSTER: &str = "/var/run/secrets/kubernetes.io/serviceaccount/";

/// Spark's feature steps that the user may exclude here too.
const EXCLUDABLE: [&str; 3] =
    ["DriverServiceFeatureStep", "LocalDirsFeatureStep", "NetworkPolicyFeatureStep"];
/// The Java package of Spark's own feature steps.
const PACKAGE: &str = "org.apache.spark.deploy.k8s.features.";

/// Returns the names, without package, of those of Spark's own feature steps that are excluded from a submission.
///
/// # Errors
///
/// When the submission needs something that only the JVM does.
pub(super) fn excluded_steps(submission: &Submission, conf: &Conf) -> Result<Vec<String>, NotNative> {
    destination(conf)?;
    kubernetes_settings(submission, conf)?;
    environment(submission, conf)?;
    feature_steps(submission.line, conf)
}

fn destination(conf: &Conf) -> Result<(), NotNative> {
    let master = conf.raw(conf::MASTER).unwrap_or_default();
    if !master.starts_with("k8s://") {
        let why = format!("`{master}` is no API server of Kubernetes");
        return Err(NotNative::fallback(Reason::Destination, conf::MASTER, why));
    }
    let mode = conf.raw(conf::DEPLOY_MODE).unwrap_or("client");
    if mode != "cluster" {
        let why = format!("`{mode}` runs the driver where it is submitted");
        return Err(NotNative::fallback(Reason::Destination, conf::DEPLOY_MODE, why));
    }
    Ok(())
}

/// Whether this release line of Spark knows the setting `spark.kubernetes.<setting>`. Spark ignores settings that it
/// does not know.
pub fn is_setting(setting: &str, line: Line) -> bool {
    settings(line).any(|name| belongs(setting, name))
}

/// Returns the names of Spark's settings on Kubernetes in a release line, without `spark.kubernetes.`. A name that ends
/// in a dot is a prefix of settings.
pub fn settings(line: Line) -> impl Iterator<Item = &'static str> {
    static KNOWN: LazyLock<Vec<(&str, Line, Line)>> = LazyLock::new(|| {
        let entries = SETTINGS.lines().filter(|text| !text.starts_with('#'));
        let entry = |text: &'static str| {
            let mut words = text.split(' ');
            let name = words.next().unwrap_or_default();
            let mut line = || words.next().map(|word| Line::nearest(word).0);
            Some((name, line()?, line().unwrap_or(Line::V4_3)))
        };
        entries.filter_map(entry).collect()
    });
    KNOWN.iter().filter(move |(_, first, last)| (*first..=*last).contains(&line)).map(|(name, ..)| *name)
}

/// Whether `setting` equals `entry` or, if `entry` ends in a dot, begins with it.
pub fn belongs(setting: &str, entry: &str) -> bool {
    setting == entry || entry.ends_with('.') && setting.starts_with(entry)
}

fn kubernetes_settings(submission: &Submission, conf: &Conf) -> Result<(), NotNative> {
    let is_newer = Line::is_newer_than_all(&submission.spark_version);
    for (setting, value) in conf.prefixed(submit_conf::KUBERNETES_PREFIX) {
        let fallback = |reason, why: &str| {
            let key = format!("{}{setting}", submit_conf::KUBERNETES_PREFIX);
            Err(NotNative::fallback(reason, &key, why))
        };
        if IDENTITY.iter().any(|entry| belongs(setting, entry)) && !value.starts_with(IN_CLUSTER) {
            return fallback(Reason::Identity, "sets the identity or the cluster that spark-submit uses");
        }
        if is_newer && !is_setting(setting, submission.line) {
            return fallback(
                Reason::UnknownSetting,
                "may be a setting of a Spark that the operator does not know",
            );
        }
    }
    Ok(())
}

fn environment(submission: &Submission, conf: &Conf) -> Result<(), NotNative> {
    let environment = &submission.environment;
    let options = environment.spark_submit_opts.as_deref().unwrap_or_default();
    if options.contains("-Dspark.") {
        let why = "sets Spark properties (-Dspark.…), which only a JVM reads";
        return Err(NotNative::fallback(Reason::Substitution, env::SPARK_SUBMIT_OPTS, why));
    }
    let is_on = conf.raw(submit_conf::HADOOP_AUTHENTICATION).is_some_and(|text| text.trim() != "simple");
    let kerberos = |field, why| Err(NotNative::fallback(Reason::Kerberos, field, why));
    if is_on {
        return kerberos(submit_conf::HADOOP_AUTHENTICATION, "requires a login to Hadoop");
    }
    if environment.hadoop_conf.iter().flatten().any(|(_, text)| is_secured(text)) {
        return kerberos(env::HADOOP_CONF_DIR, "requires a login to Hadoop");
    }
    if environment.hadoop_token_file.is_some() {
        return kerberos(env::HADOOP_TOKEN_FILE_LOCATION, "names a file with tokens that become a Secret");
    }
    Ok(())
}

/// Whether a file of Hadoop's configuration sets an authentication other than `simple`, which means no authentication.
fn is_secured(text: &str) -> bool {
    const NAME: &str = "<name>hadoop.security.authentication</name>";
    let without_blanks: String = text.split_whitespace().collect();
    let mut values = without_blanks.split(NAME).skip(1);
    values.any(|after| !after.starts_with("<value>simple</value>"))
}

fn feature_steps(line: Line, conf: &Conf) -> Result<Vec<String>, NotNative> {
    let fallback = |field, why: String| Err(NotNative::fallback(Reason::FeatureSteps, field, why));
    if let Some(step) = conf.list(submit_conf::FEATURE_STEPS)?.first() {
        return fallback(
            submit_conf::FEATURE_STEPS,
            format!("`{step}` is code that is to change the driver's pod"),
        );
    }
    if line < Line::V4_1 {
        return Ok(Vec::new());
    }
    let mut excluded = Vec::new();
    for class in conf.list(submit_conf::EXCLUDED_FEATURE_STEPS)? {
        match class.strip_prefix(PACKAGE).filter(|step| EXCLUDABLE.contains(step)) {
            Some(step) => excluded.push(step.to_owned()),
            None => {
                return fallback(submit_conf::EXCLUDED_FEATURE_STEPS, format!("`{class}` is to be excluded"));
            }
        }
    }
    Ok(excluded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_authentication_requires_no_login() {
        let file = |value: &str| {
            format!(
                "<configuration>\n <property>\n  <name>hadoop.security.authentication</name>\n  <value> {value} </value>\n</property></configuration>"
            )
        };
        assert!(is_secured(&file("kerberos")) && !is_secured(&file("simple")));
        assert!(!is_secured("<name>hadoop.security.authorization</name><value>true</value>"));
    }

    #[test]
    fn each_release_line_knows_its_settings() {
        let cases = include_str!("../../../tests/data/spark-client/settings-of-lines.json");
        for (setting, known) in serde_json::from_str::<Vec<(&str, [bool; 5])>>(cases).unwrap() {
            assert_eq!(Line::ALL.map(|line| is_setting(setting, line)), known, "{setting}");
        }
    }
}
