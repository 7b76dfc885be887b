//! What if replicas are restarted, one after the other, while pods are created?

use super::{
    admission::pod,
    arrivals::Arrivals,
    balancer::Balancer,
    eventually,
    installation::is_ready,
    kubectl::try_kubectl_with,
    namespace::Namespace,
    operator::{BESIDE, Operator, Setup, stand_in},
    route::Route,
    seen,
};
use k8s_openapi::api::core::v1::Pod;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn no_pod_is_refused_while_replicas_are_restarted_behind_a_service() {
    let namespace = Namespace::new("restarts-service").await;
    restarted(&namespace, Route::service).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn no_pod_is_refused_while_replicas_are_restarted_behind_a_url() {
    let namespace = Namespace::new("restarts-url").await;
    restarted(&namespace, Route::url).await;
}

async fn restarted(namespace: &Namespace, route: fn(u16) -> Route) {
    // By their usual settings, but for a lease that is short.
    let replica = || {
        let setup = Operator::with(namespace).spark_home(&stand_in()).candidate(4);
        setup.env("SPARK_OPERATOR_WEBHOOK_SHUTDOWN_DELAY", "5s")
    };
    let mut first = replica().beside().spawn();
    is_ready(&first).await;
    let mut second = replica().start().await;
    let balancer = Balancer::start(&[0, BESIDE]).await;
    let _route = route(balancer.port);
    admits(namespace, &balancer).await;

    let arrivals = Arrivals::of_steady_pods(namespace.name, 50);
    for _ in 0..2 {
        second = next(second, replica()).await;
        first = next(first, replica().beside()).await;
    }
    let count = arrivals.end();
    namespace.clear::<Pod>().await;
    assert_eq!(count.failures, Vec::<String>::new());
    let connections = balancer.taken();
    eprintln!("{} pods over {connections:?} connections to each of two replicas", count.pods);
    assert!(count.pods > 100 && connections.len() == 2, "{count:?} {connections:?}");
}

/// `setup` in place of `operator`, as soon as that has stopped; it is ready.
async fn next(operator: Operator, setup: Setup<'_>) -> Operator {
    operator.stop().await;
    let operator = setup.spawn();
    is_ready(&operator).await;
    operator
}

/// Waits until the API server finds the webhook through the balancer.
async fn admits(namespace: &Namespace, balancer: &Balancer) {
    let pod = pod("driver-pod");
    eventually("the API server calls the balancer", async || {
        let create = ["create", "--dry-run=server", "--namespace", namespace.name, "-f", "-"];
        try_kubectl_with(&pod, &create)?;
        seen(!balancer.taken().is_empty(), "not called")
    })
    .await;
}
