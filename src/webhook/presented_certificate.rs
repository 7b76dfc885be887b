//! The certificate that the webhook serves, and the CAs that have to be trusted for it.

use super::{certificate_secret, x509};
use k8s_openapi::api::core::v1::Secret;

/// A certificate and those who vouch for it, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentedCertificate {
    /// The leaf, and what is between it and a CA.
    pub certificate: String,
    /// The CAs; empty where they are not told.
    pub cas: String,
}

impl PresentedCertificate {
    /// What is in `secret`, be it our own or cert-manager's.
    #[must_use]
    pub fn of(secret: &Secret) -> Option<Self> {
        if let Some(found) = certificate_secret::certificates(secret) {
            return Some(Self { certificate: found.certificate, cas: found.ca_certificate });
        }
        let cas = Self::text(secret, "ca.crt").unwrap_or_default();
        Some(Self { certificate: Self::text(secret, "tls.crt")?, cas })
    }

    /// Whether whoever trusts `cas` (PEM) trusts this.
    #[must_use]
    pub fn is_trusted_through(&self, cas: &str) -> bool {
        let read = |pem| x509::certificates(pem).unwrap_or_default();
        x509::issuer(&read(&self.certificate), &read(cas)).is_some()
    }

    /// A text in `secret` that is not empty.
    pub(super) fn text(secret: &Secret, key: &str) -> Option<String> {
        let bytes = &secret.data.as_ref()?.get(key)?.0;
        String::from_utf8(bytes.clone()).ok().filter(|text| !text.is_empty())
    }
}
