//! Acquires, renews and releases the Lease by which an operator claims a namespace.

use super::now;
use api::names::annotation::ALSO_CHOSEN_BY;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Client, ResourceExt};
use leader_election::{
    lease::{self, Step as Next, Timing},
    lease_object::{Error, LeaseObject},
};
use std::{mem, time::Duration};
use tokio::time::Instant;
use tracing::warn;

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

/// How old the last answer may be for the Lease to count as unchanged since then. After a longer outage of the API server
/// the holder gets the time that it needs to renew the Lease.
const RECENT: Duration = Duration::from_secs(60);

/// The Lease of one namespace, and what is known of it.
pub(super) struct NamespaceLease {
    lease: LeaseObject,
    /// The Lease while this operator holds it.
    held: Option<Held>,
    /// The spec of the Lease when it was last read, and since when the spec has been unchanged.
    seen: Option<(LeaseSpec, Instant)>,
    /// When the API server last answered.
    answered: Instant,
}

#[derive(Clone)]
struct Held {
    lease: Lease,
    /// Just before the request that has renewed the Lease.
    renewed: Instant,
    /// Another operator that has chosen the namespace as well.
    contender: Option<String>,
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
        Self { lease, held: None, seen: None, answered: Instant::now() }
    }

    /// Takes the Lease for the operator `me` if nobody holds it, renews it if that is due, and otherwise reads it.
    ///
    /// An operator that does not hold the Lease adds the annotation [`ALSO_CHOSEN_BY`] whenever it is missing, and the
    /// holder removes it at each renewal. So each renewal shows the holder whether the other operator still exists.
    ///
    /// # Errors
    ///
    /// When the API server refuses a request or does not answer in time.
    pub(super) async fn step(&mut self, me: &str) -> Result<Step, Error> {
        let mut found = match self.held.take() {
            Some(held) if held.renewed.elapsed() >= RENEWAL => Some(held.lease),
            held => {
                let found = self.lease.read().await?;
                if let (Some(held), Some(found)) = (held, &found)
                    && is_held_by(found, me)
                {
                    return Ok(self.holds(Held { lease: found.clone(), ..held }));
                }
                found
            }
        };
        if mem::replace(&mut self.answered, Instant::now()).elapsed() > RECENT {
            self.seen = None;
        }
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        if spec.as_ref() != self.seen.as_ref().map(|(spec, _)| spec) {
            self.seen = spec.clone().map(|spec| (spec, Instant::now()));
        }
        let unchanged = self.seen.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        let contender = found.as_mut().and_then(|lease| lease.annotations_mut().remove(ALSO_CHOSEN_BY));
        match (lease::next(spec.as_ref(), unchanged, me, now(), &TIMING), found) {
            (Next::Write(spec), found) => {
                let renewed = Instant::now();
                let Some(lease) = self.lease.write(found, spec).await? else { return Ok(Step::Conflict) };
                let contender = contender.filter(|contender| contender != me);
                Ok(self.holds(Held { lease, renewed, contender }))
            }
            (Next::Wait(_), Some(mut lease)) => {
                let spec = lease.spec.clone().unwrap_or_default();
                let holder = spec.holder_identity.clone().unwrap_or_default();
                if contender.is_none() {
                    lease.annotations_mut().insert(ALSO_CHOSEN_BY.to_owned(), me.to_owned());
                    // If this fails, the next step tries again. Who drives the namespace is known all the same.
                    if let Err(error) = self.lease.write(Some(lease.clone()), spec).await {
                        warn!(holder, %error, "the holder of a namespace's Lease cannot be told of this operator");
                    }
                }
                Ok(Step::Refused { lease, holder })
            }
            (Next::Wait(_), None) => {
                unreachable!("nobody waits for the holder of a Lease that does not exist")
            }
        }
    }

    fn holds(&mut self, held: Held) -> Step {
        self.held = Some(held.clone());
        let Held { lease, renewed, contender } = held;
        Step::Held { lease, until: renewed + TIMING.renew_deadline, contender }
    }

    /// Releases the Lease if the operator `me` holds it, so that another operator can take it at once.
    ///
    /// # Errors
    ///
    /// As for [`Self::step`].
    pub(super) async fn release(&self, me: &str) -> Result<(), Error> {
        // Another operator may write its annotation between the two requests.
        while let Some(found) = self.lease.read().await?.filter(|found| is_held_by(found, me)) {
            let spec = lease::released(&found.spec.clone().unwrap_or_default(), now());
            if self.lease.write(Some(found), spec).await?.is_some() {
                break;
            }
        }
        Ok(())
    }
}

fn is_held_by(lease: &Lease, me: &str) -> bool {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(me)
}
