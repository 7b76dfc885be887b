//! The flags and environment variables of the operator, with their defaults.

mod connect;
mod election;
mod exposure;
mod extensions;
mod gateway;
mod given;
mod installation;
pub mod kubeflow;
mod log;
mod metrics;
mod page;
mod values;
mod webhook;

pub use self::{
    connect::ConnectSettings,
    page::PageSettings,
    webhook::{WebhookObjects, WebhookSettings},
};
use anyhow::anyhow;
use clap::{Arg, ArgAction, Args, Parser, Subcommand};
pub use election::ElectionSettings;
pub use exposure::ExposureSettings;
pub use extensions::ExtensionSettings;
pub use gateway::ConnectGatewaySettings;
pub use installation::{ExposureCheck, InstallationName, InstallationSettings};
pub use kubeflow::{Half, HalfCommand, HalfSettings};
pub use log::{LogFormat, LogSettings};
pub use metrics::{MetricsSettings, PROBES};
use plan::submission_plan::Submitter;
use std::{net::SocketAddr, path::PathBuf, time::Duration};
use validation::Precision;
use values::{
    absolute_path, account, at_least_none, at_least_one, duration, master, optional_address, quantity,
};

/// The operator's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The host name by which the API server calls the webhook of an installation whose flags all have their defaults.
const WEBHOOK_HOST: &str = "spark-operator-webhook-svc.spark-operator.svc";

/// A Kubernetes operator for Apache Spark.
#[derive(Debug, Parser)]
// As in Kubeflow's operator, the last of several values of one flag counts: patches of Deployments append.
#[command(name = "spark-operator", version, max_term_width = 110, args_override_self = true)]
pub struct Flags {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the controller, the webhook and the ports for probes and metrics
    Run(Box<Settings>),
    /// Run the controller alone, with the command line of Kubeflow's operator
    #[command(subcommand)]
    Controller(HalfCommand),
    /// Run the webhook alone, with the command line of Kubeflow's operator
    #[command(subcommand)]
    Webhook(HalfCommand),
    /// Run the gateway of SparkConnects that sleep: it holds connections until their servers have been woken
    ConnectGateway(Box<ConnectGatewaySettings>),
    /// Serve the page to everybody who has a token of the cluster, with the caller's rights and none of its own
    Page(Box<PageSettings>),
    /// Print the CustomResourceDefinitions as YAML
    Crds {
        /// Write each into a file of its own in this directory instead
        #[arg(long, value_name = "DIRECTORY")]
        directory: Option<PathBuf>,
        /// Apply them to the cluster instead, and wait until they are established
        #[arg(long, conflicts_with = "directory")]
        apply: bool,
        /// Apply nothing if the cluster has SparkConnects, because the operator does not serve them
        /// (--enable-spark-connect=false)
        #[arg(long, requires = "apply")]
        without_spark_connect: bool,
        /// Apply the definitions nevertheless; the SparkConnects stay without a controller
        #[arg(long, requires = "apply")]
        leave_spark_connects: bool,
        #[command(flatten)]
        cluster: ClusterSettings,
    },
    /// Print what an installation consists of, as YAML for `kubectl apply --filename -`
    Manifests(Box<ManifestsSettings>),
    /// Show, rotate or create the webhook's certificates
    #[command(subcommand)]
    Certs(CertsCommand),
    /// Print which version this is
    Version {
        /// The number alone
        #[arg(long)]
        short: bool,
    },
}

/// What is printed of an installation, and with which names.
#[derive(Debug, Args)]
#[command(mut_args(usual))]
pub struct ManifestsSettings {
    /// Only these parts [default: all]
    #[arg(value_enum, value_name = "PART")]
    pub parts: Vec<ManifestsPart>,

    /// The operator's namespace
    #[arg(long, default_value = "spark-operator")]
    pub namespace: String,

    /// The operator's image
    #[arg(long, default_value = "localhost/spark-operator:dev")]
    pub image: String,

    /// The service account of drivers, which is created with its role in each namespace of --namespaces, else in
    /// `default`; with the default account, `spark-operator-spark` of Kubeflow's chart is created too
    #[arg(long, value_name = "NAME", default_value = "spark")]
    pub driver_service_account: String,

    /// What happens to objects that the webhook should review while no operator answers: they are refused, or
    /// let through as they are
    #[arg(long, value_name = "POLICY", default_value = "Fail", value_parser = ["Fail", "Ignore"])]
    pub failure_policy: String,

    /// How long the API server waits for the webhook, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=30))]
    pub timeout_seconds: u8,

    #[command(flatten)]
    pub installation: InstallationSettings,
}

/// A part of an installation, in the order in which they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum ManifestsPart {
    Crds,
    /// The operator's account and roles, and roles for people
    Rbac,
    /// The account of drivers, which applications need also when the operator is removed
    Drivers,
    Webhook,
    Deployment,
}

#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// Show the certificates in the Secret, which webhook configurations trust them, and what does not match
    Show(CertsPlace),
    /// Sign a new certificate before it is due; running operators load it, and no connection is refused
    Rotate {
        /// Create a new CA too
        #[arg(long)]
        ca: bool,
        #[command(flatten)]
        place: CertsPlace,
    },
    /// Create a CA and a certificate signed by it, as files
    Generate {
        /// The directory for the files; it must exist, and the files must not
        #[arg(long, value_name = "DIRECTORY")]
        directory: PathBuf,
        /// A name that the webhook is called by; may be repeated
        #[arg(long = "dns-name", value_name = "NAME", default_value = WEBHOOK_HOST)]
        dns_names: Vec<String>,
    },
}

/// Where the certificates are.
#[derive(Debug, Args)]
#[command(mut_args(usual))]
pub struct CertsPlace {
    #[command(flatten)]
    pub cluster: ClusterSettings,
    #[command(flatten)]
    pub installation: InstallationName,
    #[command(flatten)]
    pub objects: WebhookObjects,
}

/// Adds to a flag that has a heading, which is one of an installation: an environment variable, unless it has one
/// already (`SPARK_OPERATOR_` and its name in capitals); and to a switch, an optional value.
fn usual(flag: Arg) -> Arg {
    let Some(long) = flag.get_long().filter(|_| flag.get_help_heading().is_some()) else { return flag };
    let variable = format!("SPARK_OPERATOR_{}", long.to_uppercase().replace('-', "_"));
    let flag = if flag.get_env().is_some() { flag } else { flag.env(variable) };
    if !matches!(flag.get_action(), ArgAction::SetTrue) {
        return flag;
    }
    let flag = flag.action(ArgAction::Set).value_name("BOOL").num_args(0..=1).require_equals(true);
    let is_off = flag.get_default_values().is_empty();
    let flag = if is_off { flag.default_value("false") } else { flag };
    flag.default_missing_value("true")
}

/// Which cluster.
#[derive(Debug, Args)]
pub struct ClusterSettings {
    /// The kubeconfig with the API server's URL and the credentials [default: as KUBECONFIG says, else ~/.kube/config,
    /// else the pod's service account]
    #[arg(long, env = "SPARK_OPERATOR_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// How the operator runs. Flags that mean the same as flags of Kubeflow's operator have the same names.
#[derive(Debug, Args)]
#[command(next_help_heading = "Controller", mut_args(usual))]
pub struct Settings {
    /// How many applications are reconciled at once
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub controller_threads: u16,

    /// How long after a submission a driver pod may be missing before its application fails
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub driver_pod_creation_grace_period: Duration,

    /// The unit of the time in the names of the applications that schedules create: nanos, micros, millis, seconds or minutes
    #[arg(long, value_name = "UNIT", default_value_t)]
    pub scheduled_spark_application_timestamp_precision: Precision,

    /// The shortest period of a schedule: a shorter one (`@every 10s`) is refused
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub schedule_shortest_period: Duration,

    /// The greatest number of executors whose states are in an application's status, none if below 1; running ones take
    /// precedence
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_none, allow_negative_numbers = true)]
    pub max_tracked_executor_per_app: usize,

    /// After how many seconds applications that have ended are deleted unless they set timeToLiveSeconds; 0 means
    /// never. `controller start` needs --feature-gates=DefaultTimeToLive=true for it
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub default_time_to_live_seconds: u32,

    /// The service account of drivers whose applications name none, neither in serviceAccount nor in the template
    /// [default: the namespace's `default`]
    #[arg(long, value_name = "NAME", default_value = "", value_parser = account, hide_default_value = true)]
    pub default_service_account: String,

    /// Keep the pod of a driver, also a deleted one, until its outcome is recorded: without this, a run whose end
    /// nobody saw counts as failed and may be repeated
    #[arg(long)]
    pub protect_driver_outcome: bool,

    /// Let an edit of fields that executors get from their pod template apply to executors created later, while the run
    /// continues; the annotation sparkoperator.k8s.io/partial-restart of an application takes precedence
    #[arg(long)]
    pub partial_restart: bool,

    /// Ask the API server, once a run has a driver, whether it would accept the executors (a dry run): the reason of a
    /// refusal is in the condition ExecutorsRefused and in an event
    #[arg(long, default_value_t = true)]
    pub executor_dry_run: bool,

    #[command(flatten)]
    pub cluster: ClusterSettings,

    /// The operator's pod, named in events
    #[arg(long, env = "POD_NAME", value_name = "NAME", default_value = "spark-operator")]
    pub pod_name: String,

    #[command(flatten)]
    pub election: ElectionSettings,

    #[command(flatten)]
    pub installation: InstallationSettings,

    #[command(flatten)]
    pub exposure: ExposureSettings,

    /// Who submits applications: the operator itself (`native`), Spark's own client in a pod of the application's
    /// (`spark-submit`), or the operator, except for what only Spark's own client can do (`auto`). With `auto`, an
    /// application can choose by its annotation sparkoperator.k8s.io/submitter
    #[arg(long, value_name = "SUBMITTER", default_value_t = Submitter::Auto, help_heading = "Submission")]
    pub submitter: Submitter,

    /// How many applications the operator submits at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = at_least_one, help_heading = "Submission")]
    pub max_submissions: usize,

    /// The directory with the admin's configuration for submissions: spark-defaults.conf, which every application overrides,
    /// log4j2.properties and other files for the conf directory of drivers. It is copied into ConfigMaps in the namespaces
    /// of all applications, so no secret may be in it [default: none; for the commands `start` /opt/spark/conf, if it exists]
    #[arg(long, env = "SPARK_CONF_DIR", value_name = "DIRECTORY", help_heading = "Submission")]
    pub spark_conf_dir: Option<PathBuf>,

    /// The CPU request of submission pods, in which spark-submit runs
    #[arg(long, value_name = "QUANTITY", default_value = "250m", value_parser = quantity, help_heading = "Submission")]
    pub submission_pod_cpu: String,

    /// The memory request and limit of submission pods; a quarter of it is the heap of spark-submit
    #[arg(long, value_name = "QUANTITY", default_value = "1Gi", value_parser = quantity, help_heading = "Submission")]
    pub submission_pod_memory: String,

    /// The path of spark-submit in the images of applications
    #[arg(long, value_name = "PATH", default_value = "/opt/spark/bin/spark-submit", value_parser = absolute_path, help_heading = "Submission")]
    pub spark_submit_path: String,

    /// How long a submission pod may run, from its start on a node, before Kubernetes stops it
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = duration, help_heading = "Submission")]
    pub spark_submit_timeout: Duration,

    /// The URL at which Spark reaches the API server, `k8s://https://HOST:PORT` [default: the URL at which the operator
    /// reaches it]
    #[arg(long, value_name = "URL", value_parser = master, help_heading = "Submission")]
    pub master: Option<String>,

    #[command(flatten)]
    pub webhook: WebhookSettings,

    /// Where /healthz and /readyz are served; `0` for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", value_parser = optional_address, help_heading = "Probes, metrics, logs")]
    // With its path, like `metrics_bind_address`.
    pub health_probe_bind_address: std::option::Option<SocketAddr>,

    #[command(flatten)]
    pub metrics: MetricsSettings,

    #[command(flatten)]
    pub log: LogSettings,
}

impl Settings {
    /// Returns the directory of the admin's Spark configuration, if the admin has set one.
    ///
    /// # Errors
    ///
    /// When the directory does not exist, with advice for the admin.
    pub fn spark_configuration(&self) -> anyhow::Result<Option<PathBuf>> {
        match &self.spark_conf_dir {
            Some(directory) if !directory.is_dir() => Err(anyhow!(
                "SPARK_CONF_DIR: {} is not a directory; set --spark-conf-dir or SPARK_CONF_DIR to Spark's configuration, or leave it out",
                directory.display()
            )),
            directory => Ok(directory.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeMap;

    /// Returns the settings of `spark-operator run` with these flags.
    pub(super) fn run(flags: &[&str]) -> Settings {
        let arguments = ["spark-operator", "run"].iter().chain(flags);
        match Flags::try_parse_from(arguments).unwrap().command {
            Command::Run(settings) => *settings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_are_well_formed_and_all_of_the_servers_have_an_environment_variable() {
        Flags::command().debug_assert();
        let flags = Flags::command();
        let of = |program| flags.find_subcommand(program).unwrap().get_arguments();
        for flag in of("run").chain(of("connect-gateway")).filter(|flag| flag.get_id() != "help") {
            assert!(flag.get_env().is_some(), "{}", flag.get_id());
            assert!(flag.get_help().is_some(), "{}", flag.get_id());
        }
    }

    #[test]
    fn durations_addresses_and_switches_are_written_as_in_go() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert!(duration("soon").is_err() && duration("-1s").is_err());
        let port = |port: u16| Some(crate::listen::everywhere(port));
        assert_eq!(optional_address(":8081"), Ok(port(8081)));
        assert_eq!(optional_address("localhost:80"), Ok(Some(([127, 0, 0, 1], 80).into())));
        assert_eq!(optional_address("0"), Ok(None));
        assert!(optional_address("8081").is_err());
        assert_eq!((at_least_none("-1"), at_least_none("7")), (Ok(0), Ok(7)));
        let metrics = |flag: &str| run(&[flag]).metrics.address();
        assert_eq!(metrics("--enable-metrics"), port(8080));
        assert_eq!(metrics("--enable-metrics=true"), port(8080));
        assert_eq!(metrics("--enable-metrics=false"), None);
        assert_eq!(metrics("--metrics-bind-address=:9090"), port(9090));
        assert_eq!(metrics("--metrics-bind-address=0"), None);
    }

    #[test]
    fn an_invalid_flag_is_refused_with_a_valid_example() {
        let cases = include_str!("../tests/data/settings/refused.json");
        let cases: BTreeMap<String, Vec<[String; 2]>> = serde_json::from_str(cases).unwrap();
        for (program, [flag, complaint]) in
            cases.iter().flat_map(|(program, cases)| cases.iter().map(move |case| (program, case)))
        {
            let refused = Flags::try_parse_from(["spark-operator", program, flag]);
            let message = refused.unwrap_err().to_string();
            assert!(message.contains(complaint), "{flag}: {message}");
        }
    }
}
