//! Claims the namespaces in which this operator drives applications, by a Lease in each. If several operators have
//! chosen the same namespace, only the holder of the Lease drives its applications, until the Lease expires, is
//! released or is deleted. Both operators report the overlap by events and a metric.

use super::{events::Events, now};
use api::names::annotation::ALSO_CHOSEN_BY;
use futures::{StreamExt, stream::FuturesUnordered};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Client, ResourceExt};
use leader_election::{
    lease::{self, Step, Timing},
    lease_object::{Error, LeaseObject},
};
use parking_lot::{Mutex, RwLock};
use plan::events;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    mem,
    time::Duration,
};
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, sleep},
};
use tracing::{info, warn};

/// The name of the Lease in each namespace, which is the same for all installations.
pub const NAMESPACE_LEASE: &str = "sparkapplications.sparkoperator.k8s.io";

/// Each renewal writes the Lease of each namespace with applications: 5 writes per second for 1,000 namespaces. If an
/// operator is removed without releasing its Leases, another operator takes over after 10 minutes.
const TIMING: Timing = Timing {
    lease_duration: Duration::from_secs(600),
    renew_deadline: Duration::from_secs(400),
    retry_period: Duration::from_secs(200),
};
/// How often an operator that does not hold the Lease reads it.
const LOOK: Duration = Duration::from_secs(10);
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The shortest and the longest pause after a failure. Each pause is twice as long as the pause before.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// How many Leases are read or written at once. The limit matters when an operator starts with thousands of namespaces.
const AT_ONCE: usize = 16;

/// The number of namespaces that several operators have chosen.
#[derive(Clone, Debug)]
pub struct ClaimMetrics(Family<Drives, Gauge>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Drives {
    drives: bool,
}

impl ClaimMetrics {
    /// Creates the metric in `registry`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self(Family::default());
        let help = "Namespaces that another operator has chosen as well, by whether this one drives applications there";
        registry.register("spark_operator_contended_namespaces", help, metrics.0.clone());
        metrics.set(false, 0);
        metrics.set(true, 0);
        metrics
    }

    fn set(&self, drives: bool, namespaces: usize) {
        self.0.get_or_create(&Drives { drives }).set(i64::try_from(namespaces).unwrap_or(i64::MAX));
    }
}

/// The claims of this operator.
pub(super) struct Claims {
    client: Client,
    /// `<namespace of the operator>/<installation>`: all replicas of an installation are one holder.
    me: String,
    metrics: ClaimMetrics,
    claims: RwLock<BTreeMap<String, Claim>>,
    /// The namespaces to claim that `keep` has not begun to claim yet.
    asked: Mutex<BTreeSet<String>>,
    is_asked: Notify,
    /// Changes whenever the set of chosen namespaces may have changed.
    choice: watch::Sender<()>,
    calls: Semaphore,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Claim {
    /// The Lease has not been read yet.
    Asked,
    Held {
        /// The renew deadline: from then on this operator drives nothing in the namespace until it has renewed the
        /// Lease. Other operators wait longer, until the Lease expires.
        until: Instant,
        contender: Option<String>,
    },
    Refused {
        holder: String,
    },
}

/// Who drives the applications of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driven {
    ByUs,
    ByOthers,
    /// It is not known yet who holds the Lease.
    Unknown,
}

/// What is known of one Lease.
#[derive(Default)]
struct Known {
    /// The Lease as this operator has written it.
    written: Option<Lease>,
    /// The spec of the Lease when it was last read, and since when the spec has been unchanged.
    seen: Option<(LeaseSpec, Instant)>,
}

impl Claims {
    /// Creates an empty set of claims of the operator `me`. [`Self::keep`] acquires the Leases.
    pub(super) fn new(client: Client, me: String, metrics: ClaimMetrics) -> Self {
        Self {
            client,
            me,
            metrics,
            claims: RwLock::default(),
            asked: Mutex::default(),
            is_asked: Notify::new(),
            choice: watch::Sender::new(()),
            calls: Semaphore::new(AT_ONCE),
        }
    }

    /// Returns claims of an operator that cannot reach the API server.
    #[cfg(test)]
    pub(super) fn of_nobody() -> Self {
        let fails = tower::service_fn(async |_: http::Request<kube::client::Body>| {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("there is none"))
        });
        let client = Client::new(fails, "default");
        Self::new(client, "operators/nobody".to_owned(), ClaimMetrics::new(&mut Registry::default()))
    }

    /// Claims the namespace unless it is claimed already. Returns who drives its applications, as far as known.
    pub(super) fn claim(&self, namespace: &str) -> Driven {
        let driven = |claim: &Claim| match claim {
            Claim::Held { until, .. } if Instant::now() < *until => Driven::ByUs,
            Claim::Refused { .. } => Driven::ByOthers,
            Claim::Asked | Claim::Held { .. } => Driven::Unknown,
        };
        if let Some(claim) = self.claims.read().get(namespace) {
            return driven(claim);
        }
        match self.claims.write().entry(namespace.to_owned()) {
            Entry::Occupied(claim) => return driven(claim.get()),
            Entry::Vacant(claim) => claim.insert(Claim::Asked),
        };
        self.asked.lock().insert(namespace.to_owned());
        self.is_asked.notify_one();
        Driven::Unknown
    }

    /// Whether another operator is known to drive the namespace.
    pub(super) fn is_refused(&self, namespace: &str) -> bool {
        matches!(self.claims.read().get(namespace), Some(Claim::Refused { .. }))
    }

    /// Notifies all claims that the set of chosen namespaces may have changed.
    pub(super) fn choice_has_changed(&self) {
        self.choice.send_replace(());
    }

    /// Acquires and renews the Leases of all namespaces that were passed to [`Self::claim`]; never returns. Calls
    /// `changed` with a namespace when it becomes known which operator drives it, and when that operator changes.
    pub(super) async fn keep(
        &self,
        is_chosen: impl Fn(&str) -> bool,
        changed: impl Fn(String),
        events: &Events,
    ) {
        let mut kept = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = self.is_asked.notified() => {
                    let asked = mem::take(&mut *self.asked.lock());
                    kept.extend(asked.into_iter().map(|namespace| self.keep_one(namespace, &is_chosen, &changed, events)));
                }
                Some(()) = kept.next() => {}
            }
        }
    }

    /// Keeps the claim of one namespace until the namespace is gone or not chosen any more.
    async fn keep_one(
        &self,
        namespace: String,
        is_chosen: &impl Fn(&str) -> bool,
        changed: &impl Fn(String),
        events: &Events,
    ) {
        let lease = LeaseObject::new(self.client.clone(), (&namespace, NAMESPACE_LEASE), PATIENCE);
        let (mut known, mut choice) = (Known::default(), self.choice.subscribe());
        let [shortest, longest] = PAUSES;
        let mut retry = shortest;
        while is_chosen(&namespace) {
            let tried = {
                let _call = self.calls.acquire().await;
                self.tried(&lease, &namespace, &mut known, events).await
            };
            let pause = match tried {
                Ok(tried) => {
                    retry = shortest;
                    if tried.is_change {
                        changed(namespace.clone());
                    }
                    tried.pause
                }
                Err(error) if error.has_no_namespace() => break,
                Err(error) => {
                    warn!(namespace, %error, "it cannot be claimed yet, so no application of it is driven");
                    let pause = retry;
                    retry = (retry * 2).min(longest);
                    pause
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                _ = choice.changed() => {}
            }
        }
        if known.written.is_some()
            && let Err(error) = self.release(&lease).await
        {
            warn!(namespace, %error, "the Lease is not released: another operator has to wait for its end");
        }
        self.set(&namespace, None);
        // Only after `set`, so that a reconcile that this causes can claim the namespace again.
        changed(namespace);
    }

    /// Reads and writes the Lease once.
    ///
    /// An operator that does not hold the Lease adds the annotation [`ALSO_CHOSEN_BY`] whenever it is missing, and the
    /// holder removes it at each renewal. So each renewal shows the holder whether the other operator still exists.
    async fn tried(
        &self,
        lease: &LeaseObject,
        namespace: &str,
        known: &mut Known,
        events: &Events,
    ) -> Result<Tried, Error> {
        let mut found = match known.written.take() {
            Some(written) => Some(written),
            None => lease.read().await?,
        };
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        if spec.as_ref() != known.seen.as_ref().map(|(spec, _)| spec) {
            known.seen = spec.clone().map(|spec| (spec, Instant::now()));
        }
        let unchanged = known.seen.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        let contender = found.as_mut().and_then(|lease| lease.annotations_mut().remove(ALSO_CHOSEN_BY));
        match (lease::next(spec.as_ref(), unchanged, &self.me, now(), &TIMING), found) {
            (Step::Write(spec), found) => {
                let until = Instant::now() + TIMING.renew_deadline;
                let Some(written) = lease.write(found, spec).await? else {
                    return Ok(Tried { is_change: false, pause: PAUSES[0] });
                };
                let contender = contender.filter(|contender| *contender != self.me);
                if let Some(contender) = &contender {
                    let event = events::namespace_also_chosen(contender, &self.me);
                    events.send(&written, "", &event, now()).await;
                    warn!(namespace, contender, "another operator has chosen it as well");
                }
                known.written = Some(written);
                let before = self.set(namespace, Some(Claim::Held { until, contender }));
                let was_held = matches!(before, Some(Claim::Held { until, .. }) if Instant::now() < until);
                if !was_held {
                    info!(namespace, "claimed");
                }
                Ok(Tried { is_change: !was_held, pause: TIMING.retry_period })
            }
            (Step::Wait(_), Some(mut found)) => {
                let spec = found.spec.clone().unwrap_or_default();
                let holder = spec.holder_identity.clone().unwrap_or_default();
                let claim = Claim::Refused { holder: holder.clone() };
                let is_change = self.set(namespace, Some(claim.clone())).as_ref() != Some(&claim);
                if is_change {
                    let event = events::namespace_driven_by_another(&holder, &self.me, NAMESPACE_LEASE);
                    events.send(&found, "", &event, now()).await;
                    warn!(namespace, holder, "another operator drives its applications");
                }
                if contender.is_none() {
                    found.annotations_mut().insert(ALSO_CHOSEN_BY.to_owned(), self.me.clone());
                    lease.write(Some(found), spec).await?;
                }
                Ok(Tried { is_change, pause: LOOK })
            }
            (Step::Wait(_), None) => {
                unreachable!("nobody waits for the holder of a Lease that does not exist")
            }
        }
    }

    /// Replaces what is known of a namespace, and returns what was known.
    fn set(&self, namespace: &str, claim: Option<Claim>) -> Option<Claim> {
        let mut claims = self.claims.write();
        let before = match claim {
            Some(claim) => claims.insert(namespace.to_owned(), claim),
            None => claims.remove(namespace),
        };
        let count =
            |is_counted: fn(&Claim) -> bool| claims.values().filter(|claim| is_counted(claim)).count();
        self.metrics.set(true, count(|claim| matches!(claim, Claim::Held { contender: Some(_), .. })));
        self.metrics.set(false, count(|claim| matches!(claim, Claim::Refused { .. })));
        before
    }

    /// Releases the Lease if this operator still holds it, so that another operator can take it at once.
    async fn release(&self, lease: &LeaseObject) -> Result<(), Error> {
        // Another operator may write its annotation between the two requests.
        while let Some(found) = lease.read().await? {
            let spec = found.spec.clone().unwrap_or_default();
            if spec.holder_identity.as_ref() != Some(&self.me)
                || lease.write(Some(found), lease::released(&spec, now())).await?.is_some()
            {
                break;
            }
        }
        Ok(())
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.metrics.set(true, 0);
        self.metrics.set(false, 0);
    }
}

struct Tried {
    /// Whether the operator that drives the namespace has become known or has changed.
    is_change: bool,
    /// How long to wait before the next try.
    pause: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Request, Response};
    use kube::client::{Body, ClientBuilder};
    use serde_json::{Value, json};
    use std::{convert::Infallible, sync::Arc};

    /// An API server that has one Lease.
    #[derive(Default)]
    struct ApiServer {
        lease: Mutex<Value>,
        is_silent: Mutex<bool>,
        events: Mutex<Vec<String>>,
    }

    impl ApiServer {
        fn claims(self: &Arc<Self>, me: &str) -> (Arc<Claims>, Events) {
            let server = Arc::clone(self);
            let service = tower::service_fn(move |request: Request<Body>| {
                let server = Arc::clone(&server);
                async move {
                    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                    let body = request.into_body().collect_bytes().await.unwrap();
                    let (code, answer) = server.answer(&method, &path, &body);
                    let answer =
                        Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                    Ok::<_, Infallible>(answer.unwrap())
                }
            });
            let client = ClientBuilder::new(service, "default").build();
            let events = Events::new(client.clone(), "operator".to_owned());
            (
                Arc::new(Claims::new(client, me.to_owned(), ClaimMetrics::new(&mut Registry::default()))),
                events,
            )
        }

        fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
            let failed = |code: u16, reason: &str| {
                (code, json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code}))
            };
            if *self.is_silent.lock() {
                return failed(503, "ServiceUnavailable");
            }
            let mut lease = self.lease.lock();
            if *method == Method::GET {
                return if lease.is_null() { failed(404, "NotFound") } else { (200, lease.clone()) };
            }
            let mut written: Value = serde_json::from_slice(body).unwrap();
            if path.ends_with("/events") {
                self.events.lock().push(written["reason"].as_str().unwrap().to_owned());
                return (200, written);
            }
            let version = &lease["metadata"]["resourceVersion"];
            if written["metadata"]["resourceVersion"] != *version {
                return failed(409, "Conflict");
            }
            let next = version.as_str().map_or(1, |version| version.parse::<u64>().unwrap() + 1);
            written["metadata"]["resourceVersion"] = json!(next.to_string());
            *lease = written.clone();
            (200, written)
        }
    }

    /// Keeps the claims of an operator until the returned task is aborted. Ignores which namespaces have changed.
    fn kept(
        (claims, events): (Arc<Claims>, Events),
        chosen: Arc<Mutex<bool>>,
    ) -> tokio::task::JoinHandle<()> {
        tokio::spawn(async move { claims.keep(|_| *chosen.lock(), drop, &events).await })
    }

    async fn after(seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_drives_and_the_other_takes_over_when_the_first_is_gone() {
        let server = Arc::<ApiServer>::default();
        let (a, b) = (server.claims("ns/a"), server.claims("ns/b"));
        let (ours, theirs) = (Arc::clone(&a.0), Arc::clone(&b.0));
        let chosen = Arc::new(Mutex::new(true));
        let (first, _second) = (kept(a, Arc::clone(&chosen)), kept(b, Arc::clone(&chosen)));
        assert_eq!(ours.claim("data"), Driven::Unknown);
        after(1).await;
        assert_eq!((ours.claim("data"), theirs.claim("data")), (Driven::ByUs, Driven::Unknown));
        after(1).await;
        assert_eq!((ours.claim("data"), theirs.claim("data")), (Driven::ByUs, Driven::ByOthers));
        let contended = |claims: &Claims, drives| claims.metrics.0.get_or_create(&Drives { drives }).get();
        assert_eq!((contended(&ours, true), contended(&theirs, false)), (0, 1));
        after(210).await;
        assert_eq!((contended(&ours, true), contended(&theirs, false)), (1, 1));
        assert_eq!(*server.events.lock(), ["NamespaceDrivenByAnother", "NamespaceAlsoChosen"]);

        first.abort();
        after(550).await;
        assert_eq!(theirs.claim("data"), Driven::ByOthers);
        after(250).await;
        assert_eq!((ours.claim("data"), theirs.claim("data")), (Driven::Unknown, Driven::ByUs));
        assert_eq!(contended(&theirs, false), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_cannot_renew_its_claim_drives_nothing_before_another_one_may() {
        let server = Arc::<ApiServer>::default();
        let a = server.claims("ns/a");
        let ours = Arc::clone(&a.0);
        let _kept = kept(a, Arc::new(Mutex::new(true)));
        ours.claim("data");
        after(1).await;
        assert_eq!(ours.claim("data"), Driven::ByUs);
        *server.is_silent.lock() = true;
        after(300).await;
        assert_eq!(ours.claim("data"), Driven::ByUs);
        after(299).await;
        assert_eq!(ours.claim("data"), Driven::Unknown);
        *server.is_silent.lock() = false;
        after(61).await;
        assert_eq!(ours.claim("data"), Driven::ByUs);
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_not_chosen_any_more_is_free_at_once() {
        let server = Arc::<ApiServer>::default();
        let (a, b) = (server.claims("ns/a"), server.claims("ns/b"));
        let (ours, theirs) = (Arc::clone(&a.0), Arc::clone(&b.0));
        let chosen = Arc::new(Mutex::new(true));
        let (_first, _second) = (kept(a, Arc::clone(&chosen)), kept(b, Arc::new(Mutex::new(true))));
        ours.claim("data");
        after(1).await;
        theirs.claim("data");
        after(1).await;
        *chosen.lock() = false;
        ours.choice_has_changed();
        after(11).await;
        assert_eq!(theirs.claim("data"), Driven::ByUs);
        assert_eq!(ours.claims.read().get("data"), None);
    }
}
