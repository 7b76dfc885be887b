//! What can be set, by which flag or environment variable, and to what if nobody sets it?

use crate::webhook::Places;
use clap::{Args, Parser, Subcommand};
use jiff::SignedDuration;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// A Kubernetes operator for Apache Spark.
#[derive(Debug, Parser)]
#[command(name = "spark-operator", version)]
pub struct Flags {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the controller, the webhook and the admin port
    Run(Box<Settings>),
    /// Print the CustomResourceDefinitions as YAML
    Crds {
        /// Write each into a file of its own in this directory instead
        #[arg(long, value_name = "DIRECTORY")]
        directory: Option<PathBuf>,
    },
}

/// How the operator runs. Flags that mean what KF's mean carry KF's names.
#[derive(Debug, Args)]
pub struct Settings {
    /// How many applications are reconciled at once
    #[arg(long, default_value_t = 10)]
    pub controller_threads: u16,

    /// How long after a submission a driver pod may be missing before its application fails
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub driver_pod_creation_grace_period: Duration,

    /// Where /healthz and /readyz are served
    #[arg(long, default_value = "0.0.0.0:8081", value_parser = address)]
    pub health_probe_bind_address: SocketAddr,

    /// The port of the admission webhook
    #[arg(long, default_value_t = 9443)]
    pub webhook_port: u16,

    /// The Secret that holds the webhook's CA and certificate; made if it does not exist
    #[arg(long, default_value = "spark-operator-webhook-certs")]
    pub webhook_secret_name: String,

    /// The namespace of that Secret and of the webhook's Service
    #[arg(long, env = "POD_NAMESPACE", default_value = "spark-operator")]
    pub webhook_secret_namespace: String,

    /// The webhook's Service
    #[arg(long, default_value = "spark-operator-webhook-svc")]
    pub webhook_svc_name: String,

    /// The MutatingWebhookConfiguration whose caBundle the operator keeps
    #[arg(long, default_value = "spark-operator-webhook")]
    pub mutating_webhook_name: String,

    /// The Spark distribution whose bin/spark-submit is run
    #[arg(long, env = "SPARK_HOME")]
    pub spark_home: PathBuf,

    /// How many spark-submit processes may run at once; each is a JVM of some 300 MB
    #[arg(long, default_value_t = 4)]
    pub max_spark_submits: usize,

    /// How long a spark-submit may take before it is ended
    #[arg(long, default_value = "3m", value_parser = duration)]
    pub spark_submit_timeout: Duration,

    /// The API server as Spark is to reach it, `k8s://https://HOST:PORT` [default: as the operator reaches
    /// it]
    #[arg(long)]
    pub master: Option<String>,

    /// How logs are written; RUST_LOG sets what is logged
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// The operator's pod, named in events
    #[arg(long, env = "POD_NAME", default_value = "spark-operator")]
    pub pod_name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

impl Settings {
    /// Where the webhook's certificates go.
    #[must_use]
    pub fn places(&self) -> Places {
        Places {
            namespace: self.webhook_secret_namespace.clone(),
            secret: self.webhook_secret_name.clone(),
            service: self.webhook_svc_name.clone(),
            webhook_configuration: self.mutating_webhook_name.clone(),
        }
    }

    /// Whether `spark-submit` is where the settings say.
    ///
    /// # Errors
    ///
    /// What is missing and what to do about it.
    pub fn check_spark_home(&self) -> Result<(), String> {
        let spark_submit = self.spark_home.join("bin/spark-submit");
        if spark_submit.is_file() {
            return Ok(());
        }
        Err(format!(
            "SPARK_HOME: {} does not exist; set --spark-home or SPARK_HOME to a Spark distribution, or use the operator-spark image",
            spark_submit.display()
        ))
    }
}

/// `10s`, `1m30s`, `2h`: Go's durations.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text.parse().map_err(|error| format!("{error} (try `10s` or `1m30s`)"))?;
    Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())
}

/// `:8081` as in Go, or a full address.
fn address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    full.parse().map_err(|error| format!("{error} (try `:8081` or `127.0.0.1:8081`)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_well_formed() {
        <Flags as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn durations_and_addresses_are_written_as_in_go() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert!(duration("soon").is_err() && duration("-1s").is_err());
        assert_eq!(address(":8081"), Ok(SocketAddr::from(([0, 0, 0, 0], 8081))));
        assert!(address("8081").is_err());
    }
}
