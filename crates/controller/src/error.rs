//! Defines the reasons for which a reconcile fails, including a bug of the operator.

use super::{
    events::Events,
    submission_environment,
    workload::{Outcome, Workload},
};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use std::time::Duration;
use work::{Panicked, caught};

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

/// Runs `look`, the reconcile of `object`, and records it in `workload`. `look` returns the time until the next
/// reconcile if nothing changes before; none to wait for a change. A panic in `look` is reported by an event on the
/// object and by a metric.
///
/// # Errors
///
/// The errors of `look`, and [`Error::Panicked`].
pub(super) async fn guarded<K: Resource<DynamicType = ()>>(
    object: &K,
    workload: &Workload,
    events: &Events,
    now: Timestamp,
    look: impl Future<Output = Result<Option<Duration>, Error>>,
) -> Result<Option<Duration>, Error> {
    let work = workload.begin(&object.namespace().unwrap_or_default(), &object.name_any());
    let wake = match caught(look).await {
        Ok(done) => done,
        Err(bug) => {
            workload.panicked();
            events.panicked(object, &bug, now).await;
            Err(bug.into())
        }
    };
    work.end(Outcome::of(&wake));
    wake
}
