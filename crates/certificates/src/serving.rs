//! Holds the certificate that the listener serves. The certificate can be replaced while the listener runs.

use super::{error::Error, x509};
use parking_lot::RwLock;
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tracing::info;

/// The certificate that new connections get. Until the first certificate is [`set`](Self::set) there is none, and
/// handshakes fail.
#[derive(Debug, Default)]
pub struct ServingCertificate(RwLock<Option<Shown>>);

#[derive(Debug)]
struct Shown {
    certificate: Arc<CertifiedKey>,
    /// How many handshakes have begun with this certificate.
    handshakes: AtomicU64,
}

/// Returns `chain` (leaf first) with the key of the leaf, which is in PEM. Fails if the key belongs to another certificate.
pub(super) fn certified_key(chain: Vec<CertificateDer<'static>>, key: &str) -> Result<CertifiedKey, Error> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    Ok(CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())?)
}

impl ServingCertificate {
    /// Serves `certificates` (leaf first) to new connections from now on. Open connections stay as they are.
    ///
    /// # Errors
    ///
    /// If the certificates or the key are not PEM, or the key does not belong to the leaf.
    pub fn set(&self, certificates: &str, key: &str) -> Result<(), Error> {
        let certificate = certified_key(x509::certificates(certificates)?, key)?;
        let mut shown = self.0.write();
        if shown.as_ref().is_none_or(|shown| shown.certificate.cert != certificate.cert) {
            let new = Shown { certificate: Arc::new(certificate), handshakes: AtomicU64::new(0) };
            if let Some(old) = shown.replace(new) {
                let leaf = old.certificate.cert.first().and_then(|leaf| x509::description(leaf).ok());
                let leaf = leaf.map(|leaf| (leaf.fingerprint, leaf.validity.until.to_string()));
                let ((fingerprint, until), handshakes) = (leaf.unzip(), old.handshakes.into_inner());
                info!(fingerprint, until, handshakes, "certificate replaced");
            }
        }
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.0.read();
        let shown = shown.as_ref()?;
        shown.handshakes.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(&shown.certificate))
    }
}
