//! The flags that the installation depends on, which `run` and `manifests` share.

use super::{ConnectSettings, ExtensionSettings, Half, given::Given, usual, values::checked};
use api::{LONGEST_LABEL, is_segment};
use clap::{Arg, Args};
use plan::namespaces::{Namespaces, Selector, selector};
use std::ffi::OsStr;

/// The settings of `run` on which its installed objects depend: `run` and `manifests` match if they get the same ones.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run and installation")]
pub struct InstallationSettings {
    #[command(flatten)]
    given: Given,

    #[command(flatten)]
    pub name: InstallationName,

    /// The namespaces whose applications are driven and whose pods are customized, with commas between them
    /// [default: all]
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace)]
    pub namespaces: Vec<String>,

    /// The namespaces with certain labels, besides those of --namespaces: `team=data`, `team in (data, science)`
    #[arg(long, value_name = "SELECTOR", default_value = "", value_parser = labelled, hide_default_value = true)]
    // With its path: clap reads `Option` as a flag that may be missing, and this one has a default.
    pub namespace_selector: std::option::Option<Selector>,

    /// Whether an application or a SparkConnect is refused whose pods would exceed a ResourceQuota of its namespace
    #[arg(long)]
    pub enable_resource_quota_enforcement: bool,

    /// Create a PodDisruptionBudget for drivers whose applications request it (driverPodDisruptionBudget)
    #[arg(long)]
    pub enable_driver_pdb: bool,

    /// Whether an application or a schedule that exposes its driver to the outside (Ingress addresses and annotations, Service
    /// types and annotations) is refused if its user may not create Ingresses or Services in the namespace; with `warn`, its
    /// user is only warned
    #[arg(long, value_enum, value_name = "CHECK", default_value_t = ExposureCheck::True, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub check_exposure_rights: ExposureCheck,

    /// Whether the admission webhook is served: without it, drivers and executors are customized too, except for what
    /// Spark overwrites in the executors' template, and nothing is checked when it is applied
    #[arg(long, default_value_t = true)]
    pub webhook: bool,

    #[command(flatten)]
    pub connect: ConnectSettings,

    #[command(flatten)]
    pub extensions: ExtensionSettings,

    /// The half that the process runs, if it does not run both.
    #[arg(skip)]
    pub half: Option<Half>,
}

/// Whether applications that expose their drivers are refused if their users may not create Services or Ingresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExposureCheck {
    True,
    Warn,
    False,
}

/// Which of several installations in a cluster.
#[derive(Clone, Debug, Args)]
pub struct InstallationName {
    /// The name of this installation, where a cluster has several: its objects are called NAME or NAME-…, as far as other
    /// flags do not name them
    #[arg(id = "installation", long = "installation", value_name = "NAME", default_value = InstallationName::DEFAULT, value_parser = installation)]
    pub name: String,
}

impl InstallationName {
    /// The name that the files under `manifests/` have.
    pub const DEFAULT: &str = "spark-operator";

    /// Returns the name of one of the installation's objects: the installation's name and `suffix`.
    pub fn of(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }
}

impl InstallationSettings {
    /// Returns whether the process answers reviews.
    pub fn serves_webhook(&self) -> bool {
        self.webhook && self.half != Some(Half::Controller)
    }

    /// Returns whether the process drives applications.
    pub fn drives_applications(&self) -> bool {
        self.half != Some(Half::Webhook)
    }

    /// Returns the namespaces in which applications are driven and pods are customized.
    pub fn namespaces(&self) -> Namespaces {
        let given = self.values("namespaces").into_iter().flatten();
        let names = given.filter_map(|name| namespace(name.to_str()?).ok());
        Namespaces::new(names, self.namespace_selector.clone())
    }

    /// Returns the values of a flag as they were given; `None` if the flag was not given. As in Kubeflow's operator, an
    /// empty value is no value: `--namespaces=` adds no namespaces to those of another value or of
    /// --namespace-selector.
    fn values(&self, flag: &str) -> Option<impl Iterator<Item = &OsStr>> {
        let occurrences = self.given.0.get_raw_occurrences(flag)?;
        Some(occurrences.filter(|values| !values.clone().eq([""])).flatten())
    }

    /// Returns the flags that produce these settings, without those that have their default.
    pub fn arguments(&self) -> Vec<String> {
        let flags = Self::augment_args(clap::Command::new("run")).mut_args(usual);
        let given = |flag: &Arg| {
            let values: Vec<_> = self.values(flag.get_id().as_str())?.collect();
            if flag.get_default_values() == values || values.iter().all(|value| value.is_empty()) {
                return None;
            }
            let (long, value) = (flag.get_long()?, values.join(OsStr::new(",")));
            let may_be_left_out = flag.get_num_args().is_some_and(|number| number.min_values() == 0);
            Some(match value.to_string_lossy() {
                value if may_be_left_out && value == "true" => format!("--{long}"),
                value => format!("--{long}={value}"),
            })
        };
        flags.get_arguments().filter_map(given).collect()
    }
}

/// Parses the name of an installation. The names of its objects and the values of their labels have up to 63
/// characters: 47, and 16 for the longest suffix, `-connect-gateway`.
fn installation(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.len() <= 47 && namespace(text).as_deref() == Ok(text);
    let complaint = "must be up to 47 lower-case letters, digits and `-` (try `spark-operator-team-a`)";
    checked(text, is_name, complaint)
}

/// Parses the name of a namespace. An empty name means all namespaces: the chart of Kubeflow's operator writes that as
/// `""`, quotes included.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    let name = text.trim().trim_matches('"');
    let is_name = name.is_empty() || name.len() <= LONGEST_LABEL && is_segment(name);
    checked(name, is_name, "is not the name of a namespace (try `default`)")
}

fn labelled(text: &str) -> Result<Option<Selector>, String> {
    match text.trim().trim_matches('"') {
        "" => Ok(None),
        text => selector(text).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::tests::run;

    #[test]
    fn arguments_are_the_flags_that_were_given_and_differ_from_their_defaults() {
        let cases = include_str!("../../tests/data/settings/arguments.json");
        for [given, expected] in serde_json::from_str::<Vec<[Vec<&str>; 2]>>(cases).unwrap() {
            assert_eq!(run(&given).installation.arguments(), expected, "{given:?}");
        }
    }
}
