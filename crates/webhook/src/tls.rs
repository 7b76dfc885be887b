//! Chooses the TLS versions and the cipher suites that the webhook accepts.

use certificates::ServingCertificate;
use rustls::{
    RootCertStore, ServerConfig, SupportedCipherSuite, crypto::ring::default_provider,
    pki_types::CertificateDer, server::WebPkiClientVerifier, version,
};
use std::sync::Arc;

/// The oldest TLS version that a server accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TlsVersion {
    #[default]
    #[value(name = "VersionTLS12")]
    Tls12,
    #[value(name = "VersionTLS13")]
    Tls13,
}

/// The TLS versions and cipher suites that are accepted.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    pub min_version: TlsVersion,
    /// The listed suites. For a TLS version of which suites are listed, only these are accepted; for a version without
    /// listed suites, all are. (Go, and so Kubeflow's operator, offers a choice only among the suites of TLS 1.2.)
    pub cipher_suites: Vec<SupportedCipherSuite>,
    /// The CAs whose certificates show that a client is an API server. Other clients need no certificate.
    pub client_cas: Vec<CertificateDer<'static>>,
}

impl Tls {
    pub(super) fn config(&self, certificate: Arc<ServingCertificate>) -> Result<ServerConfig, rustls::Error> {
        let versions: &[_] = match self.min_version {
            TlsVersion::Tls12 => &[&version::TLS13, &version::TLS12],
            TlsVersion::Tls13 => &[&version::TLS13],
        };
        let mut provider = default_provider();
        provider.cipher_suites.retain(|suite| self.accepts(suite));
        let provider = Arc::new(provider);
        let config =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
        let config = if self.client_cas.is_empty() {
            config.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            for ca in &self.client_cas {
                roots.add(ca.clone())?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.allow_unauthenticated().build();
            config.with_client_cert_verifier(
                verifier.map_err(|error| rustls::Error::General(error.to_string()))?,
            )
        };
        let mut config = config.with_cert_resolver(certificate);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn accepts(&self, suite: &SupportedCipherSuite) -> bool {
        self.cipher_suites.contains(suite)
            || !self.cipher_suites.iter().any(|listed| listed.version() == suite.version())
    }
}

/// Returns the cipher suite with this name, as Go and IANA write it.
///
/// # Errors
///
/// If the name is unknown; the error lists the known names.
pub fn cipher_suite(text: &str) -> Result<SupportedCipherSuite, String> {
    let known = default_provider().cipher_suites;
    known.iter().find(|suite| name(suite) == text).copied().ok_or_else(|| {
        let known: Vec<_> = known.iter().map(name).collect();
        format!("is not one of {}", known.join(", "))
    })
}

/// Returns the name of a suite as Go and IANA write it. rustls prefixes the names of TLS 1.3 suites with `TLS13_`
/// instead of `TLS_`.
fn name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(suites: &[&str]) -> Vec<String> {
        let cipher_suites = suites.iter().map(|suite| cipher_suite(suite).unwrap()).collect();
        let tls = Tls { cipher_suites, ..Tls::default() };
        let mut accepted = default_provider().cipher_suites;
        accepted.retain(|suite| tls.accepts(suite));
        accepted.iter().map(name).collect()
    }

    #[test]
    fn all_suites_of_a_tls_version_without_a_listed_suite_are_accepted() {
        assert_eq!(accepted(&[]).len(), 9);
        let tls13 = ["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"];
        let tls12 = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        assert_eq!(accepted(&[tls12]), [&tls13[..], &[tls12]].concat());
        assert_eq!(accepted(&[tls12, tls13[1]]), [tls13[1], tls12]);
    }
}
