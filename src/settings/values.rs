//! Reads the values of flags from their texts. Each error says what would be right.

use api::quantity;
use jiff::SignedDuration;
use std::{
    net::{SocketAddr, ToSocketAddrs},
    ops::RangeInclusive,
    time::Duration,
};

/// Parses a duration as Go writes it: `10s`, `1m30s`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text.parse().map_err(|error| format!("{error} (try `10s` or `1m30s`)"))?;
    Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())
}

/// Parses an address: `:8081` as in Go, which means IPv4 and IPv6, a full address, or a host and a port: of the host's
/// addresses the first of IPv4 counts, else the first, as in Go. `0` means `None`.
pub(super) fn optional_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "0" {
        return Ok(None);
    }
    let full = if text.starts_with(':') { format!("[::]{text}") } else { text.to_owned() };
    let found = full.to_socket_addrs().map(|found| found.min_by_key(SocketAddr::is_ipv6));
    found.map_err(|error| format!("{error} (try `:8081` or `127.0.0.1:8081`)"))
}

/// Returns a parser for the values of a list. As in pflag, which Kubeflow's operator uses, an empty value is no value:
/// `None`.
pub(super) fn listed<T: 'static>(
    parse: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Option<T>, String> + Clone + Send + Sync + 'static {
    move |text: &str| if text.is_empty() { Ok(None) } else { parse(text).map(Some) }
}

/// Returns `text` unchanged if it `is_right`, else the complaint.
pub(super) fn checked(text: &str, is_right: bool, complaint: &str) -> Result<String, String> {
    if is_right { Ok(text.to_owned()) } else { Err(complaint.to_owned()) }
}

/// Returns a Kubernetes quantity above zero, unchanged.
pub(super) fn quantity(text: &str) -> Result<String, String> {
    let is_positive = matches!(quantity::amount(text), Some(1..));
    checked(text, is_positive, "is no quantity above zero (try `250m` or `1Gi`)")
}

pub(super) fn absolute_path(text: &str) -> Result<String, String> {
    checked(text, text.starts_with('/'), "must begin with `/`")
}

/// Returns the name of a service account, or an empty text, unchanged.
pub(super) fn account(text: &str) -> Result<String, String> {
    let is_name = text.is_empty() || validation::is_object_name(text);
    checked(text, is_name, "cannot be the name of a service account (try `spark-operator-spark`)")
}

pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("must be at least 1".to_owned()),
        number => number.map_err(|error| error.to_string()),
    }
}

/// Parses a number; a negative one counts as 0.
pub(super) fn at_least_none(text: &str) -> Result<usize, String> {
    let number = text.parse::<i64>().map_err(|error| error.to_string())?;
    Ok(usize::try_from(number).unwrap_or_default())
}

/// Parses the first and the last port of a range.
pub(super) fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let ports = text.split_once('-');
    match ports.map(|(first, last)| (first.parse::<u16>(), last.parse::<u16>())) {
        Some((Ok(first @ 1..), Ok(last))) if first <= last => Ok(first..=last),
        _ => Err("is no range of ports (try `20000-29999`)".to_owned()),
    }
}

pub(super) fn master(text: &str) -> Result<String, String> {
    let complaint = "does not begin with `k8s://` (try `k8s://https://HOST:PORT`)";
    checked(text, text.starts_with("k8s://"), complaint)
}

/// Checks directives for logs. Takes zap's levels too: a number is a verbosity, and the levels above `error` are written
/// as errors here.
pub(super) fn log_filter(text: &str) -> Result<String, String> {
    let text = match text {
        "dpanic" | "panic" | "fatal" => "error",
        "0" => "info",
        number if number.parse::<u8>().is_ok() => "debug",
        directives => directives,
    };
    let parsed: Result<tracing_subscriber::EnvFilter, _> = text.parse();
    parsed.map_err(|error| format!("{error} (try `info` or `info,spark_operator=debug`)"))?;
    Ok(text.to_owned())
}
