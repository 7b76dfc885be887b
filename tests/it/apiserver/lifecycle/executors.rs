//! Proves that executors cause only few writes to the API server, whether an application has one or a thousand.

use super::{Namespace, application, running, submitted};
use crate::apiserver::{
    eventually,
    installation::is_ready,
    kubelet,
    operator::Operator,
    proxy::{Call, Moment, Proxy},
    seen, spark,
};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Instant};

/// The maximum number of writes for the whole life of an application with one executor, events included.
/// One of them is the Service of the web UI, which Kubeflow's operator creates as well by default.
const BUDGET: usize = 20 + 1;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn the_whole_life_of_an_application_with_one_executor_takes_few_writes() {
    let namespace = Namespace::new("frugal").await;
    let proxy = Proxy::start().await;
    let _operator = Operator::with(&namespace).through(&proxy).start().await;
    namespace.apply(&application("pi", &json!({})));
    submitted(&namespace, "pi", 1).await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    running(&namespace, "pi", 1).await;
    let executor = spark::make_executor(&namespace, &driver, 1).await;
    let executor_is = async |state: &str| {
        namespace
            .becomes("pi", state, |application| {
                application["status"]["executorState"] == json!({&executor: state})
            })
            .await;
    };
    // An executor usually starts before the operator reports it as pending, so the test does not wait for that.
    kubelet::runs(&namespace, &executor).await;
    executor_is("RUNNING").await;
    kubelet::ends(&namespace, &executor, 0).await;
    executor_is("COMPLETED").await;
    namespace.kubectl(&["delete", "pod", &executor]);
    kubelet::ends(&namespace, "pi-driver", 0).await;
    namespace.reaches("pi", "COMPLETED").await;
    namespace.events_up_to("SparkApplicationCompleted").await;
    let (total, counted) = counted(&proxy, &namespace);
    eprintln!("{total} writes: {counted:?}");
    assert!(total <= BUDGET, "{counted:?}");
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn executors_that_the_api_server_refuses_are_told_of_until_there_is_one() {
    let namespace = Namespace::new("refused").await;
    let _operator = Operator::start(&namespace).await;
    let largest = |memory: &str| {
        namespace.apply(&json!({
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "largest"},
            "spec": {"limits": [{"type": "Container", "max": {"memory": memory}}]},
        }));
    };
    largest("2Gi");
    namespace.apply(&application("pi", &json!({"executor": {"memory": "4g"}})));
    let conditions = |application: &Value| {
        let all = application["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|condition| condition["type"] == "ExecutorsRefused")
    };
    let is_refused = |application: &Value| conditions(application).is_some();
    let refused = namespace.becomes("pi", "refused its executors", is_refused).await;
    let condition = conditions(&refused).unwrap();
    let why = condition["message"].as_str().unwrap();
    assert!(why.starts_with("executors are refused: pods \"pi-"), "{why}");
    assert!(why.contains("maximum memory usage per Container is 2Gi"), "{why}");
    assert_eq!([&condition["status"], &condition["reason"]], ["True", "Forbidden"]);
    assert_eq!(refused["status"]["applicationState"]["state"], "SUBMITTED");
    let told = namespace.events_up_to("SparkApplicationExecutorsRefused").await;
    assert!(told.iter().any(|event| event[3].contains(why)), "{told:?}");

    running(&namespace, "pi", 1).await;
    namespace.apply(&application("small", &json!({})));
    running(&namespace, "small", 1).await;
    assert!(is_refused(&namespace.application("pi").await), "another state tells nothing of executors");
    assert!(!is_refused(&namespace.application("small").await));
    assert!(
        namespace.list::<Pod>().await.iter().all(|pod| pod["metadata"]["labels"]["spark-role"] == "driver")
    );

    largest("8Gi");
    let driver = namespace.pod("pi-driver").await.unwrap();
    let executor = spark::make_executor(&namespace, &driver, 1).await;
    kubelet::runs(&namespace, &executor).await;
    namespace.becomes("pi", "told of its executor", |application| !is_refused(application)).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_thousand_executors_take_a_handful_of_events_and_a_status_a_second() {
    const EXECUTORS: u32 = 1000;
    const TRACKED: usize = 300;
    let namespace = Namespace::new("thousand").await;
    let proxy = Proxy::start().await;
    let setup = Operator::with(&namespace).through(&proxy);
    let operator = setup.argument(&format!("--max-tracked-executor-per-app={TRACKED}")).start().await;
    namespace.apply(&application("pi", &json!({})));
    running(&namespace, "pi", 1).await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    namespace.events_up_to("SparkDriverRunning").await;
    let before = proxy.writes_in(namespace.name).len();
    let begun = Instant::now();
    let executors = spark::Executors::of(&namespace, &driver).await;
    let names: Vec<String> =
        stream::iter(1..=EXECUTORS).map(|id| executors.make(id)).buffer_unordered(16).collect().await;
    let running = json!({"phase": "Running", "containerStatuses": [{
        "name": "spark-kubernetes-executor",
        "image": "",
        "imageID": "",
        "state": {"running": {}},
    }]});
    stream::iter(&names).for_each_concurrent(16, |name| namespace.patch_status::<Pod>(name, &running)).await;
    let latest = format!("-exec-{EXECUTORS}");
    namespace
        .becomes("pi", "as many executors as are tracked run, the latest among them", |application| {
            let states = application["status"]["executorState"].as_object();
            states.is_some_and(|states| {
                states.len() == TRACKED
                    && states.values().all(|state| state == "RUNNING")
                    && states.keys().any(|name| name.ends_with(&latest))
            })
        })
        .await;
    namespace.clear::<Pod>().await;
    namespace.reaches("pi", "FAILED").await;
    eventually("it has nothing left to do", async || {
        let waiting = operator
            .metric("workqueue_depth{controller=\"sparkapplication\",name=\"sparkapplication\"}")
            .await?;
        seen(waiting == 0.0, waiting)
    })
    .await;
    let seconds = begun.elapsed().as_secs() as usize;
    let writes = proxy.writes_in(namespace.name).split_off(before);
    let of = |part: &str| writes.iter().filter(|(_, path, _)| path.contains(part)).count();
    let (events, statuses) = (of("/events"), of("/sparkapplications/pi/status"));
    eprintln!("{EXECUTORS} executors in {seconds} s: {events} events, {statuses} writes of the status");
    // Each status write comes with events for at most two kinds of changes of executors; FAILING and FAILED add two
    // more.
    assert!(statuses <= seconds + 3, "{statuses} in {seconds} s");
    assert!(events <= 2 * statuses + 4, "{events} events, {statuses} writes of the status");
    assert_eq!(super::complaints(&operator.log()), Vec::<&str>::new());
}

/// Returns the number of writes, in all and by kind.
fn counted(proxy: &Proxy, namespace: &Namespace) -> (usize, BTreeMap<String, usize>) {
    let mut counted = BTreeMap::new();
    let writes = proxy.writes_in(namespace.name);
    for (method, path, _) in &writes {
        let (_, inside) = path.split_once(&format!("/namespaces/{}/", namespace.name)).unwrap();
        let mut words = inside.split('/');
        let kind = words.next().unwrap();
        let sub = words.nth(1).map_or_else(String::new, |sub| format!("/{sub}"));
        *counted.entry(format!("{method} {kind}{sub}")).or_default() += 1;
    }
    (writes.len(), counted)
}

/// The operator deletes pods of an application that does not exist. It must not do so before it has listed all
/// applications.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_that_knows_no_application_yet_touches_no_pod() {
    let namespace = Namespace::new("early").await;
    let proxy = Proxy::start().await;
    let operator = Operator::start(&namespace).await;
    namespace.apply(&application("pi", &json!({})));
    running(&namespace, "pi", 1).await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    let executor = spark::make_executor(&namespace, &driver, 1).await;
    kubelet::runs(&namespace, &executor).await;
    namespace.events_up_to("SparkExecutorRunning").await;
    operator.stop().await;

    // The operator has already listed the pods when it lists applications.
    let applications = Call { method: "GET", path: "/v1beta2/sparkapplications" };
    let trap = proxy.hold(applications, Moment::Before);
    let operator = Operator::with(&namespace).through(&proxy).spawn();
    let held = trap.caught().await;
    namespace.kubectl(&["get", "pods"]);
    held.release();
    is_ready(&operator).await;
    operator.has_looked_at(1).await;
    for pod in ["pi-driver", &executor] {
        let pod = namespace.pod(pod).await.unwrap();
        assert_eq!(pod["metadata"]["deletionTimestamp"], Value::Null);
    }
    let writes = proxy.writes_in(namespace.name);
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!(namespace.application("pi").await["status"]["applicationState"]["state"], "RUNNING");
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn nothing_is_written_where_nothing_has_changed() {
    let namespace = Namespace::new("quiet").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    namespace.apply(&application("running", &json!({})));
    namespace.apply(&application("suspended", &json!({"suspend": true})));
    running(&namespace, "running", 1).await;
    namespace.reaches("suspended", "SUSPENDED").await;
    // Events and the web UI's address come in any order, after the states.
    eventually("all is told", async || {
        let events = namespace.events().await;
        let mut told: Vec<_> = events.iter().map(|event| &*event[1]).collect();
        told.sort_unstable();
        let all = [
            "SparkApplicationAdded",
            "SparkApplicationSubmitted",
            "SparkApplicationSuspended",
            "SparkApplicationSuspending",
            "SparkDriverRunning",
        ];
        seen(told == all, &events)
    })
    .await;
    let before = namespace
        .becomes("running", "its web UI has an address", |application| {
            application["status"]["driverInfo"]["webUIAddress"].is_string()
        })
        .await["status"]
        .take();
    operator.has_looked_at(2).await;
    let written = proxy.writes_in(namespace.name);
    let looked =
        operator.metric("workqueue_queue_duration_seconds_count{controller=\"sparkapplication\",name=\"sparkapplication\"}").await.unwrap();
    for name in ["running", "suspended"] {
        namespace.kubectl(&["annotate", "sparkapplication", name, "look=again"]);
    }
    operator.has_looked_at(looked as usize + 2).await;
    assert_eq!(proxy.writes_in(namespace.name), written);
    assert_eq!(namespace.application("running").await["status"], before);
}
