//! Warns of values that are valid but hardly ever intended.

use super::{Subject, property, rules};
use api::{Role, SparkPodSpec, conf, stated, submit_conf};
use std::collections::BTreeMap;

/// Returns the first mistake in a property; `None` if there is none.
fn mistake(key: &str, value: &str) -> Option<&'static str> {
    let (is_of_spark, is_of_hadoop) = (key.starts_with(conf::PREFIX), key.starts_with(conf::HADOOP_PREFIX));
    let (has_variable, has_reference) = (value.contains("$("), value.contains("${env:"));
    // Log4j and Spark replace `${env:…}` in their own settings.
    let is_read = value.contains("-Dlog4j") || value.contains("-Dspark.");
    let is_in_cluster = value.starts_with(spark_client::IN_CLUSTER);
    let is_of_drivers_jvm = || JVM_OPTIONS.iter().any(|suffix| key == conf::spark(Role::Driver, suffix));
    let of_yarn = key.strip_prefix("spark.yarn.").unwrap_or_default();
    let is_of_others = OF_OTHERS.iter().any(|begin| key.starts_with(begin))
        || OF_YARN.iter().any(|begin| of_yarn.starts_with(begin));
    Some(match key {
        _ if key.contains(char::is_whitespace) => "no setting of Spark has a blank in its name",
        _ if key.contains(['"', '\'']) => "no setting of Spark has a quotation mark in its name",
        _ if !is_of_spark && key.to_lowercase().starts_with(conf::PREFIX) => {
            "without effect: the settings of Spark begin with `spark.`, in small letters"
        }
        _ if !is_of_spark => {
            "is not a setting of Spark, ignored: write one of Hadoop into hadoopConf, one of metrics into monitoring"
        }
        "spark.shuffle.service.enabled" if value.eq_ignore_ascii_case("true") => {
            "there is no shuffle service on Kubernetes, and executors end without it: take it out, shuffleTracking replaces it"
        }
        _ if key.starts_with(submit_conf::SUBMISSION_CREDENTIALS) && is_in_cluster => {
            "has no effect: these are the credentials that the pod has anyway"
        }
        _ if is_of_others => "has no effect on Kubernetes: it is for another cluster manager",
        submit_conf::DRIVER_HOST => "has no effect: executors find the driver by its Service",
        _ if is_of_hadoop && has_variable => "Hadoop does not replace `$(…)`: write `${env.NAME}`",
        _ if (has_variable || has_reference && !is_read) && is_of_drivers_jvm() => {
            "`$(…)` and `${env:…}` are not replaced there: the driver's JVM gets them as they are"
        }
        _ if has_variable && !is_note(key) && !is_expanded(key) => {
            "`$(…)` is not replaced: write `${env:NAME}` where Spark reads it, `${env.NAME}` where Hadoop does"
        }
        _ if is_of_hadoop && has_reference => "Hadoop does not replace `${env:…}`: write `${env.NAME}`",
        _ if has_shell_variable(value) && is_expanded(key) => {
            "`$NAME` is not replaced there: write `$(NAME)` for a variable in the pod's env"
        }
        _ if has_shell_variable(value) && !is_note(key) => {
            "`$NAME` is not replaced: write `${env:NAME}` where Spark reads it, `${env.NAME}` where Hadoop does"
        }
        _ => return None,
    })
}

/// Prefixes of settings for Mesos and Spark's own cluster that nothing reads on Kubernetes.
const OF_OTHERS: [&str; 3] = ["spark.cores.max", "spark.deploy.", "spark.mesos."];
/// Prefixes of such settings for YARN, after `spark.yarn.`. (Spark reads others under their old names, such as
/// `spark.yarn.keytab`.)
const OF_YARN: [&str; 6] = ["am.", "appMasterEnv.", "archive", "dist.", "jars", "queue"];
/// Directories without which no container starts. A mount over a directory above them hides them, too.
const NEEDED: [&str; 8] =
    ["/bin", "/etc", "/lib", "/opt/spark/bin", "/opt/spark/jars", "/opt/spark/sbin", "/sbin", "/usr/bin"];
/// The directory of the account's credentials in each container, unless something is mounted there.
const CREDENTIALS: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub(super) fn in_properties(subject: &Subject) {
    for (key, value) in &subject.spec.spark_conf {
        if let Some(what) = mistake(key, value) {
            subject.warn(property(key), what);
        }
    }
    for (key, value) in &subject.spec.hadoop_conf {
        let field = format!("hadoopConf[{key}]");
        if let Some(name) = key.strip_prefix(conf::HADOOP_PREFIX).or_else(|| key.strip_prefix(conf::PREFIX)) {
            let elsewhere = if key.starts_with(conf::HADOOP_PREFIX) { name } else { "it into sparkConf" };
            subject.warn(field, format_args!("no setting of Hadoop, without effect: write {elsewhere}"));
        } else if let Some(what) = mistake(&format!("{}{key}", conf::HADOOP_PREFIX), value) {
            subject.warn(field, what);
        }
    }
}

/// Warns of arguments like `--input s3a://…`: each entry is one word for the program.
pub(super) fn in_arguments(subject: &Subject) {
    for (i, argument) in subject.spec.arguments.iter().enumerate() {
        let field = format!("arguments[{i}]");
        if has_shell_variable(argument) {
            let what = "the program gets it as it is: write `$(NAME)` for a variable in the driver's env";
            subject.warn(&field, what);
        }
        let Some((option, value)) = argument.split_once(char::is_whitespace) else { continue };
        let name = option.trim_start_matches('-');
        let is_option = option.starts_with('-')
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        if is_option && !value.trim().is_empty() {
            let what = "is one word for the program, with a blank in it: write the option and its value as two entries";
            subject.warn(&field, what);
        }
    }
}

/// Warns of Secrets that are named twice: Spark has one path for each.
pub(super) fn secrets(subject: &Subject, role: Role, pod: &SparkPodSpec) {
    let last: BTreeMap<_, _> = pod.secrets.iter().enumerate().map(|(i, secret)| (&secret.name, i)).collect();
    for (i, secret) in pod.secrets.iter().enumerate().filter(|(i, secret)| last[&secret.name] != *i) {
        let (name, path) = (&secret.name, &pod.secrets[last[&secret.name]].path);
        let what = format_args!("`{name}` is mounted at `{path}` alone, where it is named last");
        subject.warn(format_args!("{role}.secrets[{i}]"), what);
    }
}

/// Warns of mounts over directories that Spark's image needs.
pub(super) fn mounts(subject: &Subject, role: Role, pod: &SparkPodSpec) {
    let mounts = pod.volume_mounts.iter().map(|mount| mount.json()["mountPath"].as_str().unwrap_or_default());
    // A projected volume may provide these credentials.
    let mounts = mounts.enumerate().filter(|(_, path)| path.trim_end_matches('/') != CREDENTIALS);
    let mounts = mounts.map(|(i, path)| (format!("{role}.volumeMounts[{i}].mountPath"), path));
    let maps = pod.config_maps.iter().enumerate();
    let maps = maps.map(|(i, map)| (format!("{role}.configMaps[{i}].path"), &*map.path));
    let secrets = pod.secrets.iter().enumerate();
    let secrets = secrets.map(|(i, secret)| (format!("{role}.secrets[{i}].path"), &*secret.path));
    let volumes = conf::kubernetes(role, conf::VOLUMES_PREFIX);
    let of_secrets = conf::kubernetes(role, conf::SECRETS_PREFIX);
    let configured = subject.spec.spark_conf.iter().filter(|(key, _)| {
        key.starts_with(&volumes) && key.ends_with(".mount.path") || key.starts_with(&of_secrets)
    });
    let configured = configured.map(|(key, path)| (property(key), &**path));
    let is_needed = |path: &str| {
        let own = path.trim_end_matches('/');
        let is_above = |needed: &&str| {
            needed.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !path.is_empty() && (own == CREDENTIALS || NEEDED.iter().any(is_above))
    };
    let all = mounts.chain(maps).chain(secrets).chain(configured);
    for (field, path) in all.filter(|(_, path)| is_needed(path)) {
        let what = "hides what is needed there: choose another, or mount one file";
        subject.warn(field, format_args!("`{path}` {what}"));
    }
}

/// Warns of fields of Spark's container in a template that Spark overrides, or that Spark keeps although they prevent its
/// start (a command, which gets Spark's arguments); and of several containers of which none has the name of Spark's.
pub(super) fn containers(subject: &Subject, role: Role, pod: &SparkPodSpec) {
    let Some(template) = &pod.template else { return };
    let mut containers = template.json()["spec"]["containers"].clone();
    let sparks = submission::pod_templates::sparks_container(&mut containers, role);
    let all = containers.as_array().map_or(&[][..], Vec::as_slice);
    let field = format!("{role}.template.spec.containers[{sparks}]");
    let image = pod.image.as_ref().or(subject.spec.image.as_ref());
    let stated = all[sparks]["image"].as_str();
    if stated.is_some_and(|stated| image.is_none_or(|image| image != stated)) {
        subject.warn(format_args!("{field}.image"), "has no effect, Spark sets it: write image");
    }
    rules::check("SparksContainer", &all[sparks], &mut |below, what| {
        subject.warn(format_args!("{field}{below}"), what);
    });
    if all.len() > 1 && all[sparks]["name"] != role.container() {
        let (name, own) = (all[sparks]["name"].as_str().unwrap_or_default(), role.container());
        let what = format_args!("Spark runs in `{name}`, the first one: call it `{own}`");
        subject.warn(format_args!("{role}.template.spec.containers"), what);
    }
}

/// Warns of images that no kubelet can pull, and of an application without one.
pub(super) fn images(subject: &Subject) {
    let common = stated(&subject.spec.image);
    let of_roles = subject.pods().map(|(role, pod)| (role, stated(&pod.image)));
    let all = of_roles.map(|(role, image)| (format!("{role}.image"), image)).into_iter();
    for (field, image) in all.chain([("image".to_owned(), common)]) {
        if let Some(image) = image.filter(|image| !is_image(image)) {
            let what = "is no image that can be pulled: write `registry.example.com/spark:4.0.1`";
            subject.warn(field, format_args!("`{image}` {what}"));
        }
    }
    let lacks_one = |(role, own): (Role, Option<&String>)| {
        let configured = [conf::kubernetes(role, conf::CONTAINER_IMAGE), conf::IMAGE.to_owned()];
        let is_configured = |key: &String| subject.spec.spark_conf.contains_key(key);
        own.or(common).is_none() && !configured.iter().any(is_configured)
    };
    if of_roles.into_iter().any(lacks_one) {
        subject.warn("image", "is missing: only an image in the admin's spark-defaults.conf can help");
    }
}

/// Whether a text can be the reference of an image, a name with `{{SPARK_VERSION}}` included.
fn is_image(text: &str) -> bool {
    let text = text.replace("{{SPARK_VERSION}}", "4");
    let name = text.split('@').next().unwrap_or_default();
    let is_of_host = |c: char| c == '.' || c == ':' || c.is_ascii_uppercase();
    let (host, path) = match name.split_once('/') {
        Some((host, path)) if host.contains(is_of_host) || host == "localhost" => (host, path),
        _ => ("", name),
    };
    let (path, tag) = path.split_once(':').unwrap_or((path, "latest"));
    let is_word = |word: &str, also: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
    };
    let is_host = host.is_empty() || is_word(host, ".-:[]");
    is_host
        && path.split('/').all(|part| is_word(part, "._-"))
        && is_word(tag, "._-")
        && !path.contains(|c: char| c.is_ascii_uppercase())
}

/// The suffixes of the properties whose values are options of a JVM.
const JVM_OPTIONS: [&str; 2] = [conf::EXTRA_JAVA_OPTIONS, "defaultJavaOptions"];

/// Whether the kubelet replaces `$(NAME)` in the value of a property: it becomes a variable of a container, or the path in a
/// volume.
fn is_expanded(key: &str) -> bool {
    let is_of_executors = |suffix: &str| key == conf::spark(Role::Executor, suffix);
    Role::ALL.iter().any(|role| key.starts_with(&conf::env(*role, "")))
        || JVM_OPTIONS.into_iter().chain(["extraClassPath"]).any(is_of_executors)
        || key.ends_with(".mount.subPathExpr")
}

/// Whether the value of a property may be any text, for people and other programs.
fn is_note(key: &str) -> bool {
    Role::ALL.iter().any(|role| key.starts_with(&conf::kubernetes(*role, conf::ANNOTATION_PREFIX)))
}

/// Whether a text has `$NAME` or `${NAME}`, with a name as variables of the environment have it.
fn has_shell_variable(text: &str) -> bool {
    text.match_indices('$').any(|(at, _)| {
        let (before, after) = (&text[..at], text[at + 1..].split('$').next().unwrap_or_default());
        let name = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').map_or("", |(name, _)| name),
            None if before.ends_with(char::is_alphanumeric) => "",
            None => after.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default(),
        };
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::{has_shell_variable, is_image};

    #[test]
    fn an_image_has_a_lower_case_name_and_may_have_a_registry_tag_and_digest() {
        let cases = include_str!("../../../tests/data/images.json");
        for (text, expected) in serde_json::from_str::<Vec<(&str, bool)>>(cases).unwrap() {
            assert_eq!(is_image(text), expected, "{text}");
        }
    }

    #[test]
    fn a_variable_of_a_shell_has_capital_letters() {
        let cases = include_str!("../../../tests/data/shell-variables.json");
        for (text, expected) in serde_json::from_str::<Vec<(&str, bool)>>(cases).unwrap() {
            assert_eq!(has_shell_variable(text), expected, "{text}");
        }
    }
}
