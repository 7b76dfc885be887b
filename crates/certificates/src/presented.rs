//! Reads from a Secret the certificate that the webhook serves and the CAs that clients have to trust for it.

use super::{generated::Certificates, x509};
use k8s_openapi::api::core::v1::Secret;

/// A certificate and the CAs that have to be trusted for it, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresentedCertificate {
    /// The leaf, and the intermediate certificates between the leaf and a CA.
    pub certificate: String,
    /// The CAs; empty if they are not known.
    pub cas: String,
}

impl PresentedCertificate {
    /// Reads `secret`, in the operator's own format or in cert-manager's; `None` if it contains no certificate.
    pub fn of(secret: &Secret) -> Option<Self> {
        if let Some(found) = Certificates::of(secret) {
            return Some(Self { certificate: found.certificate, cas: found.ca_certificate });
        }
        let cas = Self::text(secret, "ca.crt").unwrap_or_default();
        Some(Self { certificate: Self::text(secret, "tls.crt")?, cas })
    }

    /// Whether a client that trusts `cas` (PEM) trusts this certificate.
    pub fn is_trusted_through(&self, cas: &str) -> bool {
        let read = |pem| x509::certificates(pem).unwrap_or_default();
        x509::issuer(&read(&self.certificate), &read(cas)).is_some()
    }

    /// Returns the text under `key` in `secret`; none if it is missing, empty or not UTF-8.
    pub(super) fn text(secret: &Secret, key: &str) -> Option<String> {
        let bytes = &secret.data.as_ref()?.get(key)?.0;
        String::from_utf8(bytes.clone()).ok().filter(|text| !text.is_empty())
    }
}
