//! Checks that sparkConf does not set properties that belong to the operator.

use super::{Subject, customization, nearest, property};
use api::{Role, SparkPodSpec, annotation, batch_scheduler, conf, label, submit_conf};
use submission::{RoleField, driver_pod_name};

/// Refuses the keys that Kubeflow's operator refuses too, in the same words.
pub(super) fn denied(subject: &Subject) {
    let instead = |path: String| format!("write {} instead", subject.field(path));
    let taken_out = |what: &str| format!("{what}: take it out");
    let account = |role| (conf::service_account(role), instead(format!("{role}.serviceAccount")));
    let credentials = |key: &str| (key.to_owned(), taken_out("credentials are the operator's"));
    let image = |role| (conf::kubernetes(role, conf::CONTAINER_IMAGE), instead(format!("{role}.image")));
    // A manifest need not state the namespace, and `sparkctl render` then does not know it.
    let namespace = subject.application.metadata.namespace.as_ref();
    let other =
        namespace.filter(|own| subject.configured(conf::NAMESPACE).is_some_and(|(_, given)| given != **own));
    let other = other.map(|own| taken_out(&format!("an application runs in its own namespace, `{own}`")));
    let denied = Role::ALL.map(account).into_iter().chain(conf::CREDENTIALS.map(credentials));
    let denied = denied.chain([
        (conf::MASTER.to_owned(), taken_out("the operator sets it")),
        (conf::DRIVER_MASTER.to_owned(), instead("driver.kubernetesMaster".to_owned())),
        (conf::IMAGE.to_owned(), instead("image".to_owned())),
    ]);
    let denied = denied.chain(Role::ALL.map(image)).chain(other.map(|why| (conf::NAMESPACE.to_owned(), why)));
    for (key, why) in denied.filter(|(key, _)| subject.spec.spark_conf.contains_key(key)) {
        subject.refuse("sparkConf", format_args!("sparkConf key \"{key}\" is not allowed: {why}"));
    }
}

/// Refuses annotations of the contract in `sparkConf` and in the annotations of a role. The operator writes these
/// annotations into the pod template, but in Spark an annotation from the configuration overrides the template. Also refuses,
/// for drivers and in their templates too, the annotation of drivers whose executors' template can be rewritten: another
/// driver would be taken for one of these.
pub(super) fn contract(subject: &Subject, role: Role, pod: &SparkPodSpec) {
    let prefix = conf::kubernetes(role, conf::ANNOTATION_PREFIX);
    let configured = subject.spec.spark_conf.keys().filter_map(|key| key.strip_prefix(&prefix));
    let configured = configured.map(|key| ("sparkConf".to_owned(), key));
    let stated = pod.annotations.keys().map(|key| (format!("{role}.annotations"), key.as_str()));
    for (field, key) in configured.chain(stated) {
        if pod_customization::is_of_contract(key) {
            let why = "is the operator's: write the field of spec from which it is created";
            subject.refuse(field, format_args!("`{key}` {why}"));
        } else if key == annotation::TEMPLATE && role == Role::Driver {
            subject.refuse(field, format_args!("`{key}` is the operator's: take it out"));
        }
    }
    let templated = pod.template.as_ref().map(|template| &template.json()["metadata"]["annotations"]);
    if role == Role::Driver && templated.is_some_and(|given| !given[annotation::TEMPLATE].is_null()) {
        let why = format_args!("`{}` is the operator's: take it out", annotation::TEMPLATE);
        subject.refuse(format_args!("{role}.template.metadata.annotations"), why);
    }
}

/// Refuses properties in which the replacement of `${…}` exceeds a bound: the operator would not replace them, and
/// Spark in the driver would need too much memory or time.
pub(super) fn references(subject: &Subject) {
    let Subject { spec, .. } = subject;
    let fields = ["sparkConf", "hadoopConf"];
    let properties = [("", &spec.spark_conf), (conf::HADOOP_PREFIX, &spec.hadoop_conf)];
    for (i, key, why) in spark_client::unbounded(&properties) {
        subject.refuse(format_args!("{}[{key}]", fields[i]), why);
    }
}

/// The maximum number of elements of a list that become parts of a pod. An element of two bytes takes more than 1 KiB of a
/// planned pod, and the API server stores no pod with some thousand directories.
const MOST_ELEMENTS: usize = 1000;

/// Refuses comma-separated lists that make a pod too large to be planned.
pub(super) fn lists(subject: &Subject) {
    let refuse = |path: String, elements: usize| {
        if elements > MOST_ELEMENTS {
            let why =
                format_args!("is a list of {elements} elements, and at most {MOST_ELEMENTS} are possible");
            subject.refuse(path, why);
        }
    };
    let elements = |list: &String| list.split(',').count();
    for key in [submit_conf::LOCAL_DIR, conf::IMAGE_PULL_SECRETS] {
        refuse(property(key), subject.spec.spark_conf.get(key).map_or(0, elements));
    }
    refuse("imagePullSecrets".to_owned(), subject.spec.image_pull_secrets.iter().map(elements).sum());
}

/// Warns of properties that the operator sets as well and overrides. ([`super::planned`] warns of those that a field sets.)
pub(super) fn without_effect(subject: &Subject) {
    let given = &subject.spec.spark_conf;
    let outweighed = |key: &str, by: &str| {
        if given.contains_key(key) {
            subject.warn("sparkConf", format_args!("`{key}` is ignored: {by}"));
        }
    };
    for (key, value) in [
        (conf::WAIT_APP_COMPLETION, "false"),
        (conf::DEPLOY_MODE, "cluster"),
        (conf::APP_NAME, subject.name()),
    ] {
        if given.get(key).is_some_and(|given| given != value) {
            outweighed(key, &format!("the operator sets it to `{value}`"));
        }
    }
    let name = driver_pod_name(subject.application);
    if given.get(conf::DRIVER_POD_NAME).is_some_and(|given| !given.is_empty() && *given != name) {
        outweighed(conf::DRIVER_POD_NAME, &format!("{} counts", subject.field("driver.podName")));
    }
    for role in Role::ALL {
        let template = format!("write {} instead", subject.field(format_args!("{role}.template")));
        for key in [conf::POD_TEMPLATE_FILE, conf::POD_TEMPLATE_CONTAINER] {
            outweighed(&conf::kubernetes(role, key), &template);
        }
        for label in [label::APP_NAME, label::LAUNCHED_BY, label::SUBMISSION_ID, label::MUTATED_BY] {
            let key = conf::kubernetes(role, &format!("{}{label}", conf::LABEL_PREFIX));
            outweighed(&key, "the operator sets it");
        }
    }
}

/// Warns of settings of Spark on Kubernetes that this version of Spark does not have, and so ignores.
pub(super) fn unknown(subject: &Subject) {
    let (line, note) = spark_client::Line::nearest(&subject.spec.spark_version);
    // The settings of an unknown version are not known.
    if note.is_some() {
        return;
    }
    let keys =
        subject.spec.spark_conf.keys().filter(|key| !key.contains(|c: char| c.is_whitespace() || c == '"'));
    for (key, setting) in
        keys.filter_map(|key| Some((key, key.strip_prefix(submit_conf::KUBERNETES_PREFIX)?)))
    {
        if spark_client::is_setting(setting, line) || setting.starts_with(batch_scheduler::VOLCANO_SETTINGS) {
            continue;
        }
        let similar = || {
            let meant = nearest(setting, spark_client::settings(line))?;
            Some(format!("{}{meant}", submit_conf::KUBERNETES_PREFIX))
        };
        let instead = advice(subject, || instead_of(subject, setting).or_else(similar));
        subject.warn(property(key), format_args!("is not a setting of Spark {line}, ignored{instead}"));
    }
}

/// Returns the advice to write what is probably meant, if that is known. Empty if the list of warnings is full: users do not
/// see further ones.
fn advice(subject: &Subject, meant: impl FnOnce() -> Option<String>) -> String {
    let is_listed = !subject.findings.borrow().is_full();
    is_listed.then(meant).flatten().map_or_else(String::new, |meant| format!(": write {meant}"))
}

/// Returns the field, or the setting, that does what a setting that Spark does not have seems to mean.
fn instead_of(subject: &Subject, setting: &str) -> Option<String> {
    let role = Role::ALL.into_iter().find(|role| setting.starts_with(&format!("{role}.")));
    let name = role.map_or(setting, |role| &setting[role.as_str().len() + 1..]);
    if name == "memoryOverheadFactor" {
        return Some(subject.field(name));
    }
    let first = name.split('.').next();
    let is_meant =
        |path: &String| path.rsplit('.').next().zip(first).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b));
    let roles = Role::ALL.into_iter().filter(|it| role.is_none_or(|role| role == *it));
    let mut meant: Vec<_> = roles.filter_map(|role| fields(role).find(is_meant)).collect();
    // Some fields are the same for both roles.
    meant.dedup();
    let meant: Vec<_> = meant.into_iter().map(|path| subject.field(path)).collect();
    (!meant.is_empty()).then(|| meant.join(" and "))
}

/// Returns the paths of the fields that users look for among Spark's settings.
fn fields(role: Role) -> impl Iterator<Item = String> {
    let others = RoleField::ALL.map(RoleField::as_str).into_iter().chain(["image", "serviceAccount"]);
    customization::fields(role).chain(others.map(move |name| format!("{role}.{name}")))
}

/// Warns of settings below a volume that Spark does not read.
pub(super) fn of_volumes(subject: &Subject, role: Role, _: &SparkPodSpec) {
    let prefix = conf::kubernetes(role, conf::VOLUMES_PREFIX);
    for key in subject.spec.spark_conf.keys() {
        let below = key.strip_prefix(&prefix).map(|rest| rest.splitn(3, '.').collect::<Vec<_>>());
        let Some(&[kind, _, setting]) = below.as_deref() else { continue };
        let is_read = VOLUME_SETTINGS.lines().any(|known| spark_client::belongs(setting, known));
        if VOLUMES.contains(&kind) && !is_read {
            let meant = advice(subject, || nearest(setting, VOLUME_SETTINGS.lines()));
            subject.warn(property(key), format_args!("Spark does not read it{meant}"));
        }
    }
}

/// The kinds of volumes whose settings are known, and these settings (`KubernetesVolumeUtils`): one that ends in a dot is a
/// prefix of settings.
const VOLUMES: [&str; 4] = ["emptyDir", "hostPath", "nfs", "persistentVolumeClaim"];
const VOLUME_SETTINGS: &str = include_str!("volume-settings.txt");

#[cfg(test)]
mod tests {
    use super::MOST_ELEMENTS;
    use crate::{Files, examine};
    use serde_json::{from_value, json};

    /// Otherwise a list of 256 KiB would make pods of a gigabyte.
    #[test]
    fn lists_that_make_a_pod_too_large_are_refused() {
        let invalid = |elements: usize| {
            let list = |of: &str| (0..elements).map(|i| format!("{of}{i}")).collect::<Vec<_>>().join(",");
            let application = json!({
                "metadata": {"name": "pi", "namespace": "default"},
                "spec": {
                    "type": "Python", "mode": "cluster", "sparkVersion": "4.0.1", "image": "spark:4.0.1",
                    "mainApplicationFile": "local:///pi.py", "driver": {}, "executor": {},
                    "imagePullSecrets": [list("s")],
                    "sparkConf": {
                        "spark.local.dir": list("/d"),
                        "spark.kubernetes.container.image.pullSecrets": list("s"),
                    },
                },
            });
            let found = examine(&from_value(application).unwrap(), Files::Stay);
            found.invalid.into_iter().map(|invalid| invalid.field).collect::<Vec<_>>()
        };
        assert_eq!(invalid(MOST_ELEMENTS), Vec::<String>::new());
        let all = [
            "sparkConf[spark.local.dir]",
            "sparkConf[spark.kubernetes.container.image.pullSecrets]",
            "imagePullSecrets",
        ];
        assert_eq!(invalid(MOST_ELEMENTS + 1), all.map(|field| format!("spec.{field}")));
        assert_eq!(invalid(MOST_ELEMENTS * 10), all.map(|field| format!("spec.{field}")));
    }
}
