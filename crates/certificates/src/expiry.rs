//! Reports until when the certificates that the webhook serves are valid: as metrics, as a condition of readiness, and
//! as a warning in the log when a tenth of the validity is left.

use super::{
    error::Error,
    renewal::{Held, Validity},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use std::{collections::BTreeMap, sync::atomic::AtomicI64};
use tracing::warn;

/// The expiry of the certificates that the webhook serves.
pub(super) struct Expiry {
    ends: Family<[(&'static str, &'static str); 1], Gauge<i64, AtomicI64>>,
    /// For each certificate, the expiry in the last warning, so that each expiry is logged once.
    warned: Mutex<BTreeMap<&'static str, Timestamp>>,
}

impl Expiry {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let expiry = Self { ends: Family::default(), warned: Mutex::default() };
        let help = "Until when the webhook's certificate and the CA that has signed it are valid, in seconds since 1970";
        let name = "spark_operator_webhook_certificate_expiry_timestamp_seconds";
        registry.register(name, help, expiry.ends.clone());
        expiry
    }

    /// Records that the webhook serves the leaf in `held` to clients that trust the CAs in it.
    ///
    /// # Errors
    ///
    /// If the leaf, or the CA that has signed it, is not valid at `now`, so that no client accepts it.
    pub(super) fn shown(&self, held: &Held, now: Timestamp) -> Result<(), Error> {
        // Certificates that cannot be read are skipped here; other code reports them.
        let Some(leaf) = &held.leaf else { return Ok(()) };
        let ca = leaf.issuer.and_then(|issuer| held.cas.get(issuer));
        let result = ca.map_or(Ok(()), |ca| self.record("ca", *ca, now));
        result.and(self.record("leaf", leaf.validity, now))
    }

    fn record(&self, certificate: &'static str, validity: Validity, now: Timestamp) -> Result<(), Error> {
        let Validity { from, until } = validity;
        self.ends.get_or_create(&[("certificate", certificate)]).set(until.as_second());
        if !validity.includes(now) {
            return Err(Error::Unfit(format!(
                "the webhook's {certificate} is valid from {from} until {until}: have it renewed, or delete the Secret if it is \
                 the operator's own (certs/README.md)"
            )));
        }
        let mut warned = self.warned.lock();
        if validity.nearly_over() <= now && warned.insert(certificate, until) != Some(until) {
            warn!(certificate, %until, "less than a tenth of its life is left, and nobody has renewed it");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Certificates;
    use prometheus_client::encoding::text::encode;
    use std::{io::Read, sync::Arc};

    /// In this test the leaf is not renewed before it expires, and later the CA is not renewed either.
    #[test]
    fn a_certificate_is_warned_about_once_in_the_last_tenth_of_its_validity() {
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let names = ["x.svc".to_owned()];
        let first = Certificates::generate(&names, at("2026-11-21T12:00:00Z")).unwrap();
        let second = first.with_new_leaf(&names, at("2035-12-15T00:00:00Z")).unwrap();
        let (mut log, written) = std::io::pipe().unwrap();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::new(written)).finish();
        let expiry = Expiry::new(&mut Registry::default());
        tracing::subscriber::with_default(subscriber, || {
            for (certificates, time) in [
                (&first, "2027-10-14T00:00:00Z"),
                (&first, "2027-10-16T12:00:00Z"),
                (&first, "2027-11-20T00:00:00Z"),
                (&second, "2036-01-01T00:00:00Z"),
                (&second, "2036-11-19T00:00:00Z"),
                (&second, "2036-11-19T01:00:00Z"),
            ] {
                expiry.shown(&certificates.held(&names), at(time)).unwrap();
            }
        });
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        let warned: Vec<_> =
            text.lines().filter_map(|line| Some(line.split_once("certificate=")?.1)).collect();
        let expected = [
            "\"leaf\" until=2027-11-21T12:00:00Z", "\"ca\" until=2036-11-20T12:00:00Z",
            "\"leaf\" until=2036-12-14T00:00:00Z",
        ];
        assert_eq!(warned, expected, "{text}");
    }

    #[test]
    fn expiry_times_are_a_metric_and_an_expired_certificate_is_an_error() {
        // This test logs a warning, too. On a thread without a log, that would suppress the warning in the other test:
        // tracing asks only the first thread that reaches a warning whether the warning is logged.
        let _log =
            tracing::subscriber::set_default(tracing_subscriber::fmt().with_writer(std::io::sink).finish());
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let made = Certificates::generate(&["x.svc".to_owned()], at("2026-11-21T12:00:00Z")).unwrap();
        let mut registry = Registry::default();
        let expiry = Expiry::new(&mut registry);
        let shown = |time| expiry.shown(&made.held(&[]), at(time));
        shown("2026-11-21T12:00:00Z").unwrap();
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let name = "spark_operator_webhook_certificate_expiry_timestamp_seconds";
        for (certificate, end) in [("ca", "2036-11-20T12:00:00Z"), ("leaf", "2027-11-21T12:00:00Z")] {
            let line = format!("{name}{{certificate=\"{certificate}\"}} {}\n", at(end).as_second());
            assert!(text.contains(&line), "{text}");
        }
        shown("2027-11-20T12:00:00Z").unwrap();
        let error = shown("2027-11-21T12:00:00Z").unwrap_err().to_string();
        assert!(
            error.contains("leaf is valid from 2026-11-20T12:00:00Z until 2027-11-21T12:00:00Z"),
            "{error}"
        );
        let error = shown("2040-01-01T00:00:00Z").unwrap_err().to_string();
        assert!(error.contains("webhook's ca is valid"), "{error}");
    }
}
