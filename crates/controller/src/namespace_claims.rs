//! Claims the namespaces in which this operator drives applications, by a Lease in each. If several operators have
//! chosen the same namespace, only the holder of the Lease drives its applications, until the Lease expires, is
//! released or is deleted. Both operators report the overlap by events and a metric.

use super::{
    claim_metrics::ClaimMetrics,
    events::Events,
    namespace_lease::{NAMESPACE_LEASE, NamespaceLease, RENEWAL, Step},
    now,
};
use futures::{StreamExt, stream::FuturesUnordered};
use kube::Client;
use leader_election::lease_object::Error;
use parking_lot::{Mutex, RwLock};
use plan::events;
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    mem,
    time::Duration,
};
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, sleep, timeout},
};
use tracing::{info, warn};

/// How often an operator that does not hold the Lease reads it.
const LOOK: Duration = Duration::from_secs(10);
/// How long a reconcile waits for the first answer, which is two requests away. A reconcile that returns without it has to
/// be repeated, and kube's controller has a limited number of reconciles that may wait.
const FIRST_ANSWER: Duration = Duration::from_secs(2);
/// The shortest and the longest pause after a failure. Each pause is twice as long as the pause before.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// How many Leases are read or written at once. The limit matters when an operator starts with thousands of namespaces.
const AT_ONCE: usize = 16;

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
    /// Changes whenever a claim has changed.
    changes: watch::Sender<()>,
    /// The namespaces for which a caller of [`Self::claim`] did not get to know who drives them.
    unanswered: Mutex<BTreeSet<String>>,
    /// Changes whenever the set of chosen namespaces may have changed.
    choice: watch::Sender<()>,
    calls: Semaphore,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Claim {
    /// No attempt to read or write the Lease has ended yet.
    Asked,
    /// All attempts have failed so far.
    Failed,
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
            changes: watch::Sender::new(()),
            unanswered: Mutex::default(),
            choice: watch::Sender::new(()),
            calls: Semaphore::new(AT_ONCE),
        }
    }

    /// Returns claims of an operator that cannot reach the API server.
    #[cfg(test)]
    pub(super) fn of_nobody() -> Self {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().expect("it is a URL"));
        let client = Client::try_from(nowhere).expect("it needs no TLS");
        Self::new(client, "operators/nobody".to_owned(), ClaimMetrics::new(&mut Default::default()))
    }

    /// Claims the namespace unless it is claimed already. Returns who drives its applications. Waits for
    /// [`FIRST_ANSWER`] at most; if the answer comes later, [`Self::keep`] reports a change of the namespace.
    pub(super) async fn claim(&self, namespace: &str) -> Driven {
        let mut changes = self.changes.subscribe();
        let answer = async {
            // The sender lives as long as `self`, so this wait cannot fail.
            while self.is_first_answer_awaited(namespace) && changes.changed().await.is_ok() {}
        };
        timeout(FIRST_ANSWER, answer).await.ok();
        match self.driven(namespace) {
            Driven::Unknown => {
                self.unanswered.lock().insert(namespace.to_owned());
                // `keep` looks for unanswered callers after it has set a claim, so one of the two sees the other.
                self.driven(namespace)
            }
            known => known,
        }
    }

    /// Whether no attempt to claim the namespace has ended yet. Asks `keep` to claim it if nobody has.
    fn is_first_answer_awaited(&self, namespace: &str) -> bool {
        if let Some(claim) = self.claims.read().get(namespace) {
            return *claim == Claim::Asked;
        }
        match self.claims.write().entry(namespace.to_owned()) {
            Entry::Occupied(claim) => return *claim.get() == Claim::Asked,
            Entry::Vacant(claim) => claim.insert(Claim::Asked),
        };
        self.asked.lock().insert(namespace.to_owned());
        self.is_asked.notify_one();
        true
    }

    fn driven(&self, namespace: &str) -> Driven {
        match self.claims.read().get(namespace) {
            Some(Claim::Held { until, .. }) if Instant::now() < *until => Driven::ByUs,
            Some(Claim::Refused { .. }) => Driven::ByOthers,
            _ => Driven::Unknown,
        }
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
    /// `changed` with a namespace when another operator drives it than before, and when it becomes known who drives it
    /// after a caller of `claim` has got no answer.
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
        let mut lease = NamespaceLease::new(self.client.clone(), &namespace);
        let mut choice = self.choice.subscribe();
        let [shortest, longest] = PAUSES;
        let mut retry = shortest;
        while is_chosen(&namespace) {
            let tried = {
                let _call = self.calls.acquire().await;
                self.tried(&mut lease, &namespace, events).await
            };
            let pause = match tried {
                Ok((pause, is_change)) => {
                    retry = shortest;
                    if is_change {
                        changed(namespace.clone());
                    }
                    pause
                }
                Err(error) if error.has_no_namespace() => break,
                // No operator can create a Lease or a pod there, but this one can tell the users of the applications.
                Err(error) if error.is_in_terminating_namespace() => {
                    let until = Instant::now() + 2 * RENEWAL;
                    self.set(&namespace, Some(Claim::Held { until, contender: None }));
                    RENEWAL
                }
                Err(error) => {
                    warn!(namespace, %error, "it cannot be claimed yet, so no application of it is driven");
                    if self.claims.read().get(&namespace) == Some(&Claim::Asked) {
                        self.set(&namespace, Some(Claim::Failed));
                    }
                    let pause = retry;
                    retry = (retry * 2).min(longest);
                    pause
                }
            };
            if self.driven(&namespace) != Driven::Unknown && self.unanswered.lock().remove(&namespace) {
                changed(namespace.clone());
            }
            tokio::select! {
                () = sleep(pause) => {}
                _ = choice.changed() => {}
            }
        }
        if let Err(error) = lease.release(&self.me).await {
            warn!(namespace, %error, "the Lease is not released: another operator has to wait for its end");
        }
        self.set(&namespace, None);
        // Only after `set`, so that a reconcile that this causes can claim the namespace again.
        changed(namespace);
    }

    /// Takes the next step with the Lease, and reports what has changed. Returns how long to wait before the step after it,
    /// and whether another operator drives the namespace than before.
    async fn tried(
        &self,
        lease: &mut NamespaceLease,
        namespace: &str,
        events: &Events,
    ) -> Result<(Duration, bool), Error> {
        match lease.step(&self.me).await? {
            Step::Held { lease, until, contender } => {
                let before = self.set(namespace, Some(Claim::Held { until, contender: contender.clone() }));
                if !matches!(before, Some(Claim::Held { .. })) {
                    info!(namespace, "claimed");
                }
                if let Some(contender) = contender {
                    let event = events::namespace_also_chosen(&contender, &self.me);
                    events.send(&lease, "", &event, now()).await;
                    warn!(namespace, contender, "another operator has chosen it as well");
                }
                Ok((RENEWAL, matches!(before, Some(Claim::Refused { .. }))))
            }
            Step::Refused { lease, holder } => {
                let claim = Claim::Refused { holder: holder.clone() };
                let before = self.set(namespace, Some(claim.clone()));
                if before.as_ref() != Some(&claim) {
                    let event = events::namespace_driven_by_another(&holder, &self.me, NAMESPACE_LEASE);
                    events.send(&lease, "", &event, now()).await;
                    warn!(namespace, holder, "another operator drives its applications");
                }
                Ok((LOOK, matches!(before, Some(Claim::Held { .. }))))
            }
            Step::Conflict => Ok((PAUSES[0], false)),
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
        drop(claims);
        self.changes.send_replace(());
        before
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.metrics.set(true, 0);
        self.metrics.set(false, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Request, Response};
    use kube::client::{Body, ClientBuilder};
    use prometheus_client::registry::Registry;
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
        assert_eq!(ours.claim("data").await, Driven::ByUs);
        after(1).await;
        assert_eq!((ours.claim("data").await, theirs.claim("data").await), (Driven::ByUs, Driven::ByOthers));
        let contended = |claims: &Claims, drives| claims.metrics.get(drives);
        assert_eq!((contended(&ours, true), contended(&theirs, false)), (0, 1));
        after(210).await;
        assert_eq!((contended(&ours, true), contended(&theirs, false)), (1, 1));
        assert_eq!(*server.events.lock(), ["NamespaceDrivenByAnother", "NamespaceAlsoChosen"]);

        first.abort();
        after(550).await;
        assert_eq!(theirs.claim("data").await, Driven::ByOthers);
        after(250).await;
        assert_eq!((ours.claim("data").await, theirs.claim("data").await), (Driven::Unknown, Driven::ByUs));
        assert_eq!(contended(&theirs, false), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_cannot_renew_its_claim_drives_nothing_before_another_one_may() {
        let server = Arc::<ApiServer>::default();
        let a = server.claims("ns/a");
        let ours = Arc::clone(&a.0);
        let _kept = kept(a, Arc::new(Mutex::new(true)));
        ours.claim("data").await;
        after(1).await;
        assert_eq!(ours.claim("data").await, Driven::ByUs);
        *server.is_silent.lock() = true;
        after(300).await;
        assert_eq!(ours.claim("data").await, Driven::ByUs);
        after(299).await;
        assert_eq!(ours.claim("data").await, Driven::Unknown);
        *server.is_silent.lock() = false;
        after(61).await;
        assert_eq!(ours.claim("data").await, Driven::ByUs);
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_not_chosen_any_more_is_free_at_once() {
        let server = Arc::<ApiServer>::default();
        let (a, b) = (server.claims("ns/a"), server.claims("ns/b"));
        let (ours, theirs) = (Arc::clone(&a.0), Arc::clone(&b.0));
        let chosen = Arc::new(Mutex::new(true));
        let (_first, _second) = (kept(a, Arc::clone(&chosen)), kept(b, Arc::new(Mutex::new(true))));
        ours.claim("data").await;
        after(1).await;
        theirs.claim("data").await;
        after(1).await;
        *chosen.lock() = false;
        ours.choice_has_changed();
        after(11).await;
        assert_eq!(theirs.claim("data").await, Driven::ByUs);
        assert_eq!(ours.claims.read().get("data"), None);
    }
}
