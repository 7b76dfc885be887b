//! Runs the work of the leader only while this process holds the lease. Everything else (the webhook) runs in every
//! process.

use super::lease::{self, Step, Timing};
use api::{Lenient, version};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client, api::PostParams};
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use std::{fmt::Display, time::Duration};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// A candidate for the lease.
pub struct Leadership {
    leases: Api<Lenient<Lease>>,
    /// The name of the lease.
    name: String,
    /// `<pod>_<uuid>`, as in Kubeflow's operator.
    me: String,
    timing: Timing,
    leads: Gauge,
}

/// The lease while this process holds it.
struct Held {
    lease: Lease,
    /// The time just before the last write of the lease: other candidates measure the lease duration from the time at
    /// which they see the write, which is later.
    renewed: Instant,
}

impl Leadership {
    /// Creates a candidate under the name of `pod` for the lease `name` in `namespace`.
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
        #[expect(clippy::disallowed_methods, reason = "each process of a pod is a candidate of its own")]
        let me = format!("{pod}_{}", uuid::Uuid::new_v4());
        Self { leases: Api::namespaced(client, namespace), name: name.to_owned(), me, timing, leads }
    }

    /// Runs `work` whenever this process holds the lease. When `work` has ended, as it has to after `stop` is cancelled,
    /// releases the lease and returns. If the lease is lost, or cannot be renewed within the renew deadline, `work` is
    /// dropped, together with its unanswered requests, before another candidate may take the lease. Calls `stands_by`
    /// whenever another candidate leads.
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
                // `lost` is polled first, so that `work` does not continue after it has blocked the thread for too
                // long.
                biased;
                () = self.lost(&mut held) => false,
                () = work() => true,
            };
            self.leads.set(0);
            if has_ended {
                self.release(held).await;
                return;
            }
            warn!(lease = self.name, "the lease is lost: applications are left to whoever leads now");
        }
    }

    /// Waits until this process holds the lease.
    async fn acquired(&self, stands_by: &impl Fn()) -> Held {
        // The lease as it was last seen, and since when it is unchanged.
        let mut seen: Option<(LeaseSpec, Instant)> = None;
        // The holder and the error that were last logged.
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
                    if error != found {
                        error = found;
                        warn!(error, "the lease cannot be taken yet");
                    }
                    self.timing.retry_period
                }
            };
            sleep(pause).await;
        }
    }

    /// Tries once to take the lease. Returns the lease, or how long to wait before the next attempt.
    async fn tried(&self, seen: &mut Option<(LeaseSpec, Instant)>) -> Result<Result<Held, Duration>, String> {
        let found = self.read().await?;
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        if spec.as_ref() != seen.as_ref().map(|(spec, _)| spec) {
            *seen = spec.clone().map(|spec| (spec, Instant::now()));
        }
        let unchanged = seen.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        match lease::next(spec.as_ref(), unchanged, &self.me, now(), &self.timing) {
            Step::Wait(pause) => Ok(Err(pause)),
            Step::Write(spec) => {
                let written = self.write(found, spec).await?;
                // Another client wrote the lease first: read it again after a short pause.
                Ok(written.ok_or(self.timing.retry_period / 10))
            }
        }
    }

    /// Returns when this process does not hold the lease any more, or cannot be sure that it does.
    async fn lost(&self, held: &mut Held) {
        // As with client-go's context, a request that is under way ends at the deadline, answered or not. Another candidate
        // takes the lease no sooner than `lease_duration` after it has seen the renewal, which is later than `renewed`.
        let deadline = |held: &Held| held.renewed + self.timing.renew_deadline;
        while let Ok(Some(renewed)) = timeout_at(deadline(held), self.renewed(held)).await {
            *held = renewed;
        }
    }

    /// Waits until the next renewal is due, and retries the renewal until it succeeds. Returns `None` if this process
    /// must stop leading.
    async fn renewed(&self, held: &Held) -> Option<Held> {
        let mut found = held.lease.clone();
        sleep(self.timing.retry_period).await;
        loop {
            let spec = found.spec.clone().unwrap_or_default();
            let Step::Write(spec) = lease::next(Some(&spec), Duration::ZERO, &self.me, now(), &self.timing)
            else {
                return None;
            };
            let there = match self.write(Some(found.clone()), spec).await {
                Ok(Some(renewed)) => return Some(renewed),
                // Another client has written the lease: read it again.
                Ok(None) => self.read().await,
                Err(error) => Err(error),
            };
            match there {
                Ok(Some(there)) if version(&there) < version(&held.lease) => {
                    // Versions only increase, unless etcd was restored from a backup. A watch asks for changes after
                    // the last version that it has seen, and the API server keeps the watch waiting, without an error,
                    // until versions have reached that number again (kubernetes/kubernetes#107457). So all caches, and
                    // everything remembered of applications, have to be rebuilt, as after a change of leaders.
                    warn!(lease = self.name, "resource versions have gone backwards: was etcd restored?");
                    return None;
                }
                Ok(Some(there)) => {
                    found = there;
                    // A short pause before the next attempt.
                    sleep(self.timing.retry_period / 10).await;
                }
                Ok(None) => return None,
                Err(error) => {
                    warn!(%error, "the lease cannot be renewed yet");
                    sleep(self.timing.retry_period / 2).await;
                }
            }
        }
    }

    /// Returns the stored lease; `None` if it does not exist.
    async fn read(&self) -> Result<Option<Lease>, String> {
        let found = self.in_time(self.leases.get_opt(&self.name)).await?;
        let found = found.map_err(|error| self.failed(error))?;
        found.map(|lease| self.readable(lease)).transpose()
    }

    /// Writes the lease over `found`, or creates it. Returns `None` if another client has written or deleted the lease
    /// since.
    async fn write(&self, found: Option<Lease>, spec: LeaseSpec) -> Result<Option<Held>, String> {
        let (renewed, is_new) = (Instant::now(), found.is_none());
        let mut lease = Lease { spec: Some(spec), ..found.unwrap_or_default() };
        lease.metadata.name = Some(self.name.clone());
        let (lease, parameters) = (Lenient(Ok(lease)), PostParams::default());
        let written = if is_new {
            self.in_time(self.leases.create(&parameters, &lease)).await?
        } else {
            self.in_time(self.leases.replace(&self.name, &parameters, &lease)).await?
        };
        match written {
            Err(kube::Error::Api(status))
                // A creation is answered with 404 if the namespace does not exist, which is an error.
                if status.is_conflict() || status.is_already_exists() || status.is_not_found() && !is_new =>
            {
                Ok(None)
            }
            written => {
                let lease = self.readable(written.map_err(|error| self.failed(error))?)?;
                Ok(Some(Held { lease, renewed }))
            }
        }
    }

    fn readable(&self, lease: Lenient<Lease>) -> Result<Lease, String> {
        let name = &self.name;
        lease.0.map_err(|invalid| format!("Lease {name} cannot be read: {}; delete it", invalid.error))
    }

    async fn in_time<T>(
        &self,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<kube::Result<T>, String> {
        // Half the deadline, so that a second attempt is possible before the deadline.
        let patience = self.timing.renew_deadline / 2;
        timeout(patience, call).await.map_err(|_| self.failed("no answer in time"))
    }

    fn failed(&self, why: impl Display) -> String {
        format!("Lease {}: {why}", self.name)
    }

    async fn release(&self, held: Held) {
        let spec = lease::released(&held.lease.spec.clone().unwrap_or_default(), now());
        match self.write(Some(held.lease), spec).await {
            Ok(Some(_)) => info!(lease = self.name, "lease given back"),
            Ok(None) => info!(lease = self.name, "the lease is another client's by now"),
            Err(error) => {
                warn!(%error, "the lease is not given back: the next leader has to wait until it expires")
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the times in the lease are for its readers")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Request, Response};
    use kube::client::{Body, ClientBuilder};
    use serde_json::{Value, json};
    use std::sync::{Arc, Mutex};

    type BoxError = Box<dyn std::error::Error + Send + Sync>;

    /// An API server that has one lease.
    #[derive(Default)]
    struct ApiServer {
        /// How long the API server takes to answer.
        latency: Duration,
        /// The time from which the API server answers no request.
        silent_from: Option<Duration>,
        /// The time from which the API server answers every write with a conflict.
        contended_from: Option<Duration>,
        /// The time at which etcd is restored from a backup.
        restored_at: Option<Duration>,
        stored: Mutex<Stored>,
    }

    #[derive(Default)]
    struct Stored {
        lease: Value,
        version: u64,
        /// The time of the last write of the lease.
        written: Duration,
        is_restored: bool,
    }

    impl ApiServer {
        fn client(self: &Arc<Self>) -> Client {
            let (server, begun) = (Arc::clone(self), Instant::now());
            let service = tower::service_fn(move |request: Request<Body>| {
                let server = Arc::clone(&server);
                async move { server.answer(request, begun).await }
            });
            ClientBuilder::new(service, "default").build()
        }

        async fn answer(&self, request: Request<Body>, begun: Instant) -> Result<Response<Body>, BoxError> {
            let method = request.method().clone();
            let body = request.into_body().collect_bytes().await?;
            if self.silent_from.is_some_and(|from| begun.elapsed() >= from) {
                std::future::pending::<()>().await;
            }
            let (code, answer) = self.asked(&method, &body, begun.elapsed());
            sleep(self.latency).await;
            Ok(Response::builder().status(code).body(answer.to_string().into_bytes().into())?)
        }

        fn asked(&self, method: &Method, body: &[u8], now: Duration) -> (u16, Value) {
            let failed = |code: u16, reason: &str| {
                (code, json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code}))
            };
            let mut stored = self.stored.lock().unwrap();
            if self.restored_at.is_some_and(|at| now >= at) && !stored.is_restored {
                (stored.is_restored, stored.version) = (true, 1);
                stored.lease["metadata"]["resourceVersion"] = "1".into();
            }
            if *method == Method::GET {
                return if stored.lease.is_null() {
                    failed(404, "NotFound")
                } else {
                    (200, stored.lease.clone())
                };
            }
            let mut lease: Value = serde_json::from_slice(body).unwrap();
            let is_current =
                lease["metadata"]["resourceVersion"] == stored.lease["metadata"]["resourceVersion"];
            if !is_current || self.contended_from.is_some_and(|from| now >= from) {
                return failed(409, "Conflict");
            }
            stored.version += 100;
            lease["metadata"]["resourceVersion"] = stored.version.to_string().into();
            (stored.lease, stored.written) = (lease.clone(), now);
            (200, lease)
        }
    }

    fn timing(lease_duration: u64, renew_deadline: u64) -> Timing {
        Timing {
            lease_duration: Duration::from_secs(lease_duration),
            renew_deadline: Duration::from_secs(renew_deadline),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Records when a term of leadership ends, counted from the beginning of the test.
    struct Term {
        begun: Instant,
        ends: Arc<Mutex<Vec<Duration>>>,
    }

    impl Drop for Term {
        fn drop(&mut self) {
            self.ends.lock().unwrap().push(self.begun.elapsed());
        }
    }

    /// Returns when the terms of a candidate have ended within a minute, and when the API server has stored the
    /// candidate's last write. The last term ends at the end of the minute.
    async fn ends_of_terms(server: ApiServer, timing: Timing) -> (Vec<Duration>, Duration) {
        let server = Arc::new(server);
        let (begun, ends) = (Instant::now(), Arc::<Mutex<Vec<_>>>::default());
        let leadership =
            Leadership::new(server.client(), ("default", "lock"), "pod", timing, &mut Registry::default());
        let work = || {
            let term = Term { begun, ends: Arc::clone(&ends) };
            async move {
                std::future::pending::<()>().await;
                drop(term);
            }
        };
        let lead = leadership.lead(work, || {}, CancellationToken::new());
        timeout(Duration::from_secs(60), lead).await.unwrap_err();
        let (ends, written) = (ends.lock().unwrap().clone(), server.stored.lock().unwrap().written);
        (ends, written)
    }

    /// In an earlier version, the work lasted for too long: a request could take half the renew deadline and begin just
    /// before the deadline, and a conflict took two requests.
    #[tokio::test(start_paused = true)]
    async fn a_leader_that_cannot_renew_stops_before_another_may_take_the_lease() {
        for timing in [timing(15, 10), timing(15, 14)] {
            for tenths in (0..100).step_by(7) {
                let from = Some(Duration::from_millis(5_000 + 100 * tenths));
                for latency in [Duration::ZERO, Duration::from_millis(1_900)] {
                    for (silent_from, contended_from) in [(from, None), (None, from)] {
                        let server =
                            ApiServer { latency, silent_from, contended_from, ..ApiServer::default() };
                        let (ends, written) = ends_of_terms(server, timing).await;
                        let overtime = ends[0] - written;
                        assert!(
                            overtime < timing.lease_duration,
                            "led for {overtime:?} after its last renewal: from {from:?}, {latency:?}, {timing:?}"
                        );
                        assert!(ends[0] > Duration::from_millis(5_000), "it led until requests failed");
                    }
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_can_renew_keeps_leading_with_a_slow_api_server() {
        let server = ApiServer { latency: Duration::from_secs(4), ..ApiServer::default() };
        let (ends, _) = ends_of_terms(server, timing(15, 10)).await;
        assert_eq!(ends.iter().map(Duration::as_secs).collect::<Vec<_>>(), [60]);
    }

    /// In an earlier version, objects that had been written recently were not reconciled until a restart.
    #[tokio::test(start_paused = true)]
    async fn the_leaders_work_is_restarted_after_etcd_was_restored() {
        let restored_at = Some(Duration::from_secs(31));
        let server = ApiServer { restored_at, ..ApiServer::default() };
        let (ends, _) = ends_of_terms(server, timing(15, 10)).await;
        assert_eq!(ends.iter().map(Duration::as_secs).collect::<Vec<_>>(), [32, 60]);
    }
}
