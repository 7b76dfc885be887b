//! Reasons and texts of events and conditions of a SparkConnect.

use plan::events::{Event, Severity};

pub(super) const PROVISIONING: &str = "SparkConnectProvisioning";
pub(super) const FAILED: &str = "SparkConnectFailed";
pub(super) const RESUMED: &str = "SparkConnectResumed";
pub(super) const WAKING: &str = "SparkConnectWaking";

/// Reasons and messages of the condition `GatewayMissing`: [`GATEWAY`] if it is false, [`NO_GATEWAY`] or [`NO_PORT`] if
/// it is true.
pub(super) const GATEWAY: (&str, &str) =
    ("GatewayPresent", "clients connect through the gateway, and their connections count as use");
pub(super) const NO_GATEWAY: (&str, &str) = (
    "NoGateway",
    "sleepAfterIdleSeconds and ttlSecondsAfterIdle have no effect: the operator has no gateway (--connect-gateway)",
);
pub(super) const NO_PORT: (&str, &str) = (
    "NoPort",
    "sleepAfterIdleSeconds and ttlSecondsAfterIdle have no effect: the gateway has no port left for this namespace, which may have \
     at most half of the ports that other namespaces leave free (--connect-gateway-port-range)",
);

/// Returns the event about an object other than the server's pod that the API server has refused.
pub fn not_applied(why: &str) -> Event {
    Event::new(Severity::Warning, FAILED, "Apply", format!("{why}; the operator retries it"))
}
