//! Reads X.509 certificates: their names, their validity, and which CA has signed them.

use super::{error::Error, renewal::Validity};
use jiff::Timestamp;
use rustls::{
    RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::ring::default_provider,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use sha2::{Digest, Sha256};
use std::{net::IpAddr, time::Duration};
use x509_parser::{extensions::GeneralName, parse_x509_certificate, time::ASN1Time};

/// The content of a certificate, as far as the operator needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The distinguished name of the certificate's subject.
    pub subject: String,
    /// The distinguished name of the CA that has signed the certificate.
    pub issuer: String,
    /// The DNS names and IP addresses that the certificate is valid for.
    pub names: Vec<String>,
    pub validity: Validity,
    /// The SHA-256 of the whole certificate (DER), in hexadecimal digits.
    pub fingerprint: String,
}

/// Returns the certificates in a PEM text, in their order; at least one.
///
/// # Errors
///
/// If the text contains no certificate, or malformed PEM.
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() { Err(Error::Empty) } else { Ok(found) }
}

/// Returns the content of `certificate`.
///
/// # Errors
///
/// If it is not an X.509 certificate.
pub fn description(certificate: &CertificateDer<'_>) -> Result<Description, Error> {
    let (_, x509) = parse_x509_certificate(certificate).map_err(|error| Error::NotX509(error.to_string()))?;
    let time = |time: ASN1Time| {
        Timestamp::from_second(time.timestamp()).map_err(|error| Error::NotX509(error.to_string()))
    };
    let valid = x509.validity();
    let alternatives = x509.subject_alternative_name().map_err(|error| Error::NotX509(error.to_string()))?;
    let names = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    Ok(Description {
        subject: x509.subject().to_string(),
        issuer: x509.issuer().to_string(),
        names: names.filter_map(name).collect(),
        validity: Validity { from: time(valid.not_before)?, until: time(valid.not_after)? },
        fingerprint: Sha256::digest(certificate).into_iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let either = v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            either.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// Returns the public key in `certificate` (the DER of its SubjectPublicKeyInfo).
pub(super) fn public_key(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, x509) = parse_x509_certificate(certificate).ok()?;
    Some(x509.public_key().raw.to_owned())
}

/// Returns the index of the first CA in `cas` that has signed the first certificate of `chain`, directly or through the
/// other certificates of `chain`; `None` if no CA has.
pub fn issuer(chain: &[CertificateDer<'_>], cas: &[CertificateDer<'static>]) -> Option<usize> {
    let (leaf, intermediates) = chain.split_first()?;
    // Signatures are verified as of the leaf's last second, so that the result does not depend on the present time:
    // whether the leaf is valid now is checked elsewhere.
    let then = description(leaf).ok()?.validity.until.as_second() - 1;
    let then = UnixTime::since_unix_epoch(Duration::from_secs(then.unsigned_abs()));
    let leaf = ParsedCertificate::try_from(leaf).ok()?;
    let algorithms = default_provider().signature_verification_algorithms.all;
    cas.iter().position(|ca| {
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone()).is_ok()
            && verify_server_cert_signed_by_trust_anchor(&leaf, &roots, intermediates, then, algorithms)
                .is_ok()
    })
}

/// Returns the `names` that `leaf` is not valid for.
pub fn lacks(leaf: &CertificateDer<'_>, names: &[String]) -> Vec<String> {
    let parsed = ParsedCertificate::try_from(leaf).ok();
    let is_for = |name: &String| {
        let asked = ServerName::try_from(name.as_str()).ok();
        parsed.as_ref().zip(asked).is_some_and(|(leaf, name)| verify_server_name(leaf, &name).is_ok())
    };
    names.iter().filter(|name| !is_for(name)).cloned().collect()
}

/// Returns a store that trusts the CAs in `pem`.
pub(super) fn roots(pem: &str) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for ca in certificates(pem).map_err(|error| rustls::Error::General(error.to_string()))? {
        roots.add(ca)?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    #[test]
    fn a_self_signed_leaf_as_from_cert_manager_is_its_own_ca() {
        let names = ["x.svc".to_owned(), "10.0.0.1".to_owned()];
        let params = CertificateParams::new(names).unwrap();
        let leaf = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone();
        assert_eq!(issuer(std::slice::from_ref(&leaf), std::slice::from_ref(&leaf)), Some(0));
        let said = description(&leaf).unwrap();
        assert_eq!((said.names.join(" "), said.subject == said.issuer), ("x.svc 10.0.0.1".to_owned(), true));
        assert_eq!(lacks(&leaf, &["y.svc".to_owned(), "x.svc".to_owned()]), ["y.svc"]);
    }

    #[test]
    fn a_missing_certificate_and_a_malformed_one_are_different_errors() {
        assert!(matches!(certificates(""), Err(Error::Empty)));
        let text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let none = certificates(text).unwrap();
        assert!(matches!(description(&none[0]), Err(Error::NotX509(_))));
    }
}
