//! Lists the fields of a role's section that set one property of Spark each, and finds the field of the spec that sets
//! a property.

use super::allocation;
use api::{Dependencies, Role, SparkApplicationSpec, SparkPodSpec, conf, submit_conf};
use std::borrow::Cow;

api::words! {
    /// A field of a role's section that becomes one property of Spark. The text is the field's name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RoleField {
        Cores = "cores",
        CoreRequest = "coreRequest",
        CoreLimit = "coreLimit",
        Memory = "memory",
        MemoryOverhead = "memoryOverhead",
        JavaOptions = "javaOptions",
    }
}

impl RoleField {
    /// Returns the key of the property.
    pub fn key(self, role: Role) -> String {
        match self {
            Self::Cores => conf::spark(role, conf::CORES),
            Self::CoreRequest => conf::kubernetes(role, conf::REQUEST_CORES),
            Self::CoreLimit => conf::kubernetes(role, conf::LIMIT_CORES),
            Self::Memory => conf::spark(role, conf::MEMORY),
            Self::MemoryOverhead => conf::spark(role, conf::MEMORY_OVERHEAD),
            Self::JavaOptions => conf::spark(role, conf::EXTRA_JAVA_OPTIONS),
        }
    }

    /// Returns the value of the field in `section`; `None` if it is unset.
    pub fn stated(self, section: &SparkPodSpec) -> Option<Cow<'_, str>> {
        let text = match self {
            Self::Cores => return section.cores.map(|cores| cores.to_string().into()),
            Self::CoreRequest => &section.core_request,
            Self::CoreLimit => &section.core_limit,
            Self::Memory => &section.memory,
            Self::MemoryOverhead => &section.memory_overhead,
            Self::JavaOptions => &section.java_options,
        };
        text.as_deref().map(Cow::Borrowed)
    }
}

/// Returns the flags of `spark-submit` for the application's dependencies: for each flag with values, the property that
/// the flag sets, the path of the field in the spec, and the list of values, which have to be joined with commas.
pub(super) fn dependencies(
    deps: &Dependencies,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str, &[String])> {
    let excluded = &deps.exclude_packages;
    let lists: [(_, _, _, &[String]); 7] = [
        ("--jars", submit_conf::JARS, "deps.jars", &deps.jars),
        ("--packages", submit_conf::PACKAGES, "deps.packages", &deps.packages),
        ("--exclude-packages", submit_conf::EXCLUDED_PACKAGES, "deps.excludePackages", excluded),
        ("--repositories", submit_conf::REPOSITORIES, "deps.repositories", &deps.repositories),
        ("--py-files", submit_conf::PY_FILES, "deps.pyFiles", &deps.py_files),
        ("--files", submit_conf::FILES, "deps.files", &deps.files),
        ("--archives", submit_conf::ARCHIVES, "deps.archives", &deps.archives),
    ];
    lists.into_iter().filter(|(.., list)| !list.is_empty())
}

/// Returns the path of the field of `spec`, which is at `root` in its object, that sets `property`; `property` itself if no
/// field sets it. `property` may also be a flag of `spark-submit`, the main class or the main file.
pub fn field_of(spec: &SparkApplicationSpec, root: &str, property: &str) -> String {
    let configured = || spec.spark_conf.contains_key(property).then(|| format!("sparkConf[{property}]"));
    let stated = of_application(spec, property).or_else(configured).or_else(|| stated_in(spec, property));
    stated.map_or_else(|| property.to_owned(), |field| format!("{root}.{field}"))
}

/// Returns the field other than `sparkConf` that sets `property`, if there is one.
pub fn stated_in(spec: &SparkApplicationSpec, property: &str) -> Option<String> {
    let hadoop = property.strip_prefix(conf::HADOOP_PREFIX).filter(|key| spec.hadoop_conf.contains_key(*key));
    of_application(spec, property)
        .or_else(|| hadoop.map(|key| format!("hadoopConf[{key}]")))
        .or_else(|| Role::ALL.into_iter().find_map(|role| of_role(spec, role, property)))
}

/// Returns the field that sets `property` for the whole application.
fn of_application(spec: &SparkApplicationSpec, property: &str) -> Option<String> {
    let mut allocation = allocation::fields(spec.dynamic_allocation.as_ref());
    let mut lists = dependencies(&spec.deps);
    if let Some((field, ..)) = allocation.find(|(_, key, value)| *key == property && value.is_some()) {
        return Some(format!("dynamicAllocation.{field}"));
    }
    let field = match property {
        "--class" => "mainClass",
        class if spec.main_class.as_deref() == Some(class) => "mainClass",
        program if program == spec.main_application_file => "mainApplicationFile",
        conf::IMAGE_PULL_POLICY if spec.image_pull_policy.is_some() => "imagePullPolicy",
        conf::PYTHON_VERSION if spec.python_version.is_some() => "pythonVersion",
        conf::MEMORY_OVERHEAD_FACTOR if spec.memory_overhead_factor.is_some() => "memoryOverheadFactor",
        conf::EXECUTOR_INSTANCES if spec.executor.instances.is_some() => "executor.instances",
        _ => lists.find(|(flag, key, ..)| [*flag, *key].contains(&property))?.2,
    };
    Some(field.to_owned())
}

fn of_role(spec: &SparkApplicationSpec, role: Role, property: &str) -> Option<String> {
    let pod = role.pod(spec);
    let below = |prefix: &str| property.strip_prefix(&conf::kubernetes(role, prefix));
    let is_set = |field: &RoleField| field.stated(pod).is_some() && field.key(role) == property;
    let field = if let Some(field) = RoleField::ALL.into_iter().find(is_set) {
        field.as_str().to_owned()
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
