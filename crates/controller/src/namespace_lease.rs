//! Acquires, renews and releases the Lease by which an operator claims a namespace.

use super::now;
use api::names::annotation::ALSO_CHOSEN_BY;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Client, ResourceExt};
use leader_election::{
    lease::{self, Step as Next, Timing},
    lease_object::{Error, LeaseObject},
};
use std::time::Duration;
use tokio::time::Instant;

/// The name of the Lease in each namespace, which is the same for all installations.
pub const NAMESPACE_LEASE: &str = "sparkapplications.sparkoperator.k8s.io";

/// How often the holder renews the Lease. Each renewal is a write for each namespace with applications: 5 writes in a
/// second for 1,000 namespaces.
pub(super) const RENEWAL: Duration = Duration::from_secs(200);
/// A holder that cannot renew the Lease stops after two periods. Another operator may take the Lease after three: so long
/// a namespace waits for another operator when its own was removed.
const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(600),
    renew_deadline: Duration::from_secs(400),
    retry_period: RENEWAL,
};
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The Lease of one namespace, and what is known of it.
pub(super) struct NamespaceLease {
    lease: LeaseObject,
    /// The Lease as this operator has written it; none if it may be different now.
    written: Option<Lease>,
    /// The spec of the Lease when it was last read, and since when the spec has been unchanged.
    seen: Option<(LeaseSpec, Instant)>,
}

/// What a step has found.
pub(super) enum Step {
    /// This operator holds the Lease until the renew deadline. `contender` is another operator that has chosen the
    /// namespace as well.
    Held { lease: Lease, until: Instant, contender: Option<String> },
    /// Another operator holds the Lease.
    Refused { lease: Lease, holder: String },
    /// Another client has written the Lease at the same time.
    Conflict,
}

impl NamespaceLease {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        let lease = LeaseObject::new(client, (namespace, NAMESPACE_LEASE), PATIENCE);
        Self { lease, written: None, seen: None }
    }

    /// Renews the Lease if the operator `me` holds it, or takes it if nobody does.
    ///
    /// An operator that does not hold the Lease adds the annotation [`ALSO_CHOSEN_BY`] whenever it is missing, and the
    /// holder removes it at each renewal. So each renewal shows the holder whether the other operator still exists.
    ///
    /// # Errors
    ///
    /// When the API server refuses a request or does not answer in time.
    pub(super) async fn step(&mut self, me: &str) -> Result<Step, Error> {
        let mut found = match self.written.take() {
            Some(written) => Some(written),
            None => self.lease.read().await?,
        };
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        if spec.as_ref() != self.seen.as_ref().map(|(spec, _)| spec) {
            self.seen = spec.clone().map(|spec| (spec, Instant::now()));
        }
        let unchanged = self.seen.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        let contender = found.as_mut().and_then(|lease| lease.annotations_mut().remove(ALSO_CHOSEN_BY));
        match (lease::next(spec.as_ref(), unchanged, me, now(), &TIMING), found) {
            (Next::Write(spec), found) => {
                let until = Instant::now() + TIMING.renew_deadline;
                let Some(lease) = self.lease.write(found, spec).await? else { return Ok(Step::Conflict) };
                self.written = Some(lease.clone());
                Ok(Step::Held { lease, until, contender: contender.filter(|contender| contender != me) })
            }
            (Next::Wait(_), Some(mut lease)) => {
                let spec = lease.spec.clone().unwrap_or_default();
                let holder = spec.holder_identity.clone().unwrap_or_default();
                if contender.is_none() {
                    lease.annotations_mut().insert(ALSO_CHOSEN_BY.to_owned(), me.to_owned());
                    // If the holder has just renewed the Lease, the annotation is added by the next step.
                    self.lease.write(Some(lease.clone()), spec).await?;
                }
                Ok(Step::Refused { lease, holder })
            }
            (Next::Wait(_), None) => {
                unreachable!("nobody waits for the holder of a Lease that does not exist")
            }
        }
    }

    /// Releases the Lease if the operator `me` holds it, so that another operator can take it at once.
    ///
    /// # Errors
    ///
    /// As for [`Self::step`].
    pub(super) async fn release(&self, me: &str) -> Result<(), Error> {
        // Another operator may write its annotation between the two requests.
        while let Some(found) = self.lease.read().await? {
            let spec = found.spec.clone().unwrap_or_default();
            if spec.holder_identity.as_deref() != Some(me)
                || self.lease.write(Some(found), lease::released(&spec, now())).await?.is_some()
            {
                break;
            }
        }
        Ok(())
    }
}
