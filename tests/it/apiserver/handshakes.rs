//! Proves that no pod is refused while certificates are replaced. The webhook closes each connection after half the time
//! that a leaf is in use, so that the API server itself does a handshake with every new certificate.

use super::{
    arrivals::Count,
    certificates::{bundle, ca},
    rotation::{cas, certs, hasty},
    route::Route,
};
use crate::apiserver::prelude::*;
use tokio::time::interval;

/// The number of new leaves for each new CA.
const LEAVES: u32 = 10;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn no_pod_is_refused_during_handshakes_with_every_certificate() {
    // `make soak` does it with a URL, over HTTP/2; rotation::pods_are_admitted_… has long-lived HTTP/2 connections.
    let namespace = Namespace::new("handshakes-service").await;
    let pace = Pace { pods: 30, leaf: Duration::from_secs(1), leaves: 8 };
    let rotated = rotated(&namespace, Route::service, pace).await;
    eprintln!("{rotated:?}");
    rotated.is_good();
}

/// How fast pods are created and certificates replaced.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// The number of pods that would be created in a second if the API server answered at once.
    pub pods: u32,
    /// The time between two new leaf certificates. The webhook closes connections after half this time.
    pub leaf: Duration,
    /// The number of new leaf certificates.
    pub leaves: u32,
}

/// The results of [`rotated`].
#[derive(Debug)]
pub(crate) struct Rotated {
    pub count: Count,
    /// The number of handshakes that have started with each leaf, in the order in which the webhook presented them.
    handshakes: Vec<usize>,
}

/// Creates pods continuously while new leaf certificates are created, some of them together with a new CA.
pub(crate) async fn rotated(namespace: &Namespace, route: fn(u16) -> Route, pace: Pace) -> Rotated {
    let age = format!("--webhook-max-connection-age={}ms", (pace.leaf / 2).as_millis());
    let operator = hasty(namespace).argument(&age).start().await;
    let _route = route(WEBHOOK_PORT);
    let first_ca = ca();
    let arrivals = Arrivals::of_steady_pods(namespace.name, pace.pods);
    let mut next = interval(pace.leaf);
    for i in 0..pace.leaves {
        next.tick().await;
        let words: &[_] = if i % LEAVES == 0 { &["rotate", "--ca"] } else { &["rotate"] };
        certs(words);
    }
    eventually("only a new CA is trusted", async || {
        let now = bundle();
        seen(now == ca() && cas(&now) == 1 && now != first_ca, cas(&now))
    })
    .await;
    let count = arrivals.end();
    let told = replaced(&operator).len();
    // The log reports the handshakes of a certificate only when the certificate is replaced.
    eventually("the last certificate is replaced", async || {
        certs(&["rotate"]);
        seen(replaced(&operator).len() > told, told)
    })
    .await;
    namespace.clear::<Pod>().await;
    Rotated { count, handshakes: replaced(&operator) }
}

impl Rotated {
    /// Asserts that no pod was refused, and that the API server did handshakes with several certificates.
    pub(crate) fn is_good(&self) {
        assert_eq!(self.count.failures, Vec::<String>::new());
        assert!(self.count.pods > 100, "{}", self.count.pods);
        assert!(self.handshakes.len() > 4, "{self:?}");
        // A leaf that is presented for longer than the maximum age of a connection is part of at least one handshake.
        assert!(self.handshakes.iter().filter(|count| **count > 0).count() > 4, "{self:?}");
    }
}

/// Returns the number of handshakes with each certificate that was replaced, according to the log.
fn replaced(operator: &Operator) -> Vec<usize> {
    let told = |line: &str| {
        let (_, fields) = line.split_once("certificate replaced ")?;
        fields.split_once("handshakes=")?.1.split(' ').next()?.parse().ok()
    };
    operator.log().lines().filter_map(told).collect()
}
