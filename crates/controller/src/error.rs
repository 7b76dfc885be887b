//! Defines the reasons for which a reconcile fails, including a bug of the operator.

use super::submission_environment;
use work::Panicked;

/// Why a reconcile has failed and has to be retried.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{what} failed: {source}")]
    Api { what: &'static str, source: Box<kube::Error> },
    #[error("the object has changed since it was read")]
    Conflict,
    #[error(transparent)]
    SubmissionEnvironment(#[from] submission_environment::Unreadable),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Error {
    pub(super) fn api(what: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api { what, source: Box::new(source) }
    }

    /// Whether it is unknown if the API server has carried out the request. A request that the API server refuses was
    /// not carried out.
    pub(super) fn is_unanswered(&self) -> bool {
        let refused = |source: &kube::Error| matches!(source, kube::Error::Api(status) if status.code < 500);
        matches!(self, Self::Api { source, .. } if !refused(source))
    }
}
