//! The flags that the installation depends on, which `run` and `manifests` share.

use crate::plan::namespaces::{Labelled, Namespaces};
use clap::{ArgAction, Args};

/// What `run` does, and what has to be installed for it: given to both, they go together.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run and installation")]
pub struct InstallationSettings {
    /// The namespaces whose applications are driven and whose pods are customized, with commas between them
    /// [default: all]
    #[arg(
        long,
        env = "SPARK_OPERATOR_NAMESPACES",
        value_name = "NAMESPACE",
        value_delimiter = ',',
        value_parser = namespace
    )]
    pub namespaces: Vec<String>,

    /// Those with certain labels, besides those of --namespaces: `team=data`, `team in (data, science)`
    #[arg(
        long,
        env = "SPARK_OPERATOR_NAMESPACE_SELECTOR",
        value_name = "SELECTOR",
        default_value = "",
        value_parser = labelled,
        hide_default_value = true
    )]
    pub namespace_selector: OptionalLabels,

    /// Whether an application is refused whose pods would exceed a ResourceQuota of its namespace
    #[arg(
        long,
        env = "SPARK_OPERATOR_ENABLE_RESOURCE_QUOTA_ENFORCEMENT",
        value_name = "BOOL",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true"
    )]
    pub enable_resource_quota_enforcement: bool,

    /// Whether there is the admission webhook: without it drivers and executors are customized all the same,
    /// but for what Spark overwrites in the executors' template, and nothing is checked when it is applied
    #[arg(
        long,
        env = "SPARK_OPERATOR_WEBHOOK",
        value_name = "BOOL",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    pub webhook: bool,
}

/// The labels of namespaces, or `None` if the flag is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionalLabels(pub Option<Labelled>);

impl InstallationSettings {
    /// Returns the namespaces in which applications are driven and pods are customized.
    #[must_use]
    pub fn namespaces(&self) -> Namespaces {
        Namespaces::new(self.namespaces.iter().cloned(), self.namespace_selector.0.clone())
    }

    /// Returns the flags that produce these settings, without those that have their default.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let names =
            (!self.namespaces.is_empty()).then(|| format!("--namespaces={}", self.namespaces.join(",")));
        let labels =
            self.namespace_selector.0.as_ref().map(|labels| format!("--namespace-selector={labels}"));
        let quotas = "--enable-resource-quota-enforcement".to_owned();
        let quotas = self.enable_resource_quota_enforcement.then_some(quotas);
        let webhook = (!self.webhook).then(|| "--webhook=false".to_owned());
        [names, labels, quotas, webhook].into_iter().flatten().collect()
    }
}

/// Parses the name of a namespace. An empty name means all namespaces: the chart of Kubeflow's operator writes that as
/// `""`, quotes included.
fn namespace(text: &str) -> Result<String, String> {
    let name = text.trim().trim_matches('"');
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name =
        name.len() <= 63 && name.bytes().all(is_inner) && !name.starts_with('-') && !name.ends_with('-');
    if is_name {
        Ok(name.to_owned())
    } else {
        Err("is not the name of a namespace (try `default`)".to_owned())
    }
}

fn labelled(text: &str) -> Result<OptionalLabels, String> {
    match text.trim().trim_matches('"') {
        "" => Ok(OptionalLabels(None)),
        text => text.parse().map(Some).map(OptionalLabels),
    }
}
