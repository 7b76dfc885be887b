//! How are the webhook's own CA and leaf made, and until when are they good enough?

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use std::{sync::Arc, time::Duration};

/// Ten years, as KF's: a CA that only our own API server trusts has no reason to end sooner.
const CA_YEARS: i64 = 10;
/// One year: short enough that renewal is exercised, long enough to survive any outage of ours.
const LEAF_YEARS: i64 = 1;
/// A leaf that has less than a third of its life left is replaced.
const RENEW_BEFORE: Duration = Duration::from_secs(122 * 24 * 60 * 60);

/// A CA and a leaf signed by it, all in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificates {
    pub ca_certificate: String,
    pub ca_key: String,
    pub certificate: String,
    pub key: String,
}

/// Names of the PEM files, also as keys of the Secret: KF's.
pub(super) mod file {
    pub(in crate::webhook) const CA_CERTIFICATE: &str = "ca-cert.pem";
    pub(in crate::webhook) const CA_KEY: &str = "ca-key.pem";
    pub(in crate::webhook) const CERTIFICATE: &str = "server-cert.pem";
    pub(in crate::webhook) const KEY: &str = "server-key.pem";
}

/// Why certificates are not good enough.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error("not PEM: {0}")]
    NotPem(#[from] rustls::pki_types::pem::Error),
    #[error("`{0}` is not a DNS name")]
    Name(String),
    #[error("the CA cannot be used: {0}")]
    Ca(#[from] rustls::client::VerifierBuilderError),
    #[error("the leaf does not verify: {0}")]
    Leaf(#[from] rustls::Error),
}

impl Certificates {
    /// A new CA and a new leaf for `dns_names`, good from yesterday (clocks differ) on.
    ///
    /// # Errors
    ///
    /// When a name is not a DNS name, or the machine has no randomness.
    pub fn generate(dns_names: &[String], now: Timestamp) -> Result<Self, rcgen::Error> {
        let today = now.to_zoned(TimeZone::UTC).date();
        let common_name = dns_names.first().cloned().unwrap_or_default();

        let ca_key = KeyPair::generate()?;
        let mut ca = params(Vec::new(), &format!("{common_name} CA"), today, CA_YEARS)?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_certificate = ca.self_signed(&ca_key)?;

        let key = KeyPair::generate()?;
        let mut leaf = params(dns_names.to_vec(), &common_name, today, LEAF_YEARS)?;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let certificate = leaf.signed_by(&key, &Issuer::from_params(&ca, &ca_key))?;

        Ok(Self {
            ca_certificate: ca_certificate.pem(),
            ca_key: ca_key.serialize_pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// As files: name and PEM.
    #[must_use]
    pub fn files(self) -> [(&'static str, String); 4] {
        [
            (file::CA_CERTIFICATE, self.ca_certificate),
            (file::CA_KEY, self.ca_key),
            (file::CERTIFICATE, self.certificate),
            (file::KEY, self.key),
        ]
    }

    /// Whether the leaf verifies against the CA for `dns_name`, now and long enough to be renewed in time.
    ///
    /// # Errors
    ///
    /// What is wrong with them; [`generate`](Self::generate) new ones then.
    pub fn check(&self, dns_name: &str, now: Timestamp) -> Result<(), Unfit> {
        let roots = roots(&self.ca_certificate)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        let leaf = CertificateDer::from_pem_slice(self.certificate.as_bytes())?;
        let name = ServerName::try_from(dns_name).map_err(|_| Unfit::Name(dns_name.to_owned()))?;
        let now = Duration::from_secs(now.as_second().unsigned_abs());
        for time in [now, now + RENEW_BEFORE] {
            verifier.verify_server_cert(&leaf, &[], &name, &[], UnixTime::since_unix_epoch(time))?;
        }
        Ok(())
    }
}

/// Those who trust the CAs in `pem`.
pub(super) fn roots(pem: &str) -> Result<RootCertStore, Unfit> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(ca?)?;
    }
    Ok(roots)
}

fn params(
    names: Vec<String>,
    common_name: &str,
    today: Date,
    years: i64,
) -> Result<CertificateParams, rcgen::Error> {
    // A closure, because its type is of a crate (`time`) that only rcgen needs.
    let midnight = |date: Date| {
        let month = u8::try_from(date.month()).expect("months are 1 to 12");
        let day = u8::try_from(date.day()).expect("days are 1 to 31");
        rcgen::date_time_ymd(date.year().into(), month, day)
    };
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::OrganizationName, "spark-operator");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = midnight(today.saturating_sub(1.day()));
    params.not_after = midnight(today.saturating_add(years.years()));
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "spark-operator-webhook-svc.spark-operator.svc";

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn new_certificates_are_fit_until_a_third_of_the_leafs_life_is_left() {
        let made = Certificates::generate(&[NAME.to_owned()], at("2026-11-21T12:00:00Z")).unwrap();
        made.check(NAME, at("2026-11-21T00:00:00Z")).unwrap();
        made.check(NAME, at("2027-07-20T00:00:00Z")).unwrap();
        assert!(matches!(made.check(NAME, at("2027-07-23T00:00:00Z")), Err(Unfit::Leaf(_))));
    }

    #[test]
    fn certificates_for_another_name_or_of_another_ca_are_unfit() {
        let now = at("2026-11-21T12:00:00Z");
        let made = Certificates::generate(&[NAME.to_owned()], now).unwrap();
        assert!(matches!(made.check("elsewhere.svc", now), Err(Unfit::Leaf(_))));
        let other = Certificates::generate(&[NAME.to_owned()], now).unwrap();
        let mixed = Certificates { ca_certificate: other.ca_certificate, ..made.clone() };
        assert!(matches!(mixed.check(NAME, now), Err(Unfit::Leaf(_))));
        assert!(Certificates { certificate: "nonsense".into(), ..made }.check(NAME, now).is_err());
    }
}
