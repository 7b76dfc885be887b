//! Lists the options of `spark-submit` with which a server starts: the same options in the same order as Kubeflow's
//! operator. If two options set one property, Spark takes the later one.

use crate::{BLOCK_MANAGER_PORT, CONNECT_PORT, DRIVER_PORT, Policy, names, ui};
use api::{
    Embedded, Identity, Role, SparkConnect,
    names::{conf, label, submit_conf},
    stated,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube_core::ResourceExt;
use submission::allocation_properties;

/// Returns the options. Neither the shell nor the kubelet expands anything in them: see [`crate::server_pod`].
pub(super) fn options(connect: &SparkConnect, policy: &Policy) -> Vec<String> {
    let (spec, name) = (&connect.spec, connect.name_any());
    let mut options = vec!["--master".to_owned(), policy.master.clone()];
    let mut set = |key: &str, value: &str| options.extend(["--conf".to_owned(), format!("{key}={value}")]);
    set(conf::NAMESPACE, connect.own_namespace());
    if let Some(image) = image(spec.executor.template.as_ref(), Role::Executor, spec.image.as_ref()) {
        set(conf::IMAGE, image);
        set(&conf::kubernetes(Role::Executor, conf::CONTAINER_IMAGE), image);
    }
    if let Some(path) = ui::path(connect, &policy.exposure) {
        set(conf::UI_PROXY_BASE, &path);
        set(conf::UI_PROXY_REDIRECT_URI, "/");
    }
    for (key, value) in spec.spark_conf.iter().filter(|(key, _)| *key != conf::DRIVER_POD_NAME) {
        set(key, value);
    }
    for (key, value) in &spec.hadoop_conf {
        let prefix = if key.starts_with(conf::HADOOP_PREFIX) { "" } else { conf::HADOOP_PREFIX };
        set(&format!("{prefix}{key}"), value);
    }

    if let Some(cores) = spec.server.cores {
        set(&conf::spark(Role::Driver, conf::CORES), &cores.to_string());
    }
    if let Some(memory) = stated(&spec.server.memory) {
        set(&conf::spark(Role::Driver, conf::MEMORY), memory);
    }
    set(submit_conf::BIND_ADDRESS, "0.0.0.0");
    set(submit_conf::DRIVER_PORT, &DRIVER_PORT.to_string());
    set(submit_conf::DRIVER_BLOCK_MANAGER_PORT, &BLOCK_MANAGER_PORT.to_string());
    // The probes and the Service use this port.
    set(submit_conf::CONNECT_PORT, &CONNECT_PORT.to_string());
    // Spark makes this pod the owner of the executors.
    set(conf::DRIVER_POD_NAME, &names::server(connect));

    let of_executors = conf::kubernetes(Role::Executor, conf::LABEL_PREFIX);
    let is_free =
        |key: &str| !spark_client::RESERVED_LABELS.contains(&key) && !key.starts_with(label::KUEUE_PREFIX);
    for (key, value) in connect.labels().iter().filter(|(key, _)| is_free(key)) {
        set(&format!("{of_executors}{key}"), value);
    }
    set(&format!("{of_executors}{}", label::LAUNCHED_BY), "true");
    set(&format!("{of_executors}{}", label::CONNECT_NAME), &name);
    if let Some(instances) = spec.executor.instances {
        set(conf::EXECUTOR_INSTANCES, &instances.to_string());
    }
    if let Some(cores) = spec.executor.cores {
        set(&conf::spark(Role::Executor, conf::CORES), &cores.to_string());
    }
    if let Some(memory) = stated(&spec.executor.memory) {
        set(&conf::spark(Role::Executor, conf::MEMORY), memory);
    }
    set(conf::EXECUTOR_POD_NAME_PREFIX, &name);
    if spec.executor.template.is_some() {
        set(&conf::kubernetes(Role::Executor, conf::POD_TEMPLATE_FILE), names::TEMPLATE_FILE);
        let container = conf::kubernetes(Role::Executor, conf::POD_TEMPLATE_CONTAINER);
        set(&container, Role::Executor.container());
    }

    for (key, value) in allocation_properties(spec.dynamic_allocation.as_ref()) {
        set(key, &value);
    }
    options
}

/// Returns the image of the Spark container in a pod template: the container with Spark's name for the role, else the
/// first one. If it has no image, returns `common`.
pub(super) fn image<'a>(
    template: Option<&'a Embedded<PodTemplateSpec>>,
    role: Role,
    common: Option<&'a String>,
) -> Option<&'a str> {
    let containers = template.and_then(|template| template.json()["spec"]["containers"].as_array());
    let containers = containers.map_or(&[][..], Vec::as_slice);
    let named = containers.iter().find(|container| container["name"] == role.container());
    let own = named.or(containers.first()).and_then(|container| container["image"].as_str());
    let is_stated = |image: &&str| !image.is_empty();
    own.filter(is_stated).or(common.map(String::as_str).filter(is_stated))
}
