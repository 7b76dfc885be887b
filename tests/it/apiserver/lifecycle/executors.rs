//! Proves that hundreds of executors cause only few writes to the API server, and that executors of an application that
//! the operator does not know yet are left alone.

use super::{application, expiry, running};
use crate::apiserver::{installation::is_ready, prelude::*};

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn hundreds_of_executors_cause_few_writes_and_an_edit_prevents_expiry() {
    const EXECUTORS: u32 = 500;
    const TRACKED: usize = 300;
    let namespace = Namespace::new("hundreds").await;
    let proxy = Proxy::start().await;
    let setup = Operator::with(&namespace).through(&proxy).argument("--default-time-to-live-seconds=1");
    let operator = setup.argument(&format!("--max-tracked-executor-per-app={TRACKED}")).start().await;
    let expired = namespace.beside("expired-too-soon").await;
    expiry::an_edit_during_the_ttl_deletion_is_not_lost(&expired, &proxy).await;
    namespace.apply(&application("pi", &json!({"timeToLiveSeconds": 3600})));
    running(&namespace, "pi", 1).await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    namespace.events_up_to("SparkDriverRunning").await;
    let before = proxy.writes_in(namespace.name).len();
    let begun = Instant::now();
    let executors = spark::Executors::of(&namespace, &driver).await;
    let names: Vec<String> =
        stream::iter(1..=EXECUTORS).map(|id| executors.make(id)).buffer_unordered(16).collect().await;
    let running = json!({"phase": "Running", "containerStatuses": [{
        "name": "spark-kubernetes-executor", "image": "", "imageID": "", "state": {"running": {}},
    }]});
    stream::iter(&names).for_each_concurrent(16, |name| namespace.patch_status::<Pod>(name, &running)).await;
    let latest = format!("-exec-{EXECUTORS}");
    let is_followed = |application: &Value| {
        let states = application["status"]["executorState"].as_object();
        states.is_some_and(|states| {
            states.len() == TRACKED
                && states.values().all(|state| state == "RUNNING")
                && states.keys().any(|name| name.ends_with(&latest))
        })
    };
    namespace
        .until::<SparkApplication>("pi", "has RUNNING executors alone, the latest too", is_followed)
        .await;
    namespace.clear::<Pod>().await;
    namespace.reaches("pi", "FAILED").await;
    let waiting = "workqueue_depth{controller=\"sparkapplication\",name=\"sparkapplication\"}";
    operator.measures(waiting, |waiting| waiting == 0.0).await;
    let seconds = begun.elapsed().as_secs() as usize;
    let writes = proxy.writes_in(namespace.name).split_off(before);
    let of = |part: &str| writes.iter().filter(|(_, uri)| uri.path().contains(part)).count();
    let (events, statuses) = (of("/events"), of("/sparkapplications/pi/status"));
    eprintln!("{EXECUTORS} executors in {seconds} s: {events} events, {statuses} writes of the status");
    // Changes are collected for a second, except for the first ten failures of executors. Each status write comes with
    // events for at most two kinds of changes of executors; FAILING and FAILED add two more.
    assert!(statuses <= seconds + 10 + 3, "{statuses} in {seconds} s");
    assert!(events <= 2 * statuses + 4, "{events} events, {statuses} writes of the status");
    assert_eq!(super::complaints(&operator.log()), Vec::<&str>::new());
}

/// The operator deletes pods of an application that does not exist. It must not do so before it has listed all
/// applications. The test stops `operator` and starts another one.
pub(super) async fn an_operator_deletes_no_pod_before_it_has_listed_applications(
    namespace: &Namespace,
    operator: Operator,
) {
    let proxy = Proxy::start().await;
    namespace.apply(&application("pi", &json!({})));
    running(namespace, "pi", 1).await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    let executor = spark::make_executor(namespace, &driver, 1).await;
    kubelet::runs(namespace, &executor).await;
    namespace.events_up_to("SparkExecutorRunning").await;
    operator.stop().await;

    // The operator has already listed the pods when it lists applications.
    let applications = Call { method: "GET", path: "/v1beta2/sparkapplications" };
    let trap = proxy.hold(applications, Moment::Before);
    let operator = Operator::with(namespace).through(&proxy).spawn();
    let held = trap.caught().await;
    namespace.kubectl(&["get", "pods"]);
    held.release();
    is_ready(&operator).await;
    let all = calls::get("/apis/sparkoperator.k8s.io/v1beta2/sparkapplications").expect("a list");
    operator.has_looked_at(all["items"].as_array().unwrap().len()).await;
    for pod in ["pi-driver", &executor] {
        let pod = namespace.pod(pod).await.unwrap();
        assert_eq!(pod["metadata"]["deletionTimestamp"], Value::Null);
    }
    let writes = proxy.writes_in(namespace.name);
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!(namespace.application("pi").await["status"]["applicationState"]["state"], "RUNNING");
}
