//! Finds the field of the spec from which a property of Spark was made.

use super::dependencies;
use api::{
    Role, SparkApplicationSpec,
    names::{conf, submit_conf},
};

/// Returns the path of the field of `spec`, which is at `root` in its object, that sets `property`; `property` itself if no
/// field sets it. `property` may also be a flag of `spark-submit`, the main class or the main file.
pub(crate) fn field_of(spec: &SparkApplicationSpec, root: &str, property: &str) -> String {
    let configured = || spec.spark_conf.contains_key(property).then(|| format!("sparkConf[{property}]"));
    let stated = of_allocation(spec, property)
        .or_else(|| of_program(spec, property))
        .or_else(|| of_list(spec, property))
        .or_else(configured)
        .or_else(|| stated_in(spec, property));
    stated.map_or_else(|| property.to_owned(), |field| format!("{root}.{field}"))
}

/// Returns the field beside `sparkConf` that sets `property`, if any does.
pub(crate) fn stated_in(spec: &SparkApplicationSpec, property: &str) -> Option<String> {
    of_allocation(spec, property)
        .or_else(|| of_program(spec, property))
        .or_else(|| of_hadoop(spec, property))
        .or_else(|| of_list(spec, property))
        .or_else(|| Role::ALL.into_iter().find_map(|role| of_role(spec, role, property)))
}

fn of_allocation(spec: &SparkApplicationSpec, property: &str) -> Option<String> {
    let allocation = spec.dynamic_allocation.as_ref().filter(|allocation| allocation.enabled)?;
    let (field, is_stated) = match property {
        conf::DYNAMIC_ALLOCATION => ("enabled", true),
        conf::DYNAMIC_ALLOCATION_INITIAL => ("initialExecutors", allocation.initial_executors.is_some()),
        conf::DYNAMIC_ALLOCATION_MIN => ("minExecutors", allocation.min_executors.is_some()),
        conf::DYNAMIC_ALLOCATION_MAX => ("maxExecutors", allocation.max_executors.is_some()),
        conf::SHUFFLE_TRACKING => ("shuffleTrackingEnabled", allocation.shuffle_tracking_enabled.is_some()),
        conf::SHUFFLE_TRACKING_TIMEOUT => {
            ("shuffleTrackingTimeout", allocation.shuffle_tracking_timeout.is_some())
        }
        _ => return None,
    };
    is_stated.then(|| format!("dynamicAllocation.{field}"))
}

fn of_program(spec: &SparkApplicationSpec, property: &str) -> Option<String> {
    let is_class = property == "--class" || spec.main_class.as_deref() == Some(property);
    let field = match property {
        _ if is_class => "mainClass",
        program if program == spec.main_application_file => "mainApplicationFile",
        conf::IMAGE_PULL_POLICY if spec.image_pull_policy.is_some() => "imagePullPolicy",
        conf::PYTHON_VERSION if spec.python_version.is_some() => "pythonVersion",
        conf::MEMORY_OVERHEAD_FACTOR if spec.memory_overhead_factor.is_some() => "memoryOverheadFactor",
        conf::EXECUTOR_INSTANCES if spec.executor.instances.is_some() => "executor.instances",
        _ => return None,
    };
    Some(field.to_owned())
}

fn of_hadoop(spec: &SparkApplicationSpec, property: &str) -> Option<String> {
    let key = property.strip_prefix(conf::HADOOP_PREFIX)?;
    spec.hadoop_conf.contains_key(key).then(|| format!("hadoopConf[{key}]"))
}

fn of_list(spec: &SparkApplicationSpec, property: &str) -> Option<String> {
    let lists = dependencies::lists(&spec.deps).into_iter();
    let mut found = lists.filter(|(flag, key, list)| [*flag, *key].contains(&property) && !list.is_empty());
    let (_, key, _) = found.next()?;
    let name = match key {
        submit_conf::PY_FILES => "pyFiles",
        submit_conf::EXCLUDED_PACKAGES => "excludePackages",
        key => key.rsplit('.').next().unwrap_or(key),
    };
    Some(format!("deps.{name}"))
}

fn of_role(spec: &SparkApplicationSpec, role: Role, property: &str) -> Option<String> {
    let pod = role.pod(spec);
    let is_set = |suffix: &str, is_stated: bool| is_stated && property == conf::spark(role, suffix);
    let below = |prefix: &str| property.strip_prefix(&conf::kubernetes(role, prefix));
    let field = if is_set(conf::EXTRA_JAVA_OPTIONS, pod.java_options.is_some()) {
        "javaOptions".to_owned()
    } else if is_set(conf::MEMORY, pod.memory.is_some()) {
        "memory".to_owned()
    } else if is_set(conf::MEMORY_OVERHEAD, pod.memory_overhead.is_some()) {
        "memoryOverhead".to_owned()
    } else if is_set(conf::CORES, pod.cores.is_some()) {
        "cores".to_owned()
    } else if below(conf::REQUEST_CORES) == Some("") && pod.core_request.is_some() {
        "coreRequest".to_owned()
    } else if below(conf::LIMIT_CORES) == Some("") && pod.core_limit.is_some() {
        "coreLimit".to_owned()
    } else if let Some(key) = below(conf::LABEL_PREFIX).filter(|key| pod.labels.contains_key(*key)) {
        format!("labels[{key}]")
    } else if let Some(key) = below(conf::ANNOTATION_PREFIX).filter(|key| pod.annotations.contains_key(*key))
    {
        format!("annotations[{key}]")
    } else if below(conf::SECRETS_PREFIX).is_some() {
        "secrets".to_owned()
    } else if below(conf::VOLUMES_PREFIX).is_some() {
        let prefix = conf::kubernetes(role, conf::VOLUMES_PREFIX);
        if spec.spark_conf.keys().any(|key| key.starts_with(&prefix)) {
            return Some(format!("sparkConf[{property}]"));
        }
        "volumeMounts".to_owned()
    } else if let Some(name) = property.strip_prefix(&conf::env(role, "")) {
        if pod.env_vars.contains_key(name) { format!("envVars[{name}]") } else { "secrets".to_owned() }
    } else {
        return None;
    };
    Some(format!("{}.{field}", role.as_str()))
}
