//! Proves that no pod is refused while the webhook's certificates are replaced all the time.

use crate::apiserver::{
    handshakes::{Pace, rotated},
    prelude::*,
    rotation::{certs, hasty},
    route::Route,
};
use tokio::time::interval;

/// The time between two new leaf certificates.
const LEAF: Duration = Duration::from_secs(2);
/// The number of leaf certificates that each CA signs.
const LEAVES: u32 = 10;
const LEAVES_IN_ALL: u32 = 30;

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn no_pod_is_refused_while_leaf_and_ca_are_replaced_all_the_time() {
    let namespace = Namespace::new("soak-rotation").await;
    let _operator = hasty(&namespace).start().await;
    let arrivals = Arrivals::begin(namespace.name);
    let mut next = interval(LEAF);
    let (mut leaves, mut cas) = (0, 0);
    for i in 0..LEAVES_IN_ALL {
        next.tick().await;
        if i % LEAVES == 0 {
            certs(&["rotate", "--ca"]);
            cas += 1;
        } else if certs(&["rotate"]).contains("new leaf, valid") {
            leaves += 1;
        }
    }
    next.tick().await;
    let count = arrivals.end();
    namespace.clear::<Pod>().await;
    println!(
        "soak: {cas} CAs and {leaves} leaves in {} s: {} pods admitted by {} handshakes beside, {} refused or not customized",
        (LEAF * LEAVES_IN_ALL).as_secs(),
        count.pods,
        count.handshakes,
        count.failures.len()
    );
    assert_eq!(count.failures, Vec::<String>::new());
    assert!(count.pods >= 6000, "{}", count.pods);
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn no_pod_is_refused_while_certificates_are_replaced_behind_a_service() {
    let namespace = Namespace::new("soak-handshakes-service").await;
    met(&namespace, Route::service).await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn no_pod_is_refused_while_certificates_are_replaced_over_http2() {
    let namespace = Namespace::new("soak-handshakes-http2").await;
    met(&namespace, Route::url).await;
}

/// Requires at least 100 pods per second for a minute. The API server takes some time for each, so twice as many are tried.
async fn met(namespace: &Namespace, route: fn(u16) -> Route) {
    let rotated = rotated(namespace, route, Pace { pods: 200, leaf: LEAF, leaves: LEAVES_IN_ALL }).await;
    println!("soak: {}: {rotated:?}", namespace.name);
    rotated.is_good();
    assert!(rotated.count.pods >= 6000, "{}", rotated.count.pods);
}
