//! Why does a reconcile fail?

use super::surroundings;
use crate::panics::Panicked;

/// Why a reconcile has to be tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{what} failed: {source}")]
    Api { what: &'static str, source: Box<kube::Error> },
    #[error("the object has changed since it was read")]
    Conflict,
    #[error(transparent)]
    Surroundings(#[from] surroundings::Unreadable),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Error {
    pub(super) fn api(what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api { what, source: Box::new(source) }
    }

    /// Whether nobody knows if it was done. What the API server refuses it has not done.
    pub(super) fn is_unanswered(&self) -> bool {
        let refused = |source: &kube::Error| matches!(source, kube::Error::Api(status) if status.code < 500);
        matches!(self, Self::Api { source, .. } if !refused(source))
    }
}
