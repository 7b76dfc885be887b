//! The flags of the operator's metrics.

use super::values::{checked, listed, optional_address};
use anyhow::{bail, ensure};
use application_metrics::{Label, Options, Prefix};
use clap::Args;
use rustls::SupportedCipherSuite;
use std::{net::SocketAddr, str::FromStr};
use webhook::{Tls, TlsVersion, cipher_suite};

/// The paths of the probes for liveness and readiness. Metrics may be served at the same port, and then need another
/// path.
pub const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// Where metrics are served, and the names and labels of those of applications.
#[derive(Debug, Args)]
#[command(next_help_heading = "Probes, metrics, logs")]
pub struct MetricsSettings {
    /// Whether metrics are served
    #[arg(long, default_value_t = true)]
    pub enable_metrics: bool,

    /// Where metrics are served; `0` for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", value_parser = optional_address)]
    // With its path: clap reads `Option` as a flag that may be missing, and this one has a default.
    pub metrics_bind_address: std::option::Option<SocketAddr>,

    /// The path of the metrics
    #[arg(long, value_name = "PATH", default_value = "/metrics", value_parser = path)]
    pub metrics_endpoint: String,

    /// The prefix of the names of the metrics of applications and executors
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub metrics_prefix: Prefix,

    /// The labels of applications that these metrics have too; `namespace` is always the application's namespace
    #[arg(long, value_name = "LABEL", value_delimiter = ',', value_parser = listed(Label::from_str))]
    pub metrics_labels: Vec<Option<Label>>,

    /// Upper bounds of the buckets of spark_application_submit_latency_seconds_histogram, in seconds
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', default_value = "0.5,1,2,4,8,16,32,64,128,256", value_parser = seconds)]
    pub metrics_job_submit_latency_buckets: Vec<f64>,

    /// Upper bounds of the buckets of spark_application_start_latency_seconds_histogram, in seconds
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', default_value = "30,60,90,120,150,180,210,240,270,300", value_parser = seconds)]
    pub metrics_job_start_latency_buckets: Vec<f64>,

    /// Whether metrics are served over HTTPS: with the webhook's certificate, or one of the process' own where there is
    /// no webhook. Clients are not authenticated
    #[arg(long)]
    pub secure_metrics: bool,

    /// The oldest version of TLS that is accepted for metrics
    #[arg(long, value_name = "VERSION", value_enum, default_value = "VersionTLS12")]
    pub metric_tls_min_version: TlsVersion,

    /// The cipher suites that are accepted for metrics, by their Go or IANA names; of a version of TLS of which none is
    /// listed, all are accepted [default: all]
    #[arg(long, value_name = "SUITE", value_delimiter = ',', value_parser = listed(cipher_suite))]
    pub metric_tls_cipher_suites: Vec<Option<SupportedCipherSuite>>,
}

impl MetricsSettings {
    /// Returns the address at which metrics are served; `None` if no metrics are served.
    pub fn address(&self) -> Option<SocketAddr> {
        self.metrics_bind_address.filter(|_| self.enable_metrics)
    }

    /// Returns the TLS settings of the metrics; `None` if the metrics are not served over HTTPS.
    ///
    /// # Errors
    ///
    /// When the probes are served at the same address, `probes`: the kubelet would have to use HTTPS too.
    pub fn tls(&self, probes: Option<SocketAddr>) -> anyhow::Result<Option<Tls>> {
        if !self.secure_metrics {
            return Ok(None);
        }
        ensure!(
            probes.is_none() || self.address() != probes,
            "--secure-metrics: the probes are served at the same address, and not over HTTPS; set --metrics-bind-address to \
             another one"
        );
        let cipher_suites = self.metric_tls_cipher_suites.iter().flatten().copied().collect();
        Ok(Some(Tls { min_version: self.metric_tls_min_version, cipher_suites, client_cas: Vec::new() }))
    }

    /// Returns the prefix, labels and buckets of the metrics of applications.
    ///
    /// # Errors
    ///
    /// When the bounds of buckets do not grow, or a label occurs twice.
    pub fn of_applications(&self) -> anyhow::Result<Options> {
        let submit = &self.metrics_job_submit_latency_buckets;
        let start = &self.metrics_job_start_latency_buckets;
        for (of, bounds) in [("submit", submit), ("start", start)] {
            if let Some(pair) = bounds.windows(2).find(|pair| pair[0] >= pair[1]) {
                let wrong = format!("{} comes after {}: write the bounds in growing order", pair[1], pair[0]);
                bail!("--metrics-job-{of}-latency-buckets: {wrong}");
            }
        }
        let labels: Vec<_> = self.metrics_labels.iter().flatten().cloned().collect();
        let twice = labels.iter().enumerate().find(|(place, label)| labels[..*place].contains(label));
        if let Some((_, label)) = twice {
            bail!("--metrics-labels: `{}` is listed twice: remove one", label.as_str());
        }
        Ok(Options {
            prefix: self.metrics_prefix.clone(),
            labels,
            submit_latency_buckets: submit.clone(),
            start_latency_buckets: start.clone(),
        })
    }
}

pub(super) fn path(text: &str) -> Result<String, String> {
    // axum panics if a path occurs twice, or has a segment that begins with `:`.
    let is_path = text.starts_with('/')
        && !text.contains("/:")
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}*?#".contains(&byte));
    checked(text, !PROBES.contains(&text), "is the path of a probe (try `/metrics`)")?;
    checked(text, is_path, "is not a path (try `/metrics`)")
}

fn seconds(text: &str) -> Result<f64, String> {
    let parsed = text.trim().parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    parsed.ok_or_else(|| "is not a number of seconds (try `0.5,1,2,4`)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::run;

    #[test]
    fn metrics_of_applications_are_those_of_kubeflow_unless_flags_differ() {
        let kubeflows = Options {
            submit_latency_buckets: vec![0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0],
            start_latency_buckets: vec![30.0, 60.0, 90.0, 120.0, 150.0, 180.0, 210.0, 240.0, 270.0, 300.0],
            ..Options::default()
        };
        assert_eq!(run(&[]).metrics.of_applications().unwrap(), kubeflows);
        let chosen = run(&[
            "--metrics-prefix=team-a-",
            "--metrics-labels=app-type,namespace",
            "--metrics-job-submit-latency-buckets=1,2.5",
        ]);
        let expected = Options {
            prefix: "team_a_".parse().unwrap(),
            labels: vec!["app_type".parse().unwrap(), "namespace".parse().unwrap()],
            submit_latency_buckets: vec![1.0, 2.5],
            ..kubeflows
        };
        assert_eq!(chosen.metrics.of_applications().unwrap(), expected);
    }

    /// In an earlier version, the operator did not start with such a flag, which Kubeflow's operator ignores.
    #[test]
    fn a_list_without_a_value_is_empty() {
        let settings = run(&[
            "--metrics-labels=", "--metric-tls-cipher-suites=", "--secure-metrics",
            "--webhook-tls-cipher-suites=",
        ]);
        assert!(settings.metrics.of_applications().unwrap().labels.is_empty());
        let tls = [settings.metrics.tls(None).unwrap().unwrap(), settings.webhook.tls().unwrap()];
        assert!(tls.iter().all(|tls| tls.cipher_suites.is_empty()));
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused_at_the_start() {
        let why = |flags: &[&str]| {
            let settings = run(flags);
            let tls = settings.metrics.tls(settings.health_probe_bind_address).map(drop);
            settings.metrics.of_applications().map(drop).and(tls).unwrap_err().to_string()
        };
        let flag = "--metrics-job-start-latency-buckets=60,30";
        let bounds =
            "--metrics-job-start-latency-buckets: 30 comes after 60: write the bounds in growing order";
        assert_eq!(why(&[flag]), bounds);
        let twice = "--metrics-labels: `app_type` is listed twice: remove one";
        assert_eq!(why(&["--metrics-labels=app-type,app_type"]), twice);
        let shared = why(&["--secure-metrics", "--metrics-bind-address=:8081"]);
        assert!(
            shared.starts_with("--secure-metrics: the probes are served at the same address"),
            "{shared}"
        );
    }
}
