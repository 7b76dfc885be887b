//! Adds to the driver's pod the fields that every driver has: names, labels, image, ports, environment and resources.

use super::{
    Context, Line, Submission,
    conf::{Conf, elements},
    double,
    driver_in_progress::{Driver, extend, list},
    names::Names,
    not_native::NotNative,
    resources, service, submit_conf,
};
use api::{
    LONGEST_LABEL, Role,
    names::{conf, env, label},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The image pull policies that Spark accepts. The last one is the default.
const PULL_POLICIES: [&str; 3] = ["Always", "Never", "IfNotPresent"];

/// The maximum number of bytes that the replacements of `{{SPARK_VERSION}}` may add to an image reference. Usual
/// references have a few hundred bytes: registry, repository, tag and digest.
const LONGEST_IMAGE: usize = 4096;

/// Returns the labels of the driver. The driver's Service selects the driver by them.
pub(super) fn labels(
    submission: &Submission,
    conf: &Conf,
    names: &Names,
) -> Result<BTreeMap<String, String>, NotNative> {
    let own = own_labels(submission, names, Role::Driver);
    let prefix = conf::kubernetes(Role::Driver, conf::LABEL_PREFIX);
    let mut labels = BTreeMap::new();
    for (name, value) in conf.prefixed(&prefix) {
        if own.iter().any(|(own, _)| *own == name) {
            let problem = format!(
                "Label with key {name} is not allowed as it is reserved for Spark bookkeeping operations"
            );
            return Err(NotNative::refused(&format!("{prefix}{name}"), problem));
        }
        let value = match submission.line {
            Line::V3_5 => value.to_owned(),
            _ => with_ids(value, submission, ""),
        };
        labels.insert(name.to_owned(), value);
    }
    labels.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(labels)
}

/// Returns the labels that Spark gives to all pods of an application.
pub(super) fn own_labels<'a>(
    submission: &'a Submission,
    names: &'a Names,
    role: Role,
) -> [(&'static str, &'a str); 4] {
    [
        (label::SPARK_VERSION, version_label(&submission.spark_version)),
        (label::SPARK_APP_SELECTOR, &submission.ids.application),
        (label::SPARK_APP_NAME, &names.app_name_label),
        (label::SPARK_ROLE, role.as_str()),
    ]
}

/// Returns the value of Spark's label `spark-version`: `version` up to the first character that a label's value cannot
/// contain, cut to the maximum length of a value, without punctuation at its ends.
fn version_label(version: &str) -> &str {
    let version = version.trim();
    let end =
        version.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c)).unwrap_or(version.len());
    version[..end.min(LONGEST_LABEL)].trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

pub(super) fn basic(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    metadata(context, driver);
    scheduling(context, driver)?;
    image(context, driver)?;
    ports(context, driver)?;
    environment(context, driver);
    let program = &context.submission.primary_resource;
    resources::set_resources(&context.conf, program, Role::Driver, &mut driver.container)?;
    if context.line >= Line::V4_3 {
        let keys = [submit_conf::DRIVER_PRIVILEGE_ESCALATION, submit_conf::PRIVILEGE_ESCALATION];
        let allowed =
            context.conf.first_set(&keys).map(|key| context.conf.boolean(key)).transpose()?.flatten();
        driver.container["securityContext"]["allowPrivilegeEscalation"] = allowed.unwrap_or(false).into();
    }
    driver.set_property(conf::DRIVER_POD_NAME, &context.names.driver_pod);
    driver.set_property(submit_conf::APP_ID, &context.submission.ids.application);
    driver.set_property(submit_conf::SUBMIT_IN_DRIVER, "true");
    // The driver computes the memory overhead of its executors with this factor.
    let factor = resources::default_factor(&context.conf, context.submission.kind())?;
    driver.set_property(conf::MEMORY_OVERHEAD_FACTOR, double::to_string(factor));
    Ok(())
}

fn metadata(context: &Context, driver: &mut Driver) {
    let pod = &mut driver.pod;
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    let metadata = &mut pod["metadata"];
    metadata["name"] = context.names.driver_pod.as_str().into();
    if !metadata["namespace"].is_null() {
        metadata["namespace"] = context.namespace.as_str().into();
    } else if let Some(fields) = metadata.as_object_mut() {
        fields.remove("namespace");
    }
    let labels = context.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    extend(metadata, "labels", labels);
    let prefix = conf::kubernetes(Role::Driver, conf::ANNOTATION_PREFIX);
    let annotations = context.conf.prefixed(&prefix);
    let annotations = annotations.map(|(name, value)| (name, with_ids(value, context.submission, "")));
    extend(metadata, "annotations", annotations);
}

fn scheduling(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let spec = &mut driver.pod["spec"];
    spec["restartPolicy"] = "Never".into();
    for prefix in submit_conf::node_selector_prefixes(Role::Driver) {
        extend(spec, "nodeSelector", context.conf.prefixed(&prefix));
    }
    let secrets = context.conf.list(conf::IMAGE_PULL_SECRETS)?;
    if !secrets.is_empty() {
        list(spec, "imagePullSecrets").extend(secrets.into_iter().map(|name| json!({"name": name})));
    }
    let own = conf::kubernetes(Role::Driver, submit_conf::SCHEDULER);
    if let Some(key) = context.conf.first_set(&[&own, submit_conf::SCHEDULER_NAME]) {
        spec["schedulerName"] = context.conf.text(key)?.into();
    }
    Ok(())
}

/// Adds to `spec` the node selector, scheduler, service account and image pull secrets that the properties of `role`
/// set. `spec` is that of a pod which is built from a template without Spark's feature steps. The values are used as
/// they are written, without replacing `${…}`.
pub fn place(spec: &mut Value, role: Role, conf: &Conf) {
    for prefix in submit_conf::node_selector_prefixes(role) {
        extend(spec, "nodeSelector", conf.prefixed(&prefix));
    }
    let first = |own: &str, other: &str| conf.raw(own).or_else(|| conf.raw(other));
    if let Some(scheduler) =
        first(&conf::kubernetes(role, submit_conf::SCHEDULER), submit_conf::SCHEDULER_NAME)
    {
        spec["schedulerName"] = scheduler.into();
    }
    // By default executors have the account of the driver (Spark's `ExecutorKubernetesCredentialsFeatureStep`). Of the
    // template's two fields, Spark reads only the older one, `serviceAccount`.
    let account = first(&conf::service_account(role), &conf::service_account(Role::Driver));
    if let Some(account) = account.filter(|_| spec["serviceAccount"].is_null()) {
        spec["serviceAccountName"] = account.into();
    }
    let mut secrets = spec["imagePullSecrets"].as_array().cloned().unwrap_or_default();
    // The entries are compared as complete JSON: an entry that contains more than a name counts as a different entry.
    let mut there: BTreeSet<_> = secrets.iter().map(Value::to_string).collect();
    let names = conf.raw(conf::IMAGE_PULL_SECRETS).map(elements).unwrap_or_default();
    let named = names.into_iter().map(|name| json!({"name": name}));
    secrets.extend(named.filter(|secret| there.insert(secret.to_string())));
    if !secrets.is_empty() {
        spec["imagePullSecrets"] = secrets.into();
    }
}

fn image(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let own = conf::kubernetes(Role::Driver, conf::CONTAINER_IMAGE);
    let Some(key) = context.conf.first_set(&[&own, conf::IMAGE]) else {
        return Err(NotNative::refused(
            conf::IMAGE,
            format_args!("must specify the driver container image, here or in {own}"),
        ));
    };
    let mut image = context.conf.text(key)?.unwrap_or_default();
    if context.line >= Line::V4_1 {
        image = with_version(key, &image, &context.submission.spark_version)?;
    }
    let policy = context.conf.option(conf::IMAGE_PULL_POLICY, &PULL_POLICIES)?;
    driver.container["image"] = image.into();
    driver.container["imagePullPolicy"] = policy.as_deref().unwrap_or(PULL_POLICIES[2]).into();
    Ok(())
}

/// Replaces `{{SPARK_VERSION}}` in `image` with `version`. The user writes both texts, so without a bound the result
/// could be as long as the product of their lengths.
fn with_version(key: &str, image: &str, version: &str) -> Result<String, NotNative> {
    const MARK: &str = "{{SPARK_VERSION}}";
    if image.matches(MARK).count().saturating_mul(version.len()) > LONGEST_IMAGE {
        let problem = format!("{MARK} adds more than {LONGEST_IMAGE} bytes: write the version itself");
        return Err(NotNative::refused(key, problem));
    }
    Ok(image.replace(MARK, version))
}

fn ports(context: &Context, driver: &mut Driver) -> Result<(), NotNative> {
    let port = |(name, port): (&str, i32)| json!({"name": name, "containerPort": port, "protocol": "TCP"});
    let ports = service::ports(context, service::Side::Container)?.into_iter().map(port);
    list(&mut driver.container, "ports").extend(ports);
    Ok(())
}

fn environment(context: &Context, driver: &mut Driver) {
    let environment = &context.submission.environment;
    let user = environment.spark_user.as_ref();
    let user = user.or(context.submission.proxy_user.as_ref()).or(environment.hadoop_user_name.as_ref());
    driver.add_env(env::SPARK_USER, user.unwrap_or(&environment.os_user));
    driver.add_env(env::SPARK_APPLICATION_ID, &context.submission.ids.application);
    for (name, value) in context.conf.prefixed(&conf::env(Role::Driver, "")) {
        driver.add_env(name, value);
    }
    let address = json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}});
    list(&mut driver.container, "env")
        .push(json!({"name": env::SPARK_DRIVER_BIND_ADDRESS, "valueFrom": address}));
}

/// Replaces `{{APP_ID}}` by the application's id and `{{EXECUTOR_ID}}` by `executor`, which is empty for a driver.
pub(super) fn with_ids(text: &str, submission: &Submission, executor: &str) -> String {
    text.replace("{{APP_ID}}", &submission.ids.application).replace("{{EXECUTOR_ID}}", executor)
}

#[cfg(test)]
mod tests {
    use super::{version_label, with_version};

    #[test]
    fn the_version_label_is_a_valid_label_value() {
        let cases = include_str!("../../../tests/data/spark-client/version-labels.json");
        for [version, label] in serde_json::from_str::<Vec<[&str; 2]>>(cases).unwrap() {
            assert_eq!(version_label(version), label, "{version}");
        }
    }

    #[test]
    fn the_version_is_inserted_into_the_image_up_to_a_maximum_length() {
        assert_eq!(with_version("key", "a:{{SPARK_VERSION}}", "4.1.0").unwrap(), "a:4.1.0");
        assert!(with_version("key", &"{{SPARK_VERSION}}".repeat(10_000), &"4.1.0".repeat(10_000)).is_err());
    }
}
