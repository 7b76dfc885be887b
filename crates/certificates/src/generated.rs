//! Creates the webhook's own CA and leaf, together or one at a time. `renewal` decides when a certificate is
//! created.

use super::{
    renewal::{Held, Leaf},
    serving::certified_key,
    x509,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData,
};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a CA is valid: ten years, as in Kubeflow's operator. Only the cluster's own API server trusts the CA, so
/// there is no reason for the CA to expire sooner.
const CA_LIFE: Duration = Duration::from_secs(3652 * 24 * 60 * 60);
/// How long a leaf is valid: one year, short enough that renewals are exercised, and long enough to outlast any outage
/// of the operator.
const LEAF_LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The CAs (newest first) with the key of the newest CA, and a leaf with its key, all in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificates {
    /// Empty if the operator has not created the leaf and the CAs are not known.
    pub ca_certificate: String,
    /// Empty if the operator does not have the key.
    pub ca_key: String,
    /// The leaf, and the intermediate certificates between the leaf and a CA.
    pub certificate: String,
    pub key: String,
}

/// The names of the PEM files of [`Certificates`], in the order of its fields. They are also the keys of the Secret: the
/// same as in Kubeflow.
const FILES: [&str; 4] = ["ca-cert.pem", "ca-key.pem", "server-cert.pem", "server-key.pem"];

/// A certificate and its key in PEM.
type Pair = (String, String);

impl Certificates {
    /// Creates a new CA and a new leaf for `dns_names`. Both are valid from one day before `now` on, because clocks
    /// differ.
    ///
    /// # Errors
    ///
    /// If a name is not a DNS name, or the operating system provides no random numbers.
    pub fn generate(dns_names: &[String], now: Timestamp) -> Result<Self, rcgen::Error> {
        let (ca_certificate, ca_key) = new_ca(dns_names, now)?;
        let (certificate, key) = new_leaf(&ca_certificate, &ca_key, dns_names, now)?;
        Ok(Self { ca_certificate, ca_key, certificate, key })
    }

    /// Returns these certificates with a new CA in front of the present CAs. The leaf stays.
    ///
    /// # Errors
    ///
    /// As for [`generate`](Self::generate).
    pub fn with_new_ca(&self, dns_names: &[String], now: Timestamp) -> Result<Self, rcgen::Error> {
        let (newest, ca_key) = new_ca(dns_names, now)?;
        Ok(Self { ca_certificate: newest + &self.ca_certificate, ca_key, ..self.clone() })
    }

    /// Returns these certificates with a new leaf that the newest CA has signed.
    ///
    /// # Errors
    ///
    /// As for [`generate`](Self::generate), and if the operator cannot sign with the CA's key.
    pub fn with_new_leaf(&self, dns_names: &[String], now: Timestamp) -> Result<Self, rcgen::Error> {
        let (certificate, key) = new_leaf(&self.ca_certificate, &self.ca_key, dns_names, now)?;
        Ok(Self { certificate, key, ..self.clone() })
    }

    /// Returns these certificates without the older CAs.
    pub fn with_newest_ca_alone(&self) -> Self {
        Self { ca_certificate: self.newest_ca().to_owned(), ..self.clone() }
    }

    /// Returns the newest CA's certificate.
    pub(super) fn newest_ca(&self) -> &str {
        const END: &str = "-----END CERTIFICATE-----\n";
        self.ca_certificate.split_inclusive(END).next().unwrap_or_default()
    }

    /// Returns the properties of these certificates on which `renewal` decides. `dns_names` are the names that
    /// the leaf should be valid for.
    pub fn held(&self, dns_names: &[String]) -> Held {
        // Certificates that cannot be read count as absent.
        let cas = x509::certificates(&self.ca_certificate).unwrap_or_default();
        let chain = x509::certificates(&self.certificate).unwrap_or_default();
        let validities: Option<Vec<_>> =
            cas.iter().map(|ca| Some(x509::description(ca).ok()?.validity)).collect();
        let ca_key = KeyPair::from_pem(&self.ca_key).ok().map(|key| key.subject_public_key_info());
        let has_key = certified_key(chain.clone(), &self.key).is_ok();
        let leaf = chain.first().filter(|_| has_key).and_then(|leaf| {
            Some(Leaf {
                validity: x509::description(leaf).ok()?.validity,
                issuer: x509::issuer(&chain, &cas),
                lacks: x509::lacks(leaf, dns_names),
            })
        });
        Held {
            cas: validities.unwrap_or_default(),
            can_sign: ca_key.is_some() && ca_key == cas.first().and_then(x509::public_key),
            leaf,
        }
    }

    /// Returns the four PEM files: name and content.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &String)> {
        FILES.into_iter().zip([&self.ca_certificate, &self.ca_key, &self.certificate, &self.key])
    }

    /// Reads the certificates in a Secret of the operator's own format; `None` if the Secret has another format, or its CA
    /// cannot be read. The CA's key may be missing.
    pub fn of(secret: &Secret) -> Option<Self> {
        let [ca, ca_key, leaf, key] = FILES.map(|file| text(secret, file));
        let (ca_certificate, ca_key) = (ca?, ca_key.unwrap_or_default());
        let found = Self { ca_certificate, ca_key, certificate: leaf?, key: key? };
        (!found.held(&[]).cas.is_empty()).then_some(found)
    }
}

/// Returns the text under `key` in `secret`; `None` if it is missing, empty or not UTF-8.
pub(super) fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = &secret.data.as_ref()?.get(key)?.0;
    String::from_utf8(bytes.clone()).ok().filter(|text| !text.is_empty())
}

fn new_ca(dns_names: &[String], now: Timestamp) -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    let common_name = format!("{} CA", common_name(dns_names));
    let mut ca = params(Vec::new(), &common_name, now, CA_LIFE)?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok((ca.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Creates a leaf, signed by the first CA in `ca`.
fn new_leaf(ca: &str, ca_key: &str, dns_names: &[String], now: Timestamp) -> Result<Pair, rcgen::Error> {
    let issuer = Issuer::from_ca_cert_pem(ca, KeyPair::from_pem(ca_key)?)?;
    let key = KeyPair::generate()?;
    let mut leaf = params(dns_names.to_vec(), &common_name(dns_names), now, LEAF_LIFE)?;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    Ok((leaf.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
}

fn common_name(dns_names: &[String]) -> String {
    dns_names.first().cloned().unwrap_or_default()
}

fn params(
    names: Vec<String>,
    common_name: &str,
    now: Timestamp,
    life: Duration,
) -> Result<CertificateParams, rcgen::Error> {
    let now = Duration::from_secs(now.as_second().unsigned_abs());
    // rcgen's own function creates the epoch, because its type belongs to a crate (`time`) that only rcgen needs.
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::OrganizationName, "spark-operator");
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = epoch + (now - DAY);
    params.not_after = epoch + (now + life);
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::renewal::Validity;

    const NAME: &str = "spark-operator-webhook-svc.spark-operator.svc";

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn names() -> [String; 2] {
        [NAME.to_owned(), "localhost".to_owned()]
    }

    fn made() -> Certificates {
        Certificates::generate(&names(), at("2026-11-21T12:00:00Z")).unwrap()
    }

    #[test]
    fn generated_certificates_have_their_names_issuer_and_validity() {
        let ca = Validity { from: at("2026-11-20T12:00:00Z"), until: at("2036-11-20T12:00:00Z") };
        let validity = Validity { until: at("2027-11-21T12:00:00Z"), ..ca };
        let leaf = Some(Leaf { validity, issuer: Some(0), lacks: Vec::new() });
        assert_eq!(made().held(&names()), Held { cas: vec![ca], can_sign: true, leaf });
    }

    #[test]
    fn the_old_cas_leaf_is_trusted_as_long_as_the_old_ca_is_kept() {
        let now = at("2027-01-01T00:00:00Z");
        let both = made().with_new_ca(&names(), now).unwrap();
        let issuer = |certificates: &Certificates| {
            let held = certificates.held(&names());
            (held.cas.len(), held.can_sign, held.leaf.unwrap().issuer)
        };
        assert_eq!(issuer(&both), (2, true, Some(1)));
        let signed = both.with_new_leaf(&names(), now).unwrap();
        assert_eq!(issuer(&signed), (2, true, Some(0)));
        assert_eq!(issuer(&signed.with_newest_ca_alone()), (1, true, Some(0)));
        assert_eq!(issuer(&both.with_newest_ca_alone()), (1, true, None));
    }

    #[test]
    fn certificates_and_keys_that_do_not_match_are_detected() {
        let other = made();
        let held = |certificates: Certificates| certificates.held(&names());
        let of_another = Certificates { ca_certificate: other.ca_certificate, ..made() };
        assert_eq!(held(of_another.clone()).leaf.unwrap().issuer, None);
        assert!(!held(of_another).can_sign);
        assert!(!held(Certificates { ca_key: String::new(), ..made() }).can_sign);
        assert_eq!(held(Certificates { key: other.key, ..made() }).leaf, None);
        assert_eq!(held(Certificates { certificate: "nonsense".into(), ..made() }).leaf, None);
        assert_eq!(held(Certificates { ca_certificate: "nonsense".into(), ..made() }).cas, []);
        let lacks = made().held(&["elsewhere.svc".to_owned(), NAME.to_owned()]).leaf.unwrap().lacks;
        assert_eq!(lacks, ["elsewhere.svc"]);
    }
}
