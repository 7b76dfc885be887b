//! Claims the namespaces in which this operator drives applications, by a Lease in each. If several operators have
//! chosen the same namespace, only the holder of the Lease drives its applications, until the Lease expires, is
//! released or is deleted. Both operators report the overlap by events and a metric.

use super::{
    claim::{Claim, Driven},
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
    time::{Instant, sleep, timeout_at},
};
use tracing::{info, warn};

/// How often an operator that does not hold the Lease reads it.
const LOOK: Duration = Duration::from_secs(10);
/// The pause after a first failure. Each pause is twice as long as the pause before, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long an operator keeps the Lease of a namespace that is not chosen any more: as long as a request may take that it has
/// sent before.
const HANDOVER: Duration = Duration::from_secs(30);
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
    /// The namespaces for which [`Self::driven`] could not tell who drives them.
    unanswered: Mutex<BTreeSet<String>>,
    /// Changes whenever the set of chosen namespaces may have changed.
    choice: watch::Sender<()>,
    calls: Semaphore,
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

    /// Claims the namespace unless it is claimed already. Whoever asks [`Self::driven`] before it is known who drives the
    /// namespace is told by [`Self::keep`].
    pub(super) fn claim(&self, namespace: &str) {
        if self.claims.read().contains_key(namespace) {
            return;
        }
        if let Entry::Vacant(claim) = self.claims.write().entry(namespace.to_owned()) {
            claim.insert(Claim::Asked);
            self.asked.lock().insert(namespace.to_owned());
            self.is_asked.notify_one();
        }
    }

    /// Returns who drives the applications of the namespace. If it is not known, [`Self::keep`] reports a change of the
    /// namespace once it is.
    pub(super) fn driven(&self, namespace: &str) -> Driven {
        match self.known(namespace) {
            Driven::Unknown => {
                self.unanswered.lock().insert(namespace.to_owned());
                // `keep` looks for unanswered callers after it has set a claim, so one of the two sees the other.
                self.known(namespace)
            }
            known => known,
        }
    }

    /// Returns who drives the applications of the namespace, for callers who need no better answer later.
    pub(super) fn known(&self, namespace: &str) -> Driven {
        self.claims.read().get(namespace).map_or(Driven::Unknown, Claim::driven)
    }

    /// Notifies all claims that the set of chosen namespaces may have changed.
    pub(super) fn choice_has_changed(&self) {
        self.choice.send_replace(());
    }

    /// Acquires and renews the Leases of all namespaces that were passed to [`Self::claim`]; never returns. Calls
    /// `changed` with a namespace when another operator drives it than before, and when it becomes known who drives it
    /// after [`Self::driven`] could not tell.
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
        let mut retry = FIRST_PAUSE;
        loop {
            if !is_chosen(&namespace) && self.has_left(&namespace, &lease, is_chosen).await {
                break;
            }
            let tried = {
                let _call = self.calls.acquire().await;
                lease.step(&self.me).await
            };
            let pause = match tried {
                Ok(step) => {
                    retry = FIRST_PAUSE;
                    self.taken(step, &namespace, changed, events).await
                }
                Err(error) => {
                    let pause = retry;
                    retry = (retry * 2).min(LONGEST_PAUSE);
                    if error.has_no_namespace() {
                        // A pause, since the cache may have applications there for a while.
                        sleep(pause).await;
                        break;
                    }
                    self.failed(&error, &namespace).unwrap_or(pause)
                }
            };
            if self.known(&namespace) != Driven::Unknown && self.unanswered.lock().remove(&namespace) {
                changed(namespace.clone());
            }
            let next = Instant::now() + pause;
            while is_chosen(&namespace) && timeout_at(next, choice.changed()).await.is_ok() {}
        }
        self.set(&namespace, None);
        self.unanswered.lock().remove(&namespace);
        // Only after `set`, so that a reconcile that this causes can claim the namespace again.
        changed(namespace);
    }

    /// Gives up a namespace that is not chosen any more. Returns false if it is chosen again before it is given up.
    async fn has_left(
        &self,
        namespace: &str,
        lease: &NamespaceLease,
        is_chosen: &impl Fn(&str) -> bool,
    ) -> bool {
        if !matches!(self.claims.read().get(namespace), Some(Claim::Held { .. })) {
            return true;
        }
        // Whatever this operator has begun there ends before another one may begin.
        self.set(namespace, Some(Claim::Asked));
        sleep(HANDOVER).await;
        if is_chosen(namespace) {
            return false;
        }
        if let Err(error) = lease.release(&self.me).await {
            warn!(namespace, %error, "the Lease is not released: another operator has to wait for its end");
        }
        true
    }

    /// Records and reports the result of a step. Returns how long to wait before the step after it.
    async fn taken(
        &self,
        step: Step,
        namespace: &str,
        changed: &impl Fn(String),
        events: &Events,
    ) -> Duration {
        let (lease, event, is_change, pause) = match step {
            Step::Conflict => return FIRST_PAUSE,
            Step::Held { lease, until, contender } => {
                let before = self.set(namespace, Some(Claim::Held { until, contender: contender.clone() }));
                if !matches!(before, Some(Claim::Held { .. })) {
                    info!(namespace, "claimed");
                }
                let event =
                    contender.as_ref().map(|contender| events::namespace_also_chosen(contender, &self.me));
                // A Lease that somebody may take is watched closely, because it may be deleted while it is held.
                let pause = if contender.is_some() { LOOK } else { RENEWAL };
                (lease, event, matches!(before, Some(Claim::Refused { .. })), pause)
            }
            Step::Refused { lease, holder } => {
                let claim = Claim::Refused { holder: holder.clone() };
                let before = self.set(namespace, Some(claim.clone()));
                let is_news = before.as_ref() != Some(&claim);
                let event =
                    is_news.then(|| events::namespace_driven_by_another(&holder, &self.me, NAMESPACE_LEASE));
                (lease, event, matches!(before, Some(Claim::Held { .. })), LOOK)
            }
        };
        if is_change {
            changed(namespace.to_owned());
        }
        if let Some(event) = event {
            warn!(namespace, reason = event.reason, "{}", event.note);
            events.send(&lease, "", &event, now()).await;
        }
        pause
    }

    /// Records that a step has failed. Returns how long to wait before the next step, unless that depends on the number of
    /// failures.
    fn failed(&self, error: &Error, namespace: &str) -> Option<Duration> {
        if error.is_in_terminating_namespace() {
            // No operator can create a Lease or a pod there, but this one can tell the users of the applications, until it
            // sees that the namespace is gone.
            if self.known(namespace) != Driven::ByOthers {
                let until = Instant::now() + 2 * LOOK;
                self.set(namespace, Some(Claim::Held { until, contender: None }));
            }
            return Some(LOOK);
        }
        warn!(namespace, %error, "the Lease by which this operator claims the namespace fails");
        if self.claims.read().get(namespace) == Some(&Claim::Asked) {
            self.set(namespace, Some(Claim::Failed));
        }
        None
    }

    /// Replaces what is known of a namespace, and returns what was known.
    fn set(&self, namespace: &str, claim: Option<Claim>) -> Option<Claim> {
        let contended = claim.as_ref().and_then(Claim::contended);
        let before = {
            let mut claims = self.claims.write();
            match claim {
                Some(claim) => claims.insert(namespace.to_owned(), claim),
                None => claims.remove(namespace),
            }
        };
        self.metrics.replace(before.as_ref().and_then(Claim::contended), contended);
        before
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.metrics.reset();
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
        refuses_updates: Mutex<bool>,
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
            if *self.refuses_updates.lock() {
                return failed(403, "Forbidden");
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

    async fn claimed(claims: &Claims) {
        claims.claim("data");
        while claims.claims.read().get("data") == Some(&Claim::Asked) {
            tokio::task::yield_now().await;
        }
    }

    async fn driven(claims: &Claims) -> Driven {
        claimed(claims).await;
        claims.driven("data")
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
        assert_eq!(driven(&ours).await, Driven::ByUs);
        after(1).await;
        assert_eq!((driven(&ours).await, driven(&theirs).await), (Driven::ByUs, Driven::ByOthers));
        let contended = |claims: &Claims, drives| claims.metrics.get(drives);
        assert_eq!((contended(&ours, true), contended(&theirs, false)), (0, 1));
        after(210).await;
        assert_eq!((contended(&ours, true), contended(&theirs, false)), (1, 1));
        assert_eq!(*server.events.lock(), ["NamespaceDrivenByAnother", "NamespaceAlsoChosen"]);

        first.abort();
        after(550).await;
        assert_eq!(driven(&theirs).await, Driven::ByOthers);
        after(250).await;
        assert_eq!((driven(&ours).await, driven(&theirs).await), (Driven::Unknown, Driven::ByUs));
        assert_eq!(contended(&theirs, false), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_cannot_renew_its_claim_drives_nothing_before_another_one_may() {
        let server = Arc::<ApiServer>::default();
        let a = server.claims("ns/a");
        let ours = Arc::clone(&a.0);
        let _kept = kept(a, Arc::new(Mutex::new(true)));
        claimed(&ours).await;
        after(1).await;
        assert_eq!(driven(&ours).await, Driven::ByUs);
        *server.is_silent.lock() = true;
        after(300).await;
        assert_eq!(driven(&ours).await, Driven::ByUs);
        after(299).await;
        assert_eq!(driven(&ours).await, Driven::Unknown);
        *server.is_silent.lock() = false;
        after(61).await;
        assert_eq!(driven(&ours).await, Driven::ByUs);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_deleted_while_it_is_held_is_left_to_who_takes_it() {
        let server = Arc::<ApiServer>::default();
        let (a, b) = (server.claims("ns/a"), server.claims("ns/b"));
        let (ours, theirs) = (Arc::clone(&a.0), Arc::clone(&b.0));
        let (_first, _second) = (kept(a, Arc::new(Mutex::new(true))), kept(b, Arc::new(Mutex::new(true))));
        assert_eq!(driven(&ours).await, Driven::ByUs);
        // What cannot be written on the Lease changes nothing about its holder.
        *server.refuses_updates.lock() = true;
        assert_eq!(driven(&theirs).await, Driven::ByOthers);
        *server.refuses_updates.lock() = false;
        after(210).await;
        *server.lease.lock() = Value::Null;
        after(21).await;
        let both = [driven(&ours).await, driven(&theirs).await];
        assert!(
            both == [Driven::ByUs, Driven::ByOthers] || both == [Driven::ByOthers, Driven::ByUs],
            "{both:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_not_chosen_any_more_is_free_at_once() {
        let server = Arc::<ApiServer>::default();
        let (a, b) = (server.claims("ns/a"), server.claims("ns/b"));
        let (ours, theirs) = (Arc::clone(&a.0), Arc::clone(&b.0));
        let chosen = Arc::new(Mutex::new(true));
        let (_first, _second) = (kept(a, Arc::clone(&chosen)), kept(b, Arc::new(Mutex::new(true))));
        claimed(&ours).await;
        after(1).await;
        claimed(&theirs).await;
        after(1).await;
        *chosen.lock() = false;
        ours.choice_has_changed();
        after(29).await;
        assert_eq!(driven(&theirs).await, Driven::ByOthers, "what was begun has to end");
        after(11).await;
        assert_eq!(driven(&theirs).await, Driven::ByUs);
        assert_eq!(ours.claims.read().get("data"), None);
    }
}
