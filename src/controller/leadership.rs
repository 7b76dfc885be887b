//! When does this process drive applications? While it holds the lease; everything else (the webhook) it does
//! anyway.

use crate::plan::lease::{self, Step, Timing};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// A candidate for the lease.
pub struct Leadership {
    leases: Api<Lease>,
    name: String,
    /// `<pod>_<uuid>`, as KF's.
    me: String,
    timing: Timing,
    leads: Gauge,
}

/// The lease while we hold it.
struct Held {
    lease: Lease,
    /// Just before it was written last: others count from when they see it, which is later.
    renewed: Instant,
}

/// Why the lease cannot be read or written.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("Lease {name}: {source}")]
    Api { name: String, source: kube::Error },
    #[error("Lease {name}: no answer in time")]
    TookTooLong { name: String },
}

impl Leadership {
    /// A candidate under the name of `pod` for the lease `name` in `namespace`.
    pub fn new(
        client: Client,
        (namespace, name): (&str, &str),
        pod: &str,
        timing: Timing,
        registry: &mut Registry,
    ) -> Self {
        let leads = Gauge::default();
        let registry = registry.sub_registry_with_label(("name".into(), name.to_owned().into()));
        registry.register("leader_election_master_status", "1 where this process leads", leads.clone());
        let me = format!("{pod}_{}", drawn());
        Self { leases: Api::namespaced(client, namespace), name: name.to_owned(), me, timing, leads }
    }

    /// Does `work` whenever the lease is ours, until `stop`, and then gives the lease back. If it is lost,
    /// `work` is dropped where it stands: others may lead already. `stands_by` is called whenever another one
    /// leads.
    pub async fn lead<W: Future<Output = ()>>(
        self,
        work: impl Fn() -> W,
        stands_by: impl Fn(),
        stop: CancellationToken,
    ) {
        while let Some(mut held) = stop.run_until_cancelled(self.acquired(&stands_by)).await {
            info!(lease = self.name, identity = self.me, "leading");
            self.leads.set(1);
            let has_ended = tokio::select! {
                () = work() => true,
                () = self.lost(&mut held) => false,
            };
            self.leads.set(0);
            if has_ended {
                self.release(held).await;
                return;
            }
            warn!(lease = self.name, "the lease is lost: applications are left to whoever leads now");
        }
    }

    /// Waits until the lease is ours.
    async fn acquired(&self, stands_by: &impl Fn()) -> Held {
        // What was seen last, and since when.
        let mut seen: Option<(LeaseSpec, Instant)> = None;
        // The holder that was told of last, and the error.
        let (mut holder, mut error) = (None, String::new());
        loop {
            let pause = match self.tried(&mut seen).await {
                Ok(Ok(held)) => return held,
                Ok(Err(pause)) => {
                    let found = seen.as_ref().and_then(|(lease, _)| lease.holder_identity.clone());
                    if holder != found {
                        holder = found;
                        info!(lease = self.name, holder, "standing by");
                        stands_by();
                    }
                    pause
                }
                Err(found) => {
                    if error != found.to_string() {
                        error = found.to_string();
                        warn!(error, "the lease cannot be taken yet");
                    }
                    self.timing.retry_period
                }
            };
            sleep(pause).await;
        }
    }

    /// One try to take the lease, which gives it or how long to wait.
    async fn tried(&self, seen: &mut Option<(LeaseSpec, Instant)>) -> Result<Result<Held, Duration>, Error> {
        let found = self.in_time(self.leases.get_opt(&self.name)).await?;
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        if spec.as_ref() != seen.as_ref().map(|(spec, _)| spec) {
            *seen = spec.clone().map(|spec| (spec, Instant::now()));
        }
        let unchanged = seen.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        match lease::next(spec.as_ref(), unchanged, &self.me, now(), &self.timing) {
            Step::Wait(pause) => Ok(Err(pause)),
            Step::Write(spec) => {
                let written = self.write(found, spec).await?;
                // Another one was first: look again, but not in a tight circle.
                Ok(written.ok_or(self.timing.retry_period / 10))
            }
        }
    }

    /// Ends when the lease is not ours any more, or may not be.
    async fn lost(&self, held: &mut Held) {
        loop {
            sleep(self.timing.retry_period).await;
            while held.renewed.elapsed() < self.timing.renew_deadline {
                let spec = held.lease.spec.clone().unwrap_or_default();
                let Step::Write(spec) =
                    lease::next(Some(&spec), Duration::ZERO, &self.me, now(), &self.timing)
                else {
                    return;
                };
                match self.write(Some(held.lease.clone()), spec).await {
                    Ok(Some(renewed)) => {
                        *held = renewed;
                        break;
                    }
                    // Somebody has written: what is there now?
                    Ok(None) => match self.in_time(self.leases.get_opt(&self.name)).await {
                        Ok(Some(lease)) => held.lease = lease,
                        Ok(None) => return,
                        Err(error) => warn!(%error, "the lease cannot be renewed yet"),
                    },
                    Err(error) => {
                        warn!(%error, "the lease cannot be renewed yet");
                        sleep(self.timing.retry_period / 2).await;
                    }
                }
            }
            if held.renewed.elapsed() >= self.timing.renew_deadline {
                return;
            }
        }
    }

    /// Writes the lease over `found`; nothing if somebody else has written since.
    async fn write(&self, found: Option<Lease>, spec: LeaseSpec) -> Result<Option<Held>, Error> {
        let renewed = Instant::now();
        let written = match found {
            Some(found) => {
                let lease = Lease { spec: Some(spec), ..found };
                self.in_time(self.leases.replace(&lease.name_any(), &PostParams::default(), &lease)).await
            }
            None => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(spec) };
                self.in_time(self.leases.create(&PostParams::default(), &lease)).await
            }
        };
        match written {
            Ok(lease) => Ok(Some(Held { lease, renewed })),
            Err(Error::Api { source: kube::Error::Api(status), .. })
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn release(&self, held: Held) {
        let spec = lease::released(&held.lease.spec.clone().unwrap_or_default(), now());
        match self.write(Some(held.lease), spec).await {
            Ok(_) => info!(lease = self.name, "lease given back"),
            Err(error) => {
                warn!(%error, "the lease is not given back: the next leader has to wait for its end")
            }
        }
    }

    /// A call that does not outlast what it is for.
    async fn in_time<T>(&self, call: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
        let name = || self.name.clone();
        let answer = timeout(self.timing.renew_deadline / 2, call).await;
        answer
            .map_err(|_| Error::TookTooLong { name: name() })?
            .map_err(|source| Error::Api { name: name(), source })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "two processes of one pod, one after the other, are two candidates"
)]
fn drawn() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}

#[expect(clippy::disallowed_methods, reason = "the clock of the lease, for whoever reads it")]
fn now() -> Timestamp {
    Timestamp::now()
}
