//! The error that is reported while the webhook is not trusted yet.

use rustls::pki_types::pem;

/// Why certificates or webhook configurations cannot be read, created or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed. `object` is the kind and the name of the object.
    #[error("{object}: {source}")]
    Api { object: String, source: Box<kube::Error> },
    #[error("{object} has changed since it was read")]
    Changed { object: String },
    #[error("certificates cannot be made: {0}")]
    Generate(#[from] rcgen::Error),
    #[error("not PEM: {0}")]
    NotPem(#[from] pem::Error),
    #[error("there is no certificate in it")]
    Empty,
    #[error("not an X.509 certificate: {0}")]
    NotX509(String),
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// Certificates or an object are not acceptable, for the reason in this sentence.
    #[error("{0}")]
    Unfit(String),
}

impl Error {
    pub(super) fn api(object: &str, source: kube::Error) -> Self {
        Self::Api { object: object.to_owned(), source: Box::new(source) }
    }
}
