//! Proves that the operator works on a real node, on which Spark really runs. The operator is installed as a user would
//! install it, and does everything from its pod.

/// A real browser.
pub(crate) mod browser;
/// Strings with difficult characters.
mod characters;
/// The Helm chart, in the place of Kubeflow's.
mod chart;
/// A program that uses the client library.
mod client;
/// Servers of Spark Connect, and a client.
pub(crate) mod connect;
/// Everything that the webhook can do to pods.
mod customized;
/// The way from Kubeflow's operator to this one, back, and the uninstallation.
pub(crate) mod handover;
/// A foreign webhook that adds sidecars.
mod injector;
/// What can happen to an application, and how its status reports it.
pub(crate) mod lifecycle;
/// Metrics, read by a real Prometheus.
mod monitoring;
/// Drivers that the operator has created itself.
pub(crate) mod native;
/// The page, in a browser.
pub(crate) mod page;
/// A proxy between a browser and the cluster, which acts as an Ingress controller.
mod reverse_proxy;
/// Applications that are created on a schedule.
mod schedules;
/// The verbs of `sparkctl` that need pods.
pub(crate) mod sparkctl;
/// Applications that Spark's own client submits.
mod submission_pods;
/// The sums of requests, compared with the pods that a real Spark creates.
mod sums;
/// What an application must not reach: the operator's container, its files and its rights.
mod tenants;
/// Spark's own web UI.
mod ui;
/// A file store that speaks WebHDFS.
mod web_hdfs;

use self::sparkctl::sparkctl;
use crate::apiserver::prelude::*;
use std::{
    io::{BufRead, BufReader},
    sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// A job of these tests takes about 15 s; a job that takes longer than this counts as never ending.
const PATIENCE: &str = "240s";
/// The path in the API of the applications of these tests.
pub(crate) const APPLICATIONS: &str =
    "/apis/sparkoperator.k8s.io/v1beta2/namespaces/default/sparkapplications";

/// The path in the API of the operator's Deployment.
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/spark-operator/deployments/spark-operator";

/// Other tests create examples by `kubectl apply`.
#[test]
#[ignore = "needs a node: make test"]
fn the_example_runs_from_sparkctl_create_to_its_result() {
    let _shared = install();
    let file = "manifests/examples/spark-pi.yaml";
    // An earlier application of the same name, which is suspended.
    let mut before: Value = yaml(Path::new(file));
    before["spec"]["suspend"] = json!(true);
    apply(&before);
    let output = run(sparkctl_program(), &["create", "--delete", "--logs", file], "");
    let [said, complaint] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success() && complaint.contains("spark-pi is completed\n"), "{complaint}");
    let made = "SparkApplication \"spark-pi\" deleted\nSparkApplication \"spark-pi\" created\n";
    assert!(said.starts_with(made) && said.contains("Pi is roughly 3."), "{said}");
    assert_eq!(sparkctl(&["log", "spark-pi", "--tail", "2"], 0).lines().count(), 2);
    assert!(sparkctl(&["status", "spark-pi"], 0).starts_with("spark-pi is COMPLETED\n"));

    let status = &application("spark-pi")["status"];
    let counters = ["executionAttempts", "submissionAttempts", "runOrdinal", "observedGeneration"];
    assert_eq!(counters.map(|counter| &status[counter]), [1; 4], "{status:#}");
    assert_eq!(status["driverInfo"]["podName"], "spark-pi-driver");
    assert!(
        status["terminationTime"].is_string() && status["lastSubmissionAttemptTime"].is_string(),
        "{status:#}"
    );
    assert!(status["sparkApplicationId"].as_str().is_some_and(|id| id.starts_with("spark-")), "{status:#}");
    // The driver deletes its executors when it ends. On a busy node, an executor is killed before it has ended by
    // itself.
    let executors: Vec<_> = status["executorState"].as_object().unwrap().values().collect();
    assert!(executors == ["COMPLETED"] || executors == ["FAILED"], "{status:#}");
}

/// The lock of the installation: a reader uses the installation as it is; a writer changes the installation or the
/// node, or uses applications with the names of other tests' applications.
static INSTALLATION: RwLock<()> = RwLock::new(());

/// No test changes the installation while this value exists.
struct Shared {
    _installation: RwLockReadGuard<'static, ()>,
}

/// No other test runs while this value exists.
pub(crate) struct Alone {
    _installation: RwLockWriteGuard<'static, ()>,
}

/// Installs the operator, unless it is installed already.
fn install() -> Shared {
    assert!(!is_named_alone(), "a test whose name ends with _alone has to call install_alone");
    install_once();
    Shared { _installation: INSTALLATION.read().unwrap_or_else(PoisonError::into_inner) }
}

/// Installs the operator for a test that changes what other tests rely on, or that opens Spark's pages in a browser:
/// while two other tests and three builds ran, a request for a part of such a page failed through `sparkctl ui`.
pub(crate) fn install_alone() -> Alone {
    let is_of_this_level = thread::current().name().is_some_and(|name| name.starts_with("node::"));
    assert!(
        !is_of_this_level || is_named_alone(),
        "the name of a test that calls install_alone has to end with _alone"
    );
    install_once();
    Alone { _installation: INSTALLATION.write().unwrap_or_else(PoisonError::into_inner) }
}

/// Whether `tests/tools/node-level` runs this test in the cluster where one test runs after the other. The thread of a
/// test has its name.
fn is_named_alone() -> bool {
    thread::current().name().is_some_and(|name| name.ends_with("_alone"))
}

/// Installs the operator as docs/admin/install.md says.
fn install_once() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        kubectl(&["apply", "-k", "manifests"]);
        // As in docs/admin/install.md: after the rollout no application is refused.
        is_rolled_out();
    });
}

/// Waits until the operator runs as its Deployment specifies and the API server calls its webhook, whatever ran before:
/// pods without a webhook may still be terminating, or the webhook's configurations may be newer than the pods.
pub(crate) fn is_installed_again() {
    is_rolled_out();
    let mut example: Value = yaml(&data("node/exit-3.yaml"));
    // No test uses this name.
    example["metadata"]["name"] = json!("is-asked");
    until("the API server finds the webhook", || calls::tried(&example).is_ok());
}

/// Restores the installation when dropped, whatever a test has done to it.
pub(crate) struct Installed;

impl Installed {
    /// Adds these flags to the operator until the returned value is dropped.
    pub(crate) fn with(flags: &[&str]) -> Self {
        let add =
            |flag| json!({"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": flag});
        calls::patch(DEPLOYMENT, &flags.iter().map(add).collect::<Value>());
        is_rolled_out();
        Self
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        kubectl(&["apply", "-k", "manifests"]);
        is_installed_again();
    }
}

/// Waits until the operator runs as its Deployment specifies.
fn is_rolled_out() {
    kubectl(&["-n", "spark-operator", "rollout", "status", "deployment/spark-operator", "--timeout=120s"]);
}

/// Returns the names of the operator's pods that are not being deleted.
fn operator_pods() -> Vec<String> {
    let selector = "labelSelector=app.kubernetes.io/name=spark-operator";
    let pods = listed(&format!("/api/v1/namespaces/spark-operator/pods?{selector}"));
    let left = pods.iter().map(|pod| &pod["metadata"]).filter(|pod| pod["deletionTimestamp"].is_null());
    left.map(|pod| pod["name"].as_str().unwrap().to_owned()).collect()
}

/// Creates the ConfigMap `name` with the Python program in `file`. Several tests may do so at the same time.
fn make_job(name: &str, file: &str) {
    let file = Path::new(file);
    let program = fs::read_to_string(file).unwrap();
    let job = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {file.file_name().unwrap().to_str().unwrap(): program},
    });
    apply(&job);
}

/// Follows an application until it ends. Returns every state that the application was in.
fn followed(name: &str) -> Vec<String> {
    let state = "jsonpath={.status.applicationState.state}{\"\\n\"}";
    let watch = Command::new("kubectl")
        .args(["get", "sparkapp", name, "--watch", "-o", state, "--request-timeout", PATIENCE])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl is on the PATH of `tests/tools/cluster/cluster exec`");
    let mut watch = EndedOnDrop(watch);
    let lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let mut states: Vec<String> = Vec::new();
    for state in lines.map(Result::unwrap).filter(|state| !state.is_empty()) {
        if states.last() != Some(&state) {
            states.push(state);
        }
        if matches!(states.last().map(String::as_str), Some("COMPLETED" | "FAILED")) {
            return states;
        }
    }
    let described = kubectl(&["describe", "sparkapp", name]);
    let pods = kubectl(&["describe", "pods", "-l", &format!("sparkoperator.k8s.io/app-name={name}")]);
    let replicas = ["--selector=app.kubernetes.io/name=spark-operator", "--prefix", "--tail=-1"];
    let operator = kubectl(&[&["-n", "spark-operator", "logs"], &replicas[..]].concat());
    panic!("{name} was in {states:?} after {PATIENCE}\n{described}\n{pods}\n{operator}");
}

/// Waits until the application `name` is in `state`.
pub(crate) fn state_is(name: &str, state: &str) {
    let is_in_it = || application(name)["status"]["applicationState"]["state"] == state;
    until(&format!("{name} is {state}"), is_in_it);
}

/// Waits until `holds` returns true.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(240);
    while !holds() {
        let there = || kubectl(&["describe", "sparkapp,scheduledsparkapp", "--all-namespaces"]);
        assert!(Instant::now() < deadline, "not true: {what}\n{}", there());
        thread::sleep(Duration::from_millis(500));
    }
}

/// Waits until an event of `regarding`, a kind and a name, has all of `texts` in its type, reason and message. Events
/// are sent independently of the statuses for which tests wait.
fn until_event(regarding: &str, texts: &[&str]) {
    let (kind, name) = regarding.split_once('/').unwrap();
    let path = format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name}");
    until(&format!("an event of {regarding} has {texts:?}"), || {
        listed(&path).iter().any(|event| {
            let fields = ["type", "reason", "message"].map(|field| event[field].as_str().unwrap_or_default());
            let is_of_kind = event["involvedObject"]["kind"].as_str().unwrap().eq_ignore_ascii_case(kind);
            is_of_kind && texts.iter().all(|text| fields.join(" ").contains(text))
        })
    });
}

/// Returns a path among the files that tests leave for people to look at.
pub(crate) fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

// What tests write, and what they read again and again, goes without `kubectl`, a call of which takes as much CPU time
// as some seconds of a driver.

/// Applies an object, which is in the namespace `default` unless it names another one.
pub(crate) fn apply(object: &Value) {
    calls::apply(object, Some(object["metadata"]["namespace"].as_str().unwrap_or("default")));
}

/// Deletes the application `name`, and waits until it is gone.
pub(crate) fn delete(name: &str) {
    calls::delete(&format!("{APPLICATIONS}/{name}"));
}

/// Returns an application of the namespace `default`, or of the namespace before a slash.
pub(crate) fn application(name: &str) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let path = format!("/apis/sparkoperator.k8s.io/v1beta2/namespaces/{namespace}/sparkapplications/{name}");
    calls::get(&path).expect(name)
}

/// Returns the reason why the application is in its state.
fn message(name: &str) -> String {
    let message = application(name)["status"]["applicationState"]["errorMessage"].take();
    message.as_str().unwrap_or_default().to_owned()
}

/// Returns the pods of `role` of the application: `driver`, `executor` or `submission`.
fn pods(application: &str, role: &str) -> Vec<Value> {
    let selector = format!("sparkoperator.k8s.io/app-name={application},spark-role={role}");
    listed(&format!("/api/v1/namespaces/default/pods?labelSelector={selector}"))
}

/// Returns the names of the pods, Services and ConfigMaps of an application.
fn left_of(application: &str) -> Vec<String> {
    let selector = format!("labelSelector=sparkoperator.k8s.io/app-name={application}");
    let of = |kind: &str| listed(&format!("/api/v1/namespaces/default/{kind}?{selector}"));
    let objects = ["pods", "services", "configmaps"].into_iter().flat_map(of);
    objects.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the objects of a list.
pub(crate) fn listed(path: &str) -> Vec<Value> {
    calls::get(path).expect(path)["items"].as_array().unwrap().clone()
}

/// Returns the node's address, at which pods reach the servers of tests.
pub(crate) fn node_address() -> String {
    let path = r#"--output=jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}"#;
    kubectl(&["get", "nodes", path])
}

/// Returns the only pod of `role` of the application.
fn pod(application: &str, role: &str) -> Value {
    let pods = pods(application, role);
    let [pod] = &pods[..] else { panic!("not one {role} of {application}: {pods:#?}") };
    pod.clone()
}

/// Returns the text that the driver has printed after `beginning`, on the only line that begins with it.
fn printed(driver: &str, beginning: &str) -> String {
    let log = log(driver);
    let found: Vec<_> = log.lines().filter_map(|line| line.strip_prefix(beginning)).collect();
    let [line] = found[..] else { panic!("not one line begins with `{beginning}` in\n{log}") };
    line.to_owned()
}

pub(crate) fn log(driver: &str) -> String {
    calls::text_at(&format!("/api/v1/namespaces/default/pods/{driver}/log?container=spark-kubernetes-driver"))
}
