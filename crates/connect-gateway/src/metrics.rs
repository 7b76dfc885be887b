//! Counts connections and the bytes that are forwarded. The metrics are totals: tenants may create any number of
//! SparkConnects, so a label with their names would have an unbounded number of values.

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use work::metric;

/// Counters with one label.
type Counters = Family<[(&'static str, &'static str); 1], Counter>;

/// The metrics of the gateway.
#[derive(Clone, Debug)]
pub struct GatewayMetrics {
    pub(crate) open: Gauge,
    pub(crate) held: Gauge,
    pub(crate) wakes: Counter,
    pub(crate) to_servers: Counter,
    pub(crate) to_clients: Counter,
    refused: Counters,
}

impl GatewayMetrics {
    /// Creates the metrics in `registry`.
    pub fn new(registry: &mut Registry) -> Self {
        let help = "Open connections of clients, with those that are held";
        let open = metric(registry, "spark_operator_connect_gateway_connections", help, Gauge::default());
        let help = "Connections that are held until their servers answer";
        let held =
            metric(registry, "spark_operator_connect_gateway_held_connections", help, Gauge::default());
        let help = "Bytes that were forwarded, by direction";
        let bytes = metric(registry, "spark_operator_connect_gateway_bytes", help, Counters::default());
        let help = "Reports to the operator that were sent while a client waited for its server";
        let wakes = metric(registry, "spark_operator_connect_gateway_wakes", help, Counter::default());
        let help = "Connections that were closed before they had reached a server, by reason";
        let refused =
            metric(registry, "spark_operator_connect_gateway_refused_connections", help, Counters::default());
        let to = |end| bytes.get_or_create_owned(&[("to", end)]);
        Self { open, held, wakes, to_servers: to("server"), to_clients: to("client"), refused }
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&[("reason", reason)]).inc();
    }
}
