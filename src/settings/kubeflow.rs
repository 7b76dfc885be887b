//! The command line of Kubeflow's operator: the commands `controller start` and `webhook start`, and the flags that only
//! that operator has, so that manifests which were written for it can start this one.

use super::{Settings, given::Given};
use anyhow::{Context, ensure};
use clap::{Arg, Args, Subcommand};
use std::{collections::BTreeMap, mem, path::PathBuf};

/// The half of the operator that a process runs, if it does not run both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Drives applications. The webhook runs in another process.
    Controller,
    /// Answers reviews, and looks after the webhook's certificates.
    Webhook,
}

/// The only command of `controller` and of `webhook`.
#[derive(Debug, Subcommand)]
pub enum HalfCommand {
    /// Run it
    Start(Box<HalfSettings>),
}

/// The flags of `run`, and those that only Kubeflow's operator has.
#[derive(Debug, Args)]
pub struct HalfSettings {
    #[command(flatten)]
    pub settings: Settings,
    #[command(flatten)]
    kubeflow: KubeflowFlags,
}

/// The flags that only Kubeflow's operator has.
#[derive(Debug, Args)]
#[command(next_help_heading = HEADING, args(without_effect()))]
struct KubeflowFlags {
    #[command(flatten)]
    given: Given,

    /// Gates, with commas between them: DefaultTimeToLive is needed for --default-time-to-live-seconds, PartialRestart is
    /// --partial-restart, LoadSparkDefaults and RestSubmitter have no effect, and AllAlpha stands for all that are not named
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',')]
    feature_gates: Vec<String>,
}

/// The heading of these flags in the help.
pub const HEADING: &str = "Kubeflow's operator";

const NO_LIMIT: &str = "requests and reconciles are not limited here, and the API server shares out its time by priority \
                        and fairness";
const NO_SERVICE: &str = "the operator submits applications itself (--submitter)";
const OTHER_LOGS: &str = "--zap-encoder and --zap-log-level say how logs are written";

/// A feature gate of Kubeflow's operator, and why it has no effect here; `None` if it has one.
type Gate = (&'static str, Option<&'static str>);

/// The gates, which are alpha and off by default.
const GATES: [Gate; 4] = [
    (PARTIAL_RESTART, None),
    ("LoadSparkDefaults", Some("spark-defaults.conf is read in any case (--spark-conf-dir)")),
    ("RestSubmitter", Some("the operator submits applications itself, without a JVM (--submitter)")),
    (DEFAULT_TIME_TO_LIVE, None),
];
const DEFAULT_TIME_TO_LIVE: &str = "DefaultTimeToLive";
const PARTIAL_RESTART: &str = "PartialRestart";
/// The gate that stands for all gates that are alpha.
const ALL_ALPHA: &str = "AllAlpha";

/// The directory of Spark's configuration in the image of Kubeflow's operator, where admins mount their
/// `spark-defaults.conf`: that operator's `spark-submit` reads it unless SPARK_CONF_DIR is set.
const SPARK_CONFIGURATION: &str = "/opt/spark/conf";

/// Flags without effect: name, name of the value, and why.
static WITHOUT_EFFECT: [(&str, &str, &str); 20] = [
    ("kube-api-qps", "N", NO_LIMIT),
    ("kube-api-burst", "N", NO_LIMIT),
    ("workqueue-ratelimiter-bucket-qps", "N", NO_LIMIT),
    ("workqueue-ratelimiter-bucket-size", "N", NO_LIMIT),
    ("workqueue-ratelimiter-max-delay", "DURATION", NO_LIMIT),
    ("cache-sync-timeout", "DURATION", "a watch that has not listed yet is retried, and /readyz reports it"),
    (
        "pprof-bind-address",
        "ADDRESS",
        "there is no profiler (docs/admin/observability.md says under Profiles what does the same)",
    ),
    ("label-selector-filter", "SELECTOR", "Kubeflow's operator does not use it either"),
    ("zap-devel", "BOOL", OTHER_LOGS),
    ("zap-stacktrace-level", "LEVEL", OTHER_LOGS),
    ("zap-time-encoding", "FORMAT", OTHER_LOGS),
    ("submitter-service-url", "URL", NO_SERVICE),
    ("submitter-startup-timeout", "DURATION", NO_SERVICE),
    ("submitter-request-timeout", "DURATION", NO_SERVICE),
    ("submitter-max-retries", "N", NO_SERVICE),
    ("submitter-initial-backoff", "DURATION", NO_SERVICE),
    ("submitter-tls-enabled", "BOOL", NO_SERVICE),
    ("submitter-tls-cert-file", "FILE", NO_SERVICE),
    ("submitter-tls-key-file", "FILE", NO_SERVICE),
    ("submitter-tls-ca-file", "FILE", NO_SERVICE),
];

/// Values of a flag without effect that turn its feature off: they need no warning.
const OFF: [&str; 3] = ["", "0", "false"];

/// Returns the flags of [`WITHOUT_EFFECT`]. A switch stands alone or has its value after `=`; the others take the next
/// argument too.
fn without_effect() -> impl Iterator<Item = Arg> {
    WITHOUT_EFFECT.iter().map(|(flag, value, why)| {
        let arg = Arg::new(*flag).long(*flag).value_name(*value).help(format!("No effect: {why}"));
        if *value == "BOOL" {
            arg.num_args(0..=1).require_equals(true).default_missing_value("true")
        } else {
            arg
        }
    })
}

impl HalfSettings {
    /// Returns the settings of a process that runs `half`, and a sentence for each flag that has no effect.
    ///
    /// # Errors
    ///
    /// When a flag requires something that this operator does not do.
    pub fn of(self, half: Half) -> anyhow::Result<(Settings, Vec<String>)> {
        let Self { mut settings, kubeflow } = self;
        let runs_something = half == Half::Controller || settings.installation.webhook;
        ensure!(runs_something, "--webhook=false: `webhook start` runs nothing but the webhook");
        let gates = kubeflow.gates()?;
        let of_gate = |(name, why): &Gate| Some(format!("the gate {name} has no effect: {}", (*why)?));
        let mut warnings: Vec<_> = gates.iter().filter_map(of_gate).collect();
        let has_gate = |gate: &str| gates.iter().any(|(name, _)| *name == gate);
        settings.partial_restart |= has_gate(PARTIAL_RESTART);
        if !has_gate(DEFAULT_TIME_TO_LIVE) && mem::take(&mut settings.default_time_to_live_seconds) > 0 {
            warnings.push(format!(
                "--default-time-to-live-seconds has no effect: it needs --feature-gates={DEFAULT_TIME_TO_LIVE}=true"
            ));
        }
        warnings.extend(kubeflow.without_effect());
        settings.spark_conf_dir = settings.spark_conf_dir.take().or_else(|| existing(SPARK_CONFIGURATION));
        settings.installation.half = Some(half);
        Ok((settings, warnings))
    }
}

impl KubeflowFlags {
    /// Returns a sentence for each flag of [`WITHOUT_EFFECT`] that was given, unless its value is one of [`OFF`]. Their values
    /// are not parsed.
    fn without_effect(&self) -> impl Iterator<Item = String> {
        WITHOUT_EFFECT.iter().filter_map(move |(flag, _, why)| {
            let value = self.given.0.get_one::<String>(flag)?;
            (!OFF.contains(&value.as_str())).then(|| format!("--{flag} has no effect: {why}"))
        })
    }

    /// Returns the gates that are on. As in Kubernetes' `component-base`, the last value of a gate counts, and AllAlpha is the
    /// value of those that are not named. AllBeta would be that of gates in beta, of which there are none.
    fn gates(&self) -> anyhow::Result<Vec<Gate>> {
        let mut given = BTreeMap::new();
        for gate in self.feature_gates.iter().map(|gate| gate.trim()).filter(|gate| !gate.is_empty()) {
            let (name, value) = gate.split_once('=').unwrap_or((gate, ""));
            let (name, is_on) = (name.trim(), is_on(value.trim()));
            let is_on =
                is_on.with_context(|| format!("--feature-gates: {gate}: must be NAME=true or NAME=false"))?;
            let is_known = [ALL_ALPHA, "AllBeta"].contains(&name) || GATES.iter().any(|gate| gate.0 == name);
            ensure!(
                is_known,
                "--feature-gates: {gate}: unknown (try PartialRestart, LoadSparkDefaults, RestSubmitter or DefaultTimeToLive)"
            );
            given.insert(name, is_on);
        }
        let all = given.get(ALL_ALPHA).copied().unwrap_or_default();
        Ok(GATES.into_iter().filter(|(name, _)| given.get(name).copied().unwrap_or(all)).collect())
    }
}

fn existing(directory: &str) -> Option<PathBuf> {
    Some(PathBuf::from(directory)).filter(|directory| directory.is_dir())
}

/// Returns whether the value of a switch means yes, as Go's `strconv.ParseBool` reads it; `None` if it is no such
/// value.
fn is_on(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Command, Flags};
    use clap::Parser;

    fn started(flags: &[&str]) -> anyhow::Result<(Settings, Vec<String>)> {
        let arguments = ["spark-operator", "controller", "start"].iter().chain(flags);
        match Flags::try_parse_from(arguments).unwrap().command {
            Command::Controller(HalfCommand::Start(settings)) => settings.of(Half::Controller),
            other => panic!("{other:?}"),
        }
    }

    /// The arguments that Kubeflow's chart gives its controller by default.
    #[test]
    fn kubeflows_command_line_is_accepted_with_a_warning_for_ignored_flags() {
        let flags: Vec<_> = include_str!("../../tests/data/settings/kubeflow.txt").lines().collect();
        let (settings, warnings) = started(&flags).unwrap();
        assert_eq!(settings.installation.half, Some(Half::Controller));
        let named: Vec<_> = warnings.iter().filter_map(|warning| warning.split(' ').next()).collect();
        assert_eq!(
            named,
            [
                "--kube-api-qps", "--kube-api-burst", "--workqueue-ratelimiter-bucket-qps",
                "--workqueue-ratelimiter-bucket-size", "--workqueue-ratelimiter-max-delay",
            ]
        );
    }

    #[test]
    fn the_last_value_of_a_flag_counts_and_lists_accumulate() {
        let (settings, _) = started(&[
            "--max-submissions=1", "--enable-metrics=false", "--metrics-labels=a", "--max-submissions=2",
            "--enable-metrics", "--metrics-labels=b",
        ])
        .unwrap();
        assert_eq!((settings.max_submissions, settings.metrics.enable_metrics), (2, true));
        assert_eq!(settings.metrics.metrics_labels.len(), 2);
    }

    /// An earlier version refused to start with the gates PartialRestart, RestSubmitter and AllAlpha, which may be on
    /// in an installation of Kubeflow's operator.
    #[test]
    fn gates_are_read_as_in_kubernetes_with_a_warning_for_ignored_gates() {
        let cases = include_str!("../../tests/data/settings/gates.json");
        let cases: Vec<(Vec<&str>, Vec<&str>, bool)> = serde_json::from_str(cases).unwrap();
        for (flags, named, is_partial) in cases {
            let (settings, warnings) = started(&flags).unwrap();
            assert_eq!(settings.partial_restart, is_partial, "{flags:?}");
            let expected: Vec<_> =
                named.iter().map(|gate| format!("the gate {gate} has no effect: ")).collect();
            let is_said =
                warnings.iter().zip(&expected).all(|(warning, expected)| warning.starts_with(expected));
            assert!(is_said && warnings.len() == expected.len(), "{flags:?}: {warnings:?}");
        }
    }

    /// In an earlier version, a configuration that admins of Kubeflow's operator had mounted there was ignored.
    #[test]
    fn the_spark_configuration_is_read_where_kubeflows_image_has_it_unless_a_flag_names_another_directory() {
        assert_eq!(existing("certs"), Some(PathBuf::from("certs")));
        assert_eq!(existing("missing"), None);
        let directory = |flags: &[&str]| started(flags).unwrap().0.spark_conf_dir;
        assert_eq!(directory(&[]), existing("/opt/spark/conf"));
        assert_eq!(directory(&["--spark-conf-dir=/x"]), Some(PathBuf::from("/x")));
    }

    /// Kubeflow's operator ignores the flag without its gate. An earlier version of this operator did not, and deleted
    /// finished applications.
    #[test]
    fn a_default_time_to_live_needs_its_gate() {
        let cases = include_str!("../../tests/data/settings/time-to-live.json");
        for (flags, seconds) in serde_json::from_str::<Vec<(Vec<&str>, u32)>>(cases).unwrap() {
            let (settings, warnings) = started(&flags).unwrap();
            assert_eq!(settings.default_time_to_live_seconds, seconds, "{flags:?}");
            let is_said =
                warnings.iter().any(|warning| warning.starts_with("--default-time-to-live-seconds"));
            assert_eq!(is_said, seconds == 0, "{flags:?}: {warnings:?}");
        }
        assert_eq!(started(&["--default-time-to-live-seconds=0"]).unwrap().1, [""; 0]);
    }

    #[test]
    fn gates_that_do_not_exist_are_refused_with_the_flag() {
        let cases = include_str!("../../tests/data/settings/gates-refused.json");
        for [gate, why] in serde_json::from_str::<Vec<[&str; 2]>>(cases).unwrap() {
            let refused = started(&[&format!("--feature-gates={gate}")]).unwrap_err().to_string();
            assert!(refused.starts_with("--feature-gates: ") && refused.contains(why), "{refused}");
        }
        let (_, warnings) = started(&["--pprof-bind-address=0"]).unwrap();
        assert_eq!(warnings, [""; 0]);
    }
}
