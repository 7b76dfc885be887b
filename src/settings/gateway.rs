//! The flags of the gateway of SparkConnects that sleep.

use super::{
    ClusterSettings, LogSettings, at_least_one, duration, installation::namespace, metrics::path,
    optional_address, usual, values::port_range,
};
use clap::Args;
use connect_gateway::{Limit, SERVER_PORT, Settings};
use plan::namespaces::Namespaces;
use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

/// How the gateway runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Gateway", mut_args(usual))]
pub struct ConnectGatewaySettings {
    /// The namespaces whose SparkConnects are served, with commas between them: those of the operator [default: all]
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', value_parser = namespace)]
    pub namespaces: Vec<String>,

    /// The ports among which the operator gives each SparkConnect its own; no other port is opened
    #[arg(long, value_name = "FIRST-LAST", default_value = "20000-29999", value_parser = port_range)]
    pub port_range: RangeInclusive<u16>,

    /// The maximum number of open connections. Half of them are divided into equal shares for all namespaces and their
    /// SparkConnects
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = at_least_one)]
    pub most_connections: usize,

    /// The maximum number of connections to one SparkConnect
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = at_least_one)]
    pub most_connections_per_server: usize,

    /// The maximum number of connections that wait for servers, of which half are divided in the same way
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub most_held: usize,

    /// The maximum number of connections that wait for one server
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = at_least_one)]
    pub most_held_per_server: usize,

    /// How long a connection waits for a server that does not answer before it is closed
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub longest_wait: Duration,

    /// The minimum pause between two reports to the operator that a SparkConnect is used; up to a quarter longer, so
    /// that replicas do not write at the same time
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = period)]
    pub report_period: Duration,

    /// How long open connections continue after the process was asked to stop, a little less than the pod's
    /// terminationGracePeriodSeconds
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration)]
    pub termination_grace: Duration,

    #[command(flatten)]
    pub cluster: ClusterSettings,

    /// Where /healthz, /readyz and the metrics are served; `0` for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8081", value_parser = optional_address, help_heading = "Probes, metrics, logs")]
    // With its path: clap reads `Option` as a flag that may be missing, and this one has a default.
    pub health_probe_bind_address: std::option::Option<SocketAddr>,

    /// The path of the metrics
    #[arg(long, value_name = "PATH", default_value = "/metrics", value_parser = path, help_heading = "Probes, metrics, logs")]
    pub metrics_endpoint: String,

    #[command(flatten)]
    pub log: LogSettings,
}

impl ConnectGatewaySettings {
    /// Returns the settings that the gateway itself has.
    pub fn gateway(&self) -> Settings {
        Settings {
            namespaces: Namespaces::new(self.namespaces.iter().cloned(), None).named().cloned(),
            ports: self.port_range.clone(),
            server_port: SERVER_PORT,
            connections: Limit { in_all: self.most_connections, of_one: self.most_connections_per_server },
            memory: None,
            held: Limit { in_all: self.most_held, of_one: self.most_held_per_server },
            longest_wait: self.longest_wait,
            report_period: self.report_period,
            termination_grace: self.termination_grace,
        }
    }
}

/// Parses the time between two writes, which is no shorter than a second.
fn period(text: &str) -> Result<Duration, String> {
    let period = duration(text)?;
    if period >= Duration::from_secs(1) { Ok(period) } else { Err("must be at least 1s".to_owned()) }
}

#[cfg(test)]
mod tests {
    use crate::settings::{Command, Flags};
    use clap::Parser;
    use std::time::Duration;

    fn parsed(flags: &[&str]) -> connect_gateway::Settings {
        let arguments = ["spark-operator", "connect-gateway"].iter().chain(flags);
        match Flags::try_parse_from(arguments).unwrap().command {
            Command::ConnectGateway(settings) => settings.gateway(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_gateway_serves_all_namespaces_unless_some_are_named() {
        let all = parsed(&[]);
        assert_eq!((all.namespaces, all.ports), (None, 20_000..=29_999));
        let named = parsed(&["--namespaces=b,a", "--port-range=1-65535", "--longest-wait=1m30s"]);
        assert_eq!(named.namespaces, Some(["a".to_owned(), "b".to_owned()].into()));
        assert_eq!((named.ports, named.longest_wait), (1..=65_535, Duration::from_secs(90)));
        assert_eq!(parsed(&["--namespaces="]).namespaces, None);
    }
}
