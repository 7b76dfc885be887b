//! Builds the spec of a submission pod. Scheduling, security contexts, environment and volumes are those of the driver.

use super::{DIRECTORY, HADOOP_CONF, SPARK_CONF, Settings};
use crate::{SparkSubmit, copy_fields, pod_templates};
use api::{Role, SparkApplication, conf, container, env, quantity, stated, volume};
use serde_json::{Value, json};
use spark_client::{Conf, Environment, Line, existing_volumes, place};
use std::collections::BTreeSet;

/// The shell script that runs `spark-submit` and writes its exception to the termination message for the operator.
const SCRIPT: &str = include_str!("submit.sh");
/// The volume with the run's properties and templates.
const FILES: &str = "spark-submission";
/// The volume for temporary files, which is needed if the root file system is read-only.
const SCRATCH: &str = "spark-submission-tmp";
const TMP: &str = "/tmp";
/// How many seconds `spark-submit` may continue after its pod was deleted. `spark-submit` has nothing to clean up: the
/// operator replaces objects of an incomplete submission.
const GRACE_SECONDS: u8 = 2;
/// The field with the name of the scheduler that places the pod.
const SCHEDULER_NAME: &str = "schedulerName";

/// The fields that the submission pod copies from the driver's pod: they decide where a pod may run, as which user, and
/// how it resolves names.
const SHARED: [&str; 14] = [
    "affinity", "dnsConfig", "dnsPolicy", "hostAliases", "hostUsers", "imagePullSecrets", "nodeSelector",
    "os", "priorityClassName", "runtimeClassName", SCHEDULER_NAME, "securityContext", "serviceAccountName",
    "tolerations",
];
/// The variables with which an application sets a configuration directory for its driver. In the submission pod,
/// `spark-submit` would copy that configuration to the driver, which has it already.
const OF_DRIVER_ALONE: [&str; 2] = [env::HADOOP_CONF_DIR, env::SPARK_CONF_DIR];

/// Returns the spec of the submission pod. `admins` is the environment that the admin sets for `spark-submit`, and `files` the
/// volume with the files that `command` names.
pub(super) fn spec(
    application: &SparkApplication,
    command: &SparkSubmit,
    settings: &Settings,
    admins: &Environment,
    mut files: Value,
) -> Result<Value, String> {
    let conf = Conf(command.properties.clone(), Line::nearest(&application.spec.spark_version).0);
    let mut driver = pod_templates::customized(application, Role::Driver)?;
    let sparks = pod_templates::sparks_container(&mut driver["spec"]["containers"], Role::Driver);
    let sparks = &driver["spec"]["containers"][sparks];

    let (mut volumes, mut mounts) = volumes(&driver["spec"], sparks, &conf)?;
    files["name"] = FILES.into();
    volumes.push(files);
    mounts.push(json!({"name": FILES, "mountPath": DIRECTORY, "readOnly": true}));
    if !mounts.iter().any(|mount| mount["mountPath"] == TMP) {
        volumes.push(json!({"name": SCRATCH, "emptyDir": {}}));
        mounts.push(json!({"name": SCRATCH, "mountPath": TMP}));
    }
    let mut args: Vec<Value> =
        ["bash", "-c", SCRIPT, container::SPARK_SUBMIT, &settings.program].map(Value::from).into();
    args.extend(command.arguments.iter().map(|argument| Value::from(escaped(argument))));
    let mut submit = json!({
        "name": container::SPARK_SUBMIT,
        "image": image(&conf)?,
        "imagePullPolicy": conf.raw(conf::IMAGE_PULL_POLICY).unwrap_or("IfNotPresent"),
        "args": args,
        "env": environment(sparks, &conf, admins),
        "volumeMounts": mounts,
        "resources": resources(settings, &conf),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    copy_fields(&mut submit, sparks, &["envFrom", "securityContext"]);

    let mut pod = json!({});
    copy_fields(&mut pod, &driver["spec"], &SHARED);
    place(&mut pod, Role::Driver, &conf);
    // The submission pod has neither the group nor the queue of the driver. For such a pod a batch scheduler creates a group
    // in its default queue. Where that queue is full or closed, the driver would never be created.
    if stated(&application.spec.batch_scheduler).is_some()
        && let Some(fields) = pod.as_object_mut()
    {
        fields.remove(SCHEDULER_NAME);
    }
    pod["containers"] = json!([submit]);
    pod["volumes"] = volumes.into();
    pod["restartPolicy"] = "Never".into();
    pod["activeDeadlineSeconds"] = settings.deadline.as_secs().max(1).into();
    pod["terminationGracePeriodSeconds"] = GRACE_SECONDS.into();
    Ok(pod)
}

/// Returns an argument in the form in which it has to be written in a container's `args`, where Kubernetes replaces
/// `$(NAME)` and turns `$$` into `$`.
fn escaped(argument: &str) -> String {
    let mut parts = argument.split('$').peekable();
    let mut escaped = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        let is_syntax = part.starts_with('(') || part.is_empty() && parts.peek().is_some();
        escaped.extend([if is_syntax { "$$" } else { "$" }, part]);
    }
    escaped
}

/// Returns the resources of the container, which the admin sets. The container has a CPU limit if the driver has one,
/// because a ResourceQuota may demand a CPU limit of every container.
fn resources(settings: &Settings, conf: &Conf) -> Value {
    let Settings { cpu, memory, .. } = settings;
    let mut resources = json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}});
    if let Some(limit) = conf.raw(&conf::kubernetes(Role::Driver, conf::LIMIT_CORES)) {
        let is_enough = quantity::amount(limit) >= quantity::amount(cpu);
        resources["limits"]["cpu"] = if is_enough { limit } else { cpu }.into();
    }
    resources
}

/// # Errors
///
/// When there is no image, or when the image cannot be known without running Spark.
fn image(conf: &Conf) -> Result<&str, String> {
    let of_driver = conf::kubernetes(Role::Driver, conf::CONTAINER_IMAGE);
    let image = conf.raw(&of_driver).or_else(|| conf.raw(conf::IMAGE)).map_or("", str::trim);
    if image.is_empty() {
        Err("spec.image: must be set, or spec.driver.image".to_owned())
    } else if image.contains("${") || image.contains("{{") {
        let why = "has variables that only spark-submit replaces, but it runs in that image: write it out";
        Err(format!("spec.image: `{image}` {why}"))
    } else {
        Ok(image)
    }
}

/// Returns the environment variables of the driver, followed by the variables by which `spark-submit` finds its files,
/// which override them.
fn environment(sparks: &Value, conf: &Conf, admins: &Environment) -> Vec<Value> {
    let plain = |name: &str, value: &str| json!({"name": name, "value": value});
    let of_admin = [
        (env::SPARK_USER, &admins.spark_user),
        (env::HADOOP_USER_NAME, &admins.hadoop_user_name),
        (env::PYSPARK_PYTHON, &admins.pyspark_python),
        (env::PYSPARK_DRIVER_PYTHON, &admins.pyspark_driver_python),
        (env::SPARK_LOCAL_DIRS, &admins.spark_local_dirs),
    ];
    let mut variables: Vec<_> =
        of_admin.into_iter().filter_map(|(name, value)| Some(plain(name, value.as_ref()?))).collect();
    variables.extend(sparks["env"].as_array().into_iter().flatten().cloned());
    let of_driver = conf::env(Role::Driver, "");
    variables.extend(conf.prefixed(&of_driver).map(|(name, value)| plain(name, value)));
    let secrets = conf::kubernetes(Role::Driver, conf::SECRET_KEY_REF_PREFIX);
    variables.extend(conf.prefixed(&secrets).filter_map(|(name, reference)| {
        let (secret, key) = reference.split_once(':')?;
        Some(json!({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}))
    }));
    variables.retain(|variable| !OF_DRIVER_ALONE.iter().any(|name| variable["name"] == *name));
    // A JVM decodes arguments by the locale. Without a locale it replaces non-ASCII letters by question marks.
    variables.push(plain("LC_ALL", "C.UTF-8"));
    if !admins.spark_conf.is_empty() {
        variables.push(plain(env::SPARK_CONF_DIR, &format!("{DIRECTORY}/{SPARK_CONF}")));
    }
    if admins.hadoop_conf.is_some() {
        variables.push(plain(env::HADOOP_CONF_DIR, &format!("{DIRECTORY}/{HADOOP_CONF}")));
    }
    // If several entries have the same name, the last one is used.
    let mut seen = BTreeSet::new();
    variables.reverse();
    variables.retain(|variable| seen.insert(variable["name"].to_string()));
    variables.reverse();
    variables
}

/// Returns the volumes that the driver's Spark container mounts, and the mounts. `spark-submit` may need their files:
/// local files that are to be uploaded, keytabs and credentials. Scratch space and claims that are created for the
/// driver are left out: only the driver uses them.
fn volumes(driver: &Value, sparks: &Value, conf: &Conf) -> Result<(Vec<Value>, Vec<Value>), String> {
    let elements = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (mut volumes, mut mounts) = (elements(&driver["volumes"]), elements(&sparks["volumeMounts"]));
    for (name, path) in conf.prefixed(&conf::kubernetes(Role::Driver, conf::SECRETS_PREFIX)) {
        let volume = format!("{name}{}", volume::SECRET_SUFFIX);
        volumes.push(json!({"name": volume, "secret": {"secretName": name}}));
        mounts.push(json!({"name": volume, "mountPath": path}));
    }
    for (volume, mount) in existing_volumes(conf).map_err(|why| why.to_string())? {
        volumes.push(volume);
        mounts.push(mount);
    }
    mounts.retain(|mount| !volume::is_scratch(mount));
    let mounted: BTreeSet<_> = mounts.iter().map(|mount| mount["name"].as_str()).collect();
    volumes.retain(|volume| mounted.contains(&volume["name"].as_str()));
    Ok((volumes, mounts))
}

#[cfg(test)]
mod tests {
    use super::escaped;

    /// `k8s.io/kubernetes/third_party/forked/golang/expansion` of Kubernetes turns each expected text into the
    /// argument.
    #[test]
    fn arguments_are_escaped_against_variable_expansion_by_kubernetes() {
        for (argument, expected) in [
            ("$(HOME)", "$$(HOME)"),
            ("a$$b$", "a$$$b$"),
            ("$$(X)", "$$$$(X)"),
            ("$HOME ${X} 5$", "$HOME ${X} 5$"),
        ] {
            assert_eq!(escaped(argument), expected);
        }
    }
}
