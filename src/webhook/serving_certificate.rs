//! Which certificate does the webhook show? One that can be replaced while it serves.

use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::sync::Arc;
use tokio::sync::watch;

/// The certificate that new connections get; none until the first is [`set`](Self::set), and then handshakes
/// fail.
#[derive(Debug)]
pub struct ServingCertificate(watch::Sender<Option<Arc<CertifiedKey>>>);

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("certificate or key is not PEM: {0}")]
    NotPem(#[from] rustls::pki_types::pem::Error),
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

impl Default for ServingCertificate {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl ServingCertificate {
    /// Shows `certificates` (leaf first) from now on; open connections stay as they are.
    ///
    /// # Errors
    ///
    /// When they are not PEM, or the key is not the leaf's.
    pub fn set(&self, certificates: &str, key: &str) -> Result<(), Error> {
        let chain = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
        let provider = rustls::crypto::ring::default_provider();
        self.0.send_replace(Some(Arc::new(CertifiedKey::from_der(chain, key, &provider)?)));
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.borrow().clone()
    }
}
