//! Determines the names of a submission's objects.

use super::{Ids, conf::Conf, not_native::NotNative};
use api::{LONGEST_LABEL, ObjectKey, ObjectKind, names::conf};

/// The suffixes of the names of objects that steps may add to the driver's pod.
pub(super) mod suffix {
    pub const CREDENTIALS: &str = "kubernetes-credentials";
    pub const EXECUTOR_TEMPLATE: &str = "driver-podspec-conf-map";
    pub const HADOOP: &str = "hadoop-config";
    pub const KRB5: &str = "krb5-file";
    pub const KEYTAB: &str = "kerberos-keytab";
    pub const POLICY: &str = "policy";
}

/// The names of those objects to which other objects refer.
pub(super) struct Names {
    /// The prefix of most names.
    pub prefix: String,
    pub driver_pod: String,
    pub service: String,
    pub config_map: String,
    /// The app name in the form of a label's value, for Spark's label `spark-app-name`.
    pub app_name_label: String,
}

/// Returns all objects that a submission with `ids` may have created in addition to the driver's pod, whatever its
/// properties were. Not included are claims, whose names depend on the properties, and the Secrets and the ConfigMap of
/// `krb5.conf` that are created from the submitter's files: the operator reads no such files.
pub fn possible_children(app_name: &str, ids: &Ids) -> Vec<ObjectKey> {
    let prefix = prefix(app_name, &ids.prefix);
    let prefixed = |suffix: &str| format!("{prefix}-{suffix}");
    [
        ObjectKind::CONFIG_MAP.named(config_map(ids)),
        ObjectKind::SERVICE.named(service(&prefix, ids)),
        ObjectKind::CONFIG_MAP.named(template_config_map(app_name, ids)),
        ObjectKind::CONFIG_MAP.named(prefixed(suffix::HADOOP)),
        ObjectKind::NETWORK_POLICY.named(prefixed(suffix::POLICY)),
    ]
    .into()
}

/// Returns the name of the ConfigMap with the executors' template of a submission with `ids`.
pub fn template_config_map(app_name: &str, ids: &Ids) -> String {
    format!("{}-{}", prefix(app_name, &ids.prefix), suffix::EXECUTOR_TEMPLATE)
}

fn config_map(ids: &Ids) -> String {
    format!("spark-drv-{}-conf-map", ids.config_map)
}

fn service(prefix: &str, ids: &Ids) -> String {
    let service = format!("{prefix}-driver-svc");
    match service.chars().count() {
        ..=LONGEST_LABEL => service,
        _ => format!("spark-{}-driver-svc", ids.service),
    }
}

impl Names {
    pub(super) fn new(conf: &Conf, app_name: &str, ids: &Ids) -> Result<Self, NotNative> {
        let prefix = prefix(app_name, &ids.prefix);
        Ok(Self {
            driver_pod: conf.text(conf::DRIVER_POD_NAME)?.unwrap_or_else(|| format!("{prefix}-driver")),
            service: service(&prefix, ids),
            config_map: config_map(ids),
            app_name_label: app_name_label(app_name),
            prefix,
        })
    }

    /// Returns `<prefix>-<what>`.
    pub(super) fn prefixed(&self, what: &str) -> String {
        format!("{}-{what}", self.prefix)
    }
}

/// Returns the prefix that Spark's `KubernetesConf.getResourceNamePrefix` returns. The length is not limited; a leading
/// digit is replaced by `x`.
fn prefix(app_name: &str, id: &str) -> String {
    let name = dashed(&format!("{app_name}-{id}"));
    let name = name.strip_prefix('-').unwrap_or(&name);
    match name.strip_prefix(|c: char| c.is_ascii_digit()) {
        Some(rest) => format!("x{rest}"),
        None => name.to_owned(),
    }
}

/// Returns the label that Spark's `KubernetesConf.getAppNameLabel` returns. It can be empty.
fn app_name_label(app_name: &str) -> String {
    let name = dashed(app_name);
    // `dashed` returns only ASCII characters, so a byte is a character here.
    let name = &name[..name.len().min(LONGEST_LABEL)];
    let name = name.strip_prefix('-').unwrap_or(name);
    name.strip_suffix('-').unwrap_or(name).to_owned()
}

/// Returns `name` in lower case, in which every sequence of characters that are neither ASCII letters nor digits
/// becomes one dash.
fn dashed(name: &str) -> String {
    let name = name.trim_matches(|c: char| c <= ' ').to_lowercase();
    name.chars().fold(String::with_capacity(name.len()), |mut dashed, c| {
        match c {
            'a'..='z' | '0'..='9' => dashed.push(c),
            _ if dashed.ends_with('-') => {}
            _ => dashed.push('-'),
        }
        dashed
    })
}

#[cfg(test)]
mod tests {
    use super::{app_name_label, prefix};

    const ID: &str = "19e093a1fbf429c5";

    #[test]
    fn names_are_made_valid_as_in_spark() {
        let cases = include_str!("../../../tests/data/spark-client/names.json");
        for [name, prefixed, label] in &serde_json::from_str::<Vec<[String; 3]>>(cases).unwrap() {
            assert_eq!(prefix(name, ID), *prefixed, "{name}");
            assert_eq!(app_name_label(name), *label, "{name}");
        }
        let long = format!("{}-tail", "b".repeat(62));
        assert_eq!(app_name_label(&long), "b".repeat(62));
        assert_eq!(prefix(&long, ID), format!("{long}-{ID}"));
    }
}
