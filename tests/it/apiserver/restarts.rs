//! Proves that no pod is refused while replicas are restarted one after the other.

use super::{admission::pod, arrivals::Arrivals, balancer::Balancer, operator::BESIDE, route::Route};
use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn no_pod_is_refused_while_replicas_are_restarted_behind_a_service() {
    let namespace = Namespace::new("restarts-service").await;
    // The replicas have their default settings, except for a short lease and shutdown delay.
    let replica = || {
        let setup = Operator::with(&namespace).candidate(4);
        setup.env("SPARK_OPERATOR_WEBHOOK_SHUTDOWN_DELAY", "3s")
    };
    let first = replica().beside().spawn();
    let second = replica().start().await;
    let balancer = Balancer::start(&[0, BESIDE]).await;
    balancer.knows_all().await;
    let _route = Route::service(balancer.port);
    admits(&namespace, &balancer).await;

    let arrivals = Arrivals::of_steady_pods(namespace.name, 50);
    // As in a Deployment, the next replica is stopped once the replacement of the previous one is known to be ready.
    second.stop().await;
    let second = replica().spawn();
    balancer.knows_all().await;
    first.stop().await;
    let first = replica().beside().spawn();
    balancer.knows_all().await;
    let count = arrivals.end();
    namespace.clear::<Pod>().await;
    assert_eq!(count.failures, Vec::<String>::new());
    let connections = balancer.taken();
    eprintln!("{} pods over {connections:?} connections to each of two replicas", count.pods);
    assert!(count.pods > 100 && connections.len() == 2, "{count:?} {connections:?}");
    drop((first, second));
}

/// A Service gets the address of a replica a moment after the replica is ready and its caches are filled. If the
/// replica submitted before that, the API server could not reach the webhook and would refuse the driver.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn nothing_is_submitted_before_the_api_server_reaches_the_webhook() {
    let namespace = Namespace::new("not-found-yet").await;
    let balancer = Balancer::start(&[0]).await;
    let _route = Route::url(balancer.port);
    namespace.apply(&application("pi"));
    let _operator = Operator::with(&namespace).spawn();
    namespace.reaches("pi", "SUBMITTED").await;
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMITTED"]);
}

/// Waits until the API server calls the webhook through the balancer.
pub(crate) async fn admits(namespace: &Namespace, balancer: &Balancer) {
    let pod = pod("driver-pod");
    eventually("the API server calls the balancer", async || {
        calls::tried_in(namespace.name, &pod)?;
        seen(!balancer.taken().is_empty(), "not called")
    })
    .await;
}
