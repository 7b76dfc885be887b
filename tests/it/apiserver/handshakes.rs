//! Proves that no pod is refused while certificates are replaced. The webhook closes each connection after half the time
//! that a leaf is in use, so that the API server itself does a handshake with every new certificate.

use super::{
    arrivals::Count,
    certificates::SECRET,
    rotation::{certs, hasty},
    route::Route,
};
use crate::apiserver::prelude::*;
use certificates::{PresentedCertificate, x509};
use std::fmt;
use tokio::{task::spawn_blocking, time::interval};

/// The number of new leaves for each new CA.
const LEAVES: u32 = 10;
/// The number of digits of a fingerprint that are enough to tell certificates apart.
const DIGITS: usize = 8;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn no_pod_is_refused_while_the_api_server_meets_every_certificate_through_a_service() {
    // Over HTTP/2, to a URL, they are met in make soak; rotation::pods_are_admitted_… has connections of HTTP/2 that stay.
    let namespace = Namespace::new("handshakes-service").await;
    let pace = Pace { pods: 30, leaf: Duration::from_secs(1), leaves: 8 };
    let rotated = rotated(&namespace, Route::service, pace).await;
    eprintln!("{rotated}");
    rotated.is_good();
}

/// How fast pods are created and certificates replaced.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// The number of pods that would be created in a second if the API server answered at once.
    pub pods: u32,
    /// The time between two new leaf certificates. Connections to the webhook become half as old.
    pub leaf: Duration,
    /// How often a new leaf is asked for.
    pub leaves: u32,
}

/// The results of [`rotated`].
pub(crate) struct Rotated {
    pub count: Count,
    /// The leaves in the order in which the webhook presented them.
    leaves: Vec<Leaf>,
}

struct Leaf {
    fingerprint: String,
    /// The fingerprint of the CA that has signed the leaf.
    ca: String,
    /// The number of handshakes that have started with the leaf.
    handshakes: usize,
}

/// Creates pods all the time, while new leaf certificates are made, some of them together with a new CA.
pub(crate) async fn rotated(namespace: &Namespace, route: fn(u16) -> Route, pace: Pace) -> Rotated {
    let age = format!("--webhook-max-connection-age={}ms", (pace.leaf / 2).as_millis());
    let operator = hasty(namespace).argument(&age).start().await;
    let _route = route(WEBHOOK_PORT);
    let watched = CancellationToken::new();
    // Several looks at each leaf.
    let signers = tokio::spawn(signers(pace.leaf / 10, watched.clone()));
    let arrivals = Arrivals::of_steady_pods(namespace.name, pace.pods);
    let mut next = interval(pace.leaf);
    for i in 0..pace.leaves {
        next.tick().await;
        // `certs` blocks on a process; on a thread of its own it does not delay the task that watches the Secret.
        let words: &[_] = if i % LEAVES == 0 { &["rotate", "--ca"] } else { &["rotate"] };
        spawn_blocking(|| certs(words)).await.unwrap();
    }
    next.tick().await;
    let count = arrivals.end();
    let told = replaced(&operator).len();
    // The log reports the handshakes of a certificate only when the certificate is replaced.
    eventually("the last one is replaced", async || {
        certs(&["rotate"]);
        seen(replaced(&operator).len() > told, told)
    })
    .await;
    namespace.clear::<Pod>().await;
    watched.cancel();
    let signers = signers.await.unwrap();
    let ca = |leaf: &String| signers.get(leaf).cloned().unwrap_or_else(|| "?".to_owned());
    let leaves = replaced(&operator).into_iter().map(|(fingerprint, handshakes)| Leaf {
        ca: ca(&fingerprint),
        fingerprint,
        handshakes,
    });
    Rotated { count, leaves: leaves.collect() }
}

impl Rotated {
    /// Asserts that no pod was refused, and that the API server has met several certificates and CAs.
    pub(crate) fn is_good(&self) {
        assert_eq!(self.count.failures, Vec::<String>::new());
        assert!(self.count.pods > 100, "{}", self.count.pods);
        assert!(self.leaves.len() > 4 && self.cas().len() > 1, "{self}");
        // A leaf that is presented for longer than the maximum age of a connection is part of at least one handshake.
        assert!(self.leaves.iter().filter(|leaf| leaf.handshakes > 0).count() > 4, "{self}");
    }

    fn cas(&self) -> BTreeMap<&str, usize> {
        let mut cas = BTreeMap::new();
        for leaf in &self.leaves {
            *cas.entry(leaf.ca.as_str()).or_default() += leaf.handshakes;
        }
        cas
    }
}

impl fmt::Display for Rotated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handshakes: usize = self.leaves.iter().map(|leaf| leaf.handshakes).sum();
        let Count { pods, failures, .. } = &self.count;
        writeln!(f, "{pods} pods, {} refused or not customized, {handshakes} handshakes", failures.len())?;
        for Leaf { fingerprint, ca, handshakes } in &self.leaves {
            writeln!(f, "  leaf {fingerprint} of CA {ca}: {handshakes} handshakes")?;
        }
        for (ca, handshakes) in self.cas() {
            writeln!(f, "  CA {ca}: {handshakes} handshakes")?;
        }
        Ok(())
    }
}

/// Returns the certificates that were replaced and the number of handshakes with each, according to the log.
fn replaced(operator: &Operator) -> Vec<(String, usize)> {
    let told = |line: &str| {
        let (_, fields) = line.split_once("certificate replaced ")?;
        let field = |name: &str| {
            let (_, value) = fields.split_once(&format!("{name}="))?;
            Some(value.trim_start_matches('"').split(['"', ' ']).next()?.to_owned())
        };
        Some((field("fingerprint")?[..DIGITS].to_owned(), field("handshakes")?.parse().ok()?))
    };
    operator.log().lines().filter_map(told).collect()
}

/// Returns the CA of each leaf that is in the Secret at any time until `ended`. Key and value are fingerprints. The Secret
/// is read again after each `pause`.
async fn signers(pause: Duration, ended: CancellationToken) -> BTreeMap<String, String> {
    let secrets = Api::<Secret>::namespaced(Client::try_default().await.unwrap(), NAMESPACE);
    let mut signers = BTreeMap::new();
    while !ended.is_cancelled() {
        let shown = PresentedCertificate::of(&secrets.get(SECRET).await.unwrap()).unwrap();
        let [leaf, cas] = [shown.certificate, shown.cas].map(|pem| x509::certificates(&pem).unwrap());
        let fingerprint =
            |certificate| x509::description(certificate).unwrap().fingerprint[..DIGITS].to_owned();
        if let Some(ca) = x509::issuer(&leaf, &cas) {
            signers.insert(fingerprint(&leaf[0]), fingerprint(&cas[ca]));
        }
        sleep(pause).await;
    }
    signers
}
