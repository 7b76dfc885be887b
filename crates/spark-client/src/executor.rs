//! Builds a model of the executors' pods: the pod of the first executor as the driver would create it, as far as the
//! submission determines it. With the model, mistakes for which Kubernetes would refuse every executor are found before
//! the driver is created. Based on Spark's `KubernetesExecutorBuilder` and its feature steps (4.0).
//!
//! The model leaves out the CPU and memory amounts that Spark computes. The name of the ConfigMap with the driver's
//! properties is a placeholder, since only the driver knows it.

use super::{
    Context, Submission,
    config_map::DIRECTORY,
    driver_in_progress::{Driver, extend, list},
    line::Line,
    local_dirs,
    not_native::NotNative,
    pod::{own_labels, with_ids},
    secrets,
    service::{BLOCK_MANAGER, BLOCK_MANAGER_PORT},
    submit_conf, template, volumes,
};
use api::{
    LONGEST_LABEL, Role, is_object_name,
    names::{conf, env, label, volume},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns the executor pod that Spark's driver would create for this submission, as far as it is known before.
///
/// # Errors
///
/// When Spark would refuse the submission or the executors' settings, or when a value can only be computed by running
/// Spark: see [`NotNative`].
pub fn executor(submission: &Submission) -> Result<Value, NotNative> {
    let (context, _) = super::context(submission)?;
    let read = |text: &String| serde_json::from_str(text).ok();
    let template: Option<Value> = submission.executor_template.as_ref().and_then(read);
    let (pod, container) = template::of_role(&context, Role::Executor, template.as_ref())?;
    let mut executor = Driver { pod, container, properties: BTreeMap::new(), children: Vec::new() };
    basic(&context, &mut executor)?;
    secrets::mount(&context, Role::Executor, &mut executor);
    secrets::set_variables(&context, Role::Executor, &mut executor)?;
    volumes::mount_into_executor(&context, &mut executor)?;
    local_dirs::local_dirs(&context, &mut executor)?;
    let Driver { mut pod, container, .. } = executor;
    list(&mut pod["spec"], "containers").push(container);
    Ok(pod)
}

/// The labels that Spark itself sets on executors (`KubernetesExecutorConf`). Spark refuses properties that set them.
pub const RESERVED: [&str; 6] = [
    label::SPARK_ROLE,
    label::SPARK_APP_SELECTOR,
    label::SPARK_APP_NAME,
    label::SPARK_VERSION,
    label::SPARK_EXEC_ID,
    "spark-exec-resourceprofile-id",
];

/// Whether the names of executors may begin with `text` (`Config.isValidExecutorPodNamePrefix`).
fn is_prefix(text: &str) -> bool {
    text.len() <= 237 && is_object_name(text)
}

fn basic(context: &Context, executor: &mut Driver) -> Result<(), NotNative> {
    let role = Role::Executor;
    let prefix = context.conf.text(conf::EXECUTOR_POD_NAME_PREFIX)?;
    if let Some(prefix) = prefix.as_ref().filter(|prefix| !is_prefix(prefix)) {
        let problem = format!(
            "`{prefix}` cannot begin the names of pods: write lower-case letters, digits, `-` and `.`, at most 237"
        );
        return Err(NotNative::refused(conf::EXECUTOR_POD_NAME_PREFIX, problem));
    }
    let prefix = prefix.unwrap_or_else(|| context.names.prefix.clone());
    // Spark makes the host name of an executor from the last 63 characters of its pod's name and replaces each `.` by
    // `_`, which Kubernetes refuses in host names.
    if prefix.chars().rev().take(LONGEST_LABEL - "-exec-1".len() - 1).any(|c| c == '.') {
        let problem = format!("`{prefix}` would be in host names, which have no `.`: write `-`");
        return Err(NotNative::refused(conf::EXECUTOR_POD_NAME_PREFIX, problem));
    }
    let pod = &mut executor.pod;
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = format!("{prefix}-exec-1").into();
    for (field, prefix) in [("labels", conf::LABEL_PREFIX), ("annotations", conf::ANNOTATION_PREFIX)] {
        let prefix = conf::kubernetes(role, prefix);
        let entries = context.conf.prefixed(&prefix);
        let entries = entries.map(|(name, value)| (name, with_ids(value, context.submission, "1")));
        extend(&mut pod["metadata"], field, entries);
    }
    for own in RESERVED {
        let key = format!("{}{own}", conf::kubernetes(role, conf::LABEL_PREFIX));
        if context.conf.has(&key) {
            let problem = format!("Custom executor labels cannot contain {own} as it is reserved for Spark.");
            return Err(NotNative::refused(&key, problem));
        }
    }
    extend(&mut pod["metadata"], "labels", own_labels(context.submission, &context.names, role));
    pod["metadata"]["labels"][label::SPARK_EXEC_ID] = "1".into();
    pod["spec"]["restartPolicy"] = "Never".into();
    for prefix in submit_conf::node_selector_prefixes(role) {
        extend(&mut pod["spec"], "nodeSelector", context.conf.prefixed(&prefix));
    }
    let own = conf::kubernetes(role, conf::CONTAINER_IMAGE);
    let image = context.conf.first_set(&[&own, conf::IMAGE]).map(|key| context.conf.text(key)).transpose()?;
    executor.container["image"] = image.flatten().unwrap_or_default().into();
    executor.container["args"] = json!([role.as_str()]);
    let version = &context.submission.spark_version;
    // Spark before 3.4 drops the template's ports.
    if Line::is_older(version, (3, 4)) {
        executor.container["ports"] = Value::Null;
    }
    let port = context.conf.raw(submit_conf::BLOCK_MANAGER_PORT);
    if let Some(port @ 1..=65_535) = port.map_or(Some(BLOCK_MANAGER_PORT), |port| port.trim().parse().ok()) {
        let port = json!({"name": BLOCK_MANAGER, "containerPort": port, "protocol": "TCP"});
        list(&mut executor.container, "ports").push(port);
    }
    let has_no_config_map = context.conf.boolean(submit_conf::EXECUTOR_WITHOUT_CONFIG_MAP)?.unwrap_or(false)
        || Line::is_older(version, (3, 1));
    if !has_no_config_map {
        let source = json!({"configMap": {"name": "spark-exec-conf-map"}});
        executor.mount(volume::SPARK_CONF_EXECUTOR, source, DIRECTORY);
    }
    // Spark overwrites these amounts of the template.
    for (list, name) in [("requests", "cpu"), ("requests", "memory"), ("limits", "memory")] {
        let amounts = executor.container.pointer_mut(&format!("/resources/{list}"));
        if let Some(amounts) = amounts.and_then(Value::as_object_mut) {
            amounts.remove(name);
        }
    }
    executor.add_env(env::SPARK_APPLICATION_ID, &context.submission.ids.application);
    for (name, value) in context.conf.prefixed(&conf::env(role, "")).filter(|(name, _)| is_variable(name)) {
        executor.add_env(name, value);
    }
    Ok(())
}

/// Whether Spark sets the environment variable `name` in executors: it leaves out invalid names and logs them
/// (`KubernetesExecutorConf.checkExecutorEnvKey`).
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || "-._".contains(c))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}
