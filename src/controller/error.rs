//! Defines the reasons for which a reconcile fails, including a bug of the operator.

use super::{events::Events, submission_environment, workload::Workload};
use crate::panics::{Panicked, caught};
use jiff::Timestamp;
use kube::Resource;

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

/// Reconciles `object` by `work`. Reports a panic in `work` by an event on the object and a metric.
///
/// # Errors
///
/// The errors of `work`, and [`Error::Panicked`].
pub(super) async fn guarded<K: Resource<DynamicType = ()>, T>(
    object: &K,
    workload: &Workload,
    events: &Events,
    now: Timestamp,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match caught(work).await {
        Ok(done) => done,
        Err(bug) => {
            workload.panicked();
            events.panicked(object, &bug, now).await;
            Err(bug.into())
        }
    }
}
