//! Builds the events that users see on a SparkConnect, and their wording.

use plan::events::{Event, Severity};
use std::time::Duration;

pub(super) const PROVISIONING: &str = "SparkConnectProvisioning";
pub(super) const FAILED: &str = "SparkConnectFailed";
pub(super) const RESUMED: &str = "SparkConnectResumed";
pub(super) const WAKING: &str = "SparkConnectWaking";

/// The reason and the message of the condition `GatewayMissing`, which explain that fields have no effect.
pub(super) const NO_GATEWAY: (&str, &str) = (
    "NoGateway",
    "sleepAfterIdleSeconds and ttlSecondsAfterIdle have no effect: the operator has no gateway (--connect-gateway)",
);
pub(super) const NO_PORT: (&str, &str) = (
    "NoPort",
    "sleepAfterIdleSeconds and ttlSecondsAfterIdle have no effect: the gateway has no port left for this namespace, which has at \
     most half of what others leave (--connect-gateway-port-range)",
);

/// Returns an event that everything goes its way.
pub(super) fn normal(reason: &'static str, action: &'static str, note: String) -> Event {
    Event::new(Severity::Normal, reason, action, note)
}

/// Returns an event about something that the user may have to mend.
pub(super) fn warning(reason: &'static str, action: &'static str, note: String) -> Event {
    Event::new(Severity::Warning, reason, action, note)
}

pub(super) fn waits(pod: &str, why: &str) -> Event {
    normal(PROVISIONING, "Follow", format!("server {pod} waits: {why}"))
}

/// Returns the event for an object beside the server's pod that the API server refuses.
pub fn not_applied(why: &str) -> Event {
    warning(FAILED, "Apply", format!("{why}; it is tried again"))
}

pub(super) fn failed(why: &str, pause: Duration) -> Event {
    warning(FAILED, "Follow", format!("{why}; it is made anew in {} s", pause.as_secs()))
}
