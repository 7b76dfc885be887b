//! Proves that the client library does what its documentation says, also when connections fail. No operator runs: the
//! test writes the status itself.

use super::proxy::Guard;
use crate::apiserver::prelude::*;
use api::{State, fill_in};
use futures::{TryStreamExt, join};
use kube::{
    Config,
    config::{Cluster, KubeConfigOptions, Kubeconfig},
};
use serde_json::from_value;
use spark_operator_client::{Applications, Builder, Changes, End, Error};

/// The time within which a watch has started, or has ended, also on a slow machine.
const SOON: Duration = Duration::from_secs(1);

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submitted_application_equals_one_applied_by_kubectl() {
    let namespace = Namespace::new("client").await;
    let applications = applications().await;
    let submitted = applications.submit(&pi().named("submitted")).await.unwrap();
    assert!(submitted.metadata.uid.is_some());
    let readme = include_str!("../../../README.md");
    let manifest = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut applied: Value = serde_saphyr::from_str(manifest).unwrap();
    applied["metadata"] = json!({"name": "applied"});
    namespace.apply(&applied);
    let specs = ["submitted", "applied"].map(async |name| {
        let mut spec = namespace.application(name).await["spec"].take();
        fill_in(spec.as_object_mut().unwrap()).unwrap();
        spec
    });
    let [submitted, applied] = specs;
    assert_eq!(submitted.await, applied.await);

    let mut any = pi().named("");
    any.metadata.name = None;
    any.metadata.generate_name = Some("pi-".to_owned());
    let [one, other] = [applications.submit(&any).await.unwrap(), applications.submit(&any).await.unwrap()];
    assert_ne!(one.metadata.name, other.metadata.name);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn each_cause_of_a_failed_submission_has_its_own_error() {
    let namespace = Namespace::new("client").await;
    let applications = applications().await;
    applications.submit(&pi().named("pi")).await.unwrap();
    let before = namespace.application("pi").await;
    let error = applications.submit(&pi().executors(7, 1, "1g").named("pi")).await.unwrap_err();
    assert!(
        matches!(&error, Error::NameTaken { namespace, name } if namespace == "client" && name == "pi"),
        "{error}"
    );
    assert_eq!(namespace.application("pi").await, before);

    let error = applications.submit(&pi().executors(0, 1, "1g").named("none")).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(status) if status.code == 422), "{error}");
    assert!(error.to_string().contains("spec.executor.instances"), "{error}");

    let elsewhere = Applications::new(Client::try_default().await.unwrap(), "nowhere");
    let error = elsewhere.submit(&pi().named("pi")).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(status) if status.code == 404), "{error}");
    let error = applications.end("none").await.unwrap_err();
    assert!(matches!(&error, Error::NotFound { name, .. } if name == "none"), "{error}");

    let mut nowhere = Config::infer().await.unwrap();
    nowhere.cluster_url = "https://127.0.0.1:9".parse().unwrap();
    let unreachable = Applications::new(Client::try_from(nowhere).unwrap(), "client");
    let error = unreachable.end("pi").await.unwrap_err();
    assert!(matches!(error, Error::Call(_)), "{error}");
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn each_state_is_reported_once_until_the_end() {
    let namespace = Namespace::new("client").await;
    let applications = applications().await;
    let pi = applications.submit(&pi().named("pi")).await.unwrap();
    let (mut states, mut statuses) = (applications.states(&pi), applications.statuses(&pi));
    assert_eq!(next(&mut states).await, Some(State::New));
    assert_eq!(next(&mut statuses).await, Some(Default::default()));
    for (state, executor) in [
        (State::Submitted, None),
        (State::Running, None),
        (State::Running, Some("RUNNING")),
        (State::Succeeding, Some("COMPLETED")),
        (State::Completed, Some("COMPLETED")),
    ] {
        let executors = executor.map(|state| json!({"pi-exec-1": state}));
        record(
            &namespace,
            json!({"applicationState": {"state": state}, "driverInfo": {}, "executorState": executors}),
        )
        .await;
        let status = next(&mut statuses).await.unwrap();
        assert_eq!(status.application_state.state, state);
        assert_eq!(status.executor_state.len(), usize::from(executor.is_some()));
        if executor != Some("RUNNING") {
            assert_eq!(next(&mut states).await, Some(state));
        }
    }
    assert_eq!((next(&mut states).await, next(&mut statuses).await), (None, None));
    let End::Completed(pi) = applications.end(&pi).await.unwrap() else { panic!("it has not completed") };
    assert_eq!(pi.state(), State::Completed);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_failure_has_its_reason_and_does_not_end_an_edited_application() {
    let namespace = Namespace::new("client").await;
    let applications = applications().await;
    let pi = applications.submit(&pi().named("pi")).await.unwrap();
    record(&namespace, failed(1)).await;
    let End::Failed { message, application } = applications.end(&pi).await.unwrap() else {
        panic!("it has not failed")
    };
    assert_eq!((&*message, application.state()), ("out of luck", State::Failed));

    namespace.merge::<SparkApplication>("pi", &json!({"spec": {"arguments": ["7"]}}));
    let waits = applications.end("pi");
    assert!(timeout(SOON, waits).await.is_err(), "`end` waits, because the spec was edited");
    let ((), end) = join!(record(&namespace, failed(2)), applications.end("pi"));
    assert!(matches!(end, Ok(End::Failed { .. })), "{end:?}");
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_deletion_is_an_end_also_if_the_name_is_used_again() {
    let namespace = Namespace::new("client").await;
    let proxy = Proxy::start().await;
    let applications = through(&proxy).await;
    let first = applications.submit(&pi().named("pi")).await.unwrap();
    let (mut states, mut by_name) = (applications.states(&first), applications.states("pi"));
    assert_eq!(next(&mut states).await, Some(State::New));
    assert_eq!(next(&mut by_name).await, Some(State::New));
    let ((), end) = join!(
        async {
            sleep(SOON).await;
            namespace.delete::<SparkApplication>("pi").await;
        },
        applications.end(&first)
    );
    assert_eq!(end.unwrap(), End::Deleted);
    assert_eq!((next(&mut states).await, next(&mut by_name).await), (None, None));

    let second = applications.submit(&pi().named("pi")).await.unwrap();
    assert_eq!(applications.end(&first).await.unwrap(), End::Deleted);
    let mut states = applications.states("pi");
    assert_eq!(next(&mut states).await, Some(State::New));
    proxy.line_is(Line::Refused);
    namespace.delete::<SparkApplication>("pi").await;
    namespace.apply(&application("pi"));
    record(&namespace, failed(1)).await;
    proxy.line_is(Line::Up);
    assert_eq!(next(&mut states).await, None);
    assert_eq!(applications.end(&second).await.unwrap(), End::Deleted);
    assert!(matches!(applications.end("pi").await.unwrap(), End::Failed { .. }));
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_cut_or_expired_watch_is_resumed_and_a_forbidden_one_is_not() {
    let namespace = Namespace::new("client").await;
    let proxy = Proxy::start().await;
    let faults = Arc::new(Mutex::new(Vec::<Fault>::new()));
    proxy.guarded_by(watches_have(Arc::clone(&faults)));
    let applications = through(&proxy).await;
    let pi = applications.submit(&pi().named("pi")).await.unwrap();
    let mut states = applications.states(&pi);
    assert_eq!(next(&mut states).await, Some(State::New));
    faults.lock().unwrap().extend([
        Fault::Cut(Moment::After),
        Fault::Refused(StatusCode::GONE),
        Fault::Cut(Moment::Before),
        Fault::Refused(StatusCode::TOO_MANY_REQUESTS),
    ]);
    // After each fault the library reads the application again, and sees the next state.
    for state in [State::Submitted, State::Running, State::Failing, State::PendingRerun] {
        let (seen, ()) = join!(next(&mut states), record(&namespace, recorded(state)));
        assert_eq!(seen, Some(state));
    }
    assert_eq!(faults.lock().unwrap().len(), 0);

    // Of several states during an outage only the last is reported.
    let outage = async {
        sleep(SOON).await;
        proxy.line_is(Line::Refused);
        sleep(SOON).await;
        record(&namespace, recorded(State::Submitted)).await;
        record(&namespace, recorded(State::Running)).await;
        proxy.line_is(Line::Up);
    };
    let (seen, ()) = join!(next(&mut states), outage);
    assert_eq!(seen, Some(State::Running));

    faults.lock().unwrap().extend([Fault::Refused(StatusCode::FORBIDDEN)]);
    let mut changes = applications.changes(&pi);
    changes.try_next().await.unwrap();
    let error = changes.try_next().await.unwrap_err();
    assert!(matches!(&error, Error::Refused(status) if status.code == 403), "{error}");
    assert!(changes.try_next().await.unwrap().is_none());
}

/// The API server ends each watch after some time, and a connection can end without a message.
pub(crate) async fn goes_on_after_a_quiet_minute_and_a_lost_connection() {
    let namespace = Namespace::new("client").await;
    let proxy = Proxy::start().await;
    let applications = through(&proxy).await;
    let pi = applications.submit(&pi().named("pi")).await.unwrap();
    let mut states = applications.states(&pi);
    assert_eq!(next(&mut states).await, Some(State::New));
    let quiet = timeout(Duration::from_secs(70), states.try_next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    let (seen, ()) = join!(next(&mut states), record(&namespace, recorded(State::Running)));
    assert_eq!(seen, Some(State::Running));
    proxy.line_is(Line::Lost);
    record(&namespace, recorded(State::Completed)).await;
    sleep(SOON).await;
    proxy.line_is(Line::Up);
    let seen = timeout(Duration::from_secs(100), states.try_next()).await;
    assert_eq!(seen.unwrap().unwrap(), Some(State::Completed));
}

/// Returns a guard that gives each watch of applications the next of these faults.
fn watches_have(faults: Arc<Mutex<Vec<Fault>>>) -> Guard {
    Box::new(move |request| {
        let target = request.uri().to_string();
        let is_watch = target.contains("/sparkapplications?") && target.contains("watch=true");
        let mut faults = faults.lock().unwrap();
        if is_watch && !faults.is_empty() { vec![faults.remove(0)] } else { Vec::new() }
    })
}

async fn next<T>(changes: &mut Changes<T>) -> Option<T> {
    timeout(Duration::from_secs(30), changes.try_next()).await.expect("a change is reported").unwrap()
}

/// Writes a status of the application `pi`, as the operator would.
async fn record(namespace: &Namespace, status: Value) {
    namespace.patch_status::<SparkApplication>("pi", &status).await;
}

fn recorded(state: State) -> Value {
    json!({"applicationState": {"state": state}, "driverInfo": {}})
}

fn failed(generation: i64) -> Value {
    json!({
        "applicationState": {"state": "FAILED", "errorMessage": "out of luck"}, "driverInfo": {},
        "observedGeneration": generation,
    })
}

/// Returns the application of the README.
fn pi() -> Builder {
    Builder::scala("org.apache.spark.examples.SparkPi", "local:///opt/spark/examples/jars/spark-examples.jar")
        .spark("4.0.1", "docker.io/apache/spark:4.0.1")
        .arguments(["100"])
        .driver(1, "512m")
        .service_account("spark")
        .executors(1, 1, "512m")
}

async fn applications() -> Applications {
    Applications::new(Client::try_default().await.unwrap(), "client")
}

/// Returns a handle of the client library that sends all requests through `proxy`.
async fn through(proxy: &Proxy) -> Applications {
    let mut kubeconfig = Kubeconfig::read().unwrap();
    let cluster: Cluster = from_value(proxy.cluster()).unwrap();
    kubeconfig.clusters[0].cluster = Some(cluster);
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    eventually("the proxy listens", async || {
        client.apiserver_version().await.map_err(|error| error.to_string())
    })
    .await;
    Applications::new(client, "client")
}
