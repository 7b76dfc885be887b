//! Measures how many applications are submitted per minute, and how long an application waits for its driver.
//!
//! Three clients create the same objects for the same applications: a bare client, which makes the same writes and does
//! nothing else (the limit); the operator; and `spark-submit` in submission pods, of which this machine runs only a few
//! at once.

use super::{Results, Usage, milliseconds};
use crate::{
    apiserver::{
        gangs::{self, VOLCANO_RBAC, group_definitions},
        operator::METRICS,
        prelude::*,
    },
    choice::chosen,
};
use k8s_openapi::api::events::v1::Event;
use kube::runtime::watcher::{self, Event as Change, watcher};
use plan::By;
use submission::{Settings, objects};
use tokio::task::JoinHandle;

/// The number of concurrent requests of the client that creates the applications.
const AT_ONCE: usize = 32;
/// The number of applications that are created one after the other, each when the one before it is submitted.
const IDLE: usize = 50;
/// The submitter in the keys of applications that are submitted natively, each with a PodGroup of Volcano.
const IN_GROUPS: &str = "volcano";
/// Writes per application: two ConfigMaps, a Service, a Pod, a status and two events.
const WRITES: f64 = 7.0;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: make bench"]
async fn submissions() {
    let mut results = Results::default();
    for count in [200, 2_000, 6_000] {
        bare(&mut results, count).await;
        by_operator(&mut results, "native", count).await;
    }
    by_operator(&mut results, IN_GROUPS, 2_000).await;
    by_operator(&mut results, "spark_submit", 20).await;
    idle(&mut results).await;
    results.finish();
}

/// Measures the time from an application to the planned objects and to the request that creates them.
#[test]
#[ignore = "measures: make bench"]
fn planning() {
    let mut results = Results::default();
    let applications: Vec<SparkApplication> = ["app", "typical"]
        .iter()
        .zip([application("app"), typical()])
        .map(|(uid, mut made)| {
            made["metadata"]["uid"] = json!(uid);
            made["metadata"]["namespace"] = json!("default");
            serde_json::from_value(made).unwrap()
        })
        .collect();
    let policy = Policy::new("k8s://https://10.96.0.1:443");
    for (what, application) in ["least", "typical"].iter().zip(&applications) {
        let plan = || {
            let begun = Instant::now();
            assert!(matches!(chosen(application, &policy).request.by, By::Native(_)));
            begun.elapsed()
        };
        let mut all: Vec<_> = (0..5_000).map(|_| plan()).collect();
        all.sort_unstable();
        results.put(&format!("submission.native.planning_us.{what}"), percentile(&all, 50) * 1e3);
    }
    results.finish();
}

/// Returns an application with settings that users often have.
fn typical() -> Value {
    let mut made = application("typical");
    json_patch::merge(&mut made["spec"], &yaml(&data("bench/usual-spec.yaml")));
    made
}

/// Measures a client that sends the same writes as the operator and does nothing else.
async fn bare(results: &mut Results, count: usize) {
    let namespace = Namespace::new("bench-limit").await;
    let seen = Seen::watch(&namespace).await;
    let begun = Instant::now();
    let all = stream::iter(0..count).map(|i| write_all(&namespace, &seen, i));
    all.buffer_unordered(AT_ONCE).collect::<()>().await;
    seen.submitted(count).await;
    put(results, "limit", count, &seen.measured(begun));
    results.put(&format!("submission.limit.writes_per_app.{count}"), WRITES);
    clear(&namespace).await;
}

/// Writes what the operator writes for one application: its objects, its status and two events.
async fn write_all(namespace: &Namespace, seen: &Seen, i: usize) {
    let name = format!("app-{i}");
    seen.creates(&name);
    let made = namespace.create::<SparkApplication>(&application(&name)).await;
    let typed: SparkApplication = serde_json::from_value(made.clone()).unwrap();
    let run = Run::next(&typed);
    let settings = Settings::new("k8s://https://10.96.0.1:443");
    let planned = objects(
        &validate(&typed).unwrap(),
        &run,
        &settings,
        &SubmissionEnvironment::default(),
        Timestamp::UNIX_EPOCH,
    );
    let (Objects { mut pod, children }, _) = planned.unwrap();
    // Without its annotations the API server does not send the pod to a webhook.
    pod["metadata"]["annotations"].take();
    event(namespace, &made, "SparkApplicationAdded").await;
    for child in &children {
        match child["kind"].as_str().unwrap() {
            "Service" => drop(namespace.create::<Service>(child).await),
            _ => drop(namespace.create::<ConfigMap>(child).await),
        }
    }
    namespace.create::<Pod>(&pod).await;
    let status = json!({"applicationState": {"state": "SUBMITTED"}, "driverInfo": {"podName": format!("{name}-driver")}, "submissionID": run.id.as_str()});
    namespace.patch_status::<SparkApplication>(&name, &status).await;
    event(namespace, &made, "SparkApplicationSubmitted").await;
}

async fn event(namespace: &Namespace, application: &Value, reason: &str) {
    let name = application["metadata"]["name"].as_str().unwrap();
    let owner = &owned_by(application)[0];
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{}", reason.to_lowercase())},
        "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": reason, "action": "Submit",
        "note": format!("SparkApplication {name} was submitted"), "reportingController": "bench",
        "reportingInstance": "bench",
        "regarding": {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name, "uid": owner["uid"], "namespace": namespace.name},
    });
    namespace.create::<Event>(&event).await;
}

async fn by_operator(results: &mut Results, submitter: &'static str, count: usize) {
    let namespace = Namespace::new("bench-submission").await;
    let _node = match submitter {
        "spark_submit" => Some(SubmissionNode::of(&namespace, spark_home()).start().await),
        _ => None,
    };
    let in_groups = submitter == IN_GROUPS;
    let _gangs = in_groups.then(|| (granted(VOLCANO_RBAC), group_definitions()));
    let by = if in_groups { "native" } else { submitter };
    let setup = Operator::with(&namespace)
        .env("SPARK_OPERATOR_SUBMITTER", &by.replace('_', "-"))
        // The bare client creates no UI Services. The operator creates them after SUBMITTED, at two more writes for
        // each.
        .argument("--enable-ui-service=false")
        .env("RUST_LOG", "info");
    let setup = if in_groups { setup.argument(gangs::ENABLED) } else { setup };
    let operator = setup.start().await;
    let usage = Usage::of(operator.id());
    let seen = Seen::watch(&namespace).await;
    let (writes, cpu) = (requests(&operator).await, usage.cpu());
    let begun = Instant::now();
    let all = stream::iter(0..count).map(|i| {
        let (name, namespace, seen) = (format!("app-{i}"), &namespace, &seen);
        async move {
            seen.creates(&name);
            let mut application = application(&name);
            if in_groups {
                application["spec"]["batchScheduler"] = json!(IN_GROUPS);
            }
            namespace.create::<SparkApplication>(&application).await;
        }
    });
    all.buffer_unordered(AT_ONCE).collect::<()>().await;
    seen.submitted(count).await;
    let measured = seen.measured(begun);
    put(results, submitter, count, &measured);
    // Events are written after the status that they describe.
    operator.has_looked_at(count).await;
    let each = count as f64;
    let after = requests(&operator).await;
    for (verb, made) in &after {
        let made = made - writes.get(verb).copied().unwrap_or_default();
        let verb = verb.to_lowercase();
        results.put(&format!("submission.{submitter}.{verb}_per_app.{count}"), made / each);
    }
    let written = |all: &HashMap<String, f64>| -> f64 {
        all.iter().filter(|(verb, _)| *verb != "GET").map(|(_, made)| made).sum()
    };
    let writes = (written(&after) - written(&writes)) / each;
    results.put(&format!("submission.{submitter}.writes_per_app.{count}"), writes);
    let cpu = (usage.cpu() - cpu).as_secs_f64() / each;
    results.put(&format!("submission.{submitter}.cpu_s_per_app.{count}"), cpu);
    let rss = usage.rss_mib();
    results.put(&format!("submission.{submitter}.rss_mib.{count}"), rss);
    operator.stop().await;
    clear(&namespace).await;
}

/// Submits one application after the other with an operator that has nothing else to do.
async fn idle(results: &mut Results) {
    let namespace = Namespace::new("bench-idle").await;
    let operator = Operator::with(&namespace).env("RUST_LOG", "info").start().await;
    let seen = Seen::watch(&namespace).await;
    let begun = Instant::now();
    for i in 0..IDLE {
        let name = format!("app-{i}");
        seen.creates(&name);
        namespace.create::<SparkApplication>(&application(&name)).await;
        seen.submitted(i + 1).await;
        sleep(Duration::from_millis(50)).await;
    }
    let p50 = percentile(&seen.measured(begun).to_pod, 50);
    results.put("submission.native.create_to_pod_p50_ms.idle", p50);
    operator.stop().await;
    clear(&namespace).await;
}

fn put(results: &mut Results, who: &str, count: usize, measured: &Measured) {
    let mut put =
        |measure: &str, value: f64| results.put(&format!("submission.{who}.{measure}.{count}"), value);
    put("per_minute", count as f64 * 60.0 / measured.all.as_secs_f64());
    put("create_to_pod_p50_ms", percentile(&measured.to_pod, 50));
    put("create_to_pod_p99_ms", percentile(&measured.to_pod, 99));
    put("create_to_status_p50_ms", percentile(&measured.to_status, 50));
    put("create_to_status_p99_ms", percentile(&measured.to_status, 99));
}

/// Returns the percentile in milliseconds.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    milliseconds(sorted[(sorted.len() - 1) * percent / 100])
}

/// Returns the number of requests that the operator has made so far, by HTTP method.
async fn requests(operator: &Operator) -> HashMap<String, f64> {
    let mut requests = HashMap::new();
    let (_, text) = operator.get(METRICS, "/metrics").await.unwrap();
    for line in text.lines().filter(|line| line.starts_with("rest_client_requests_total{")) {
        let method = line.split("method=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        let count: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        *requests.entry(method.to_owned()).or_default() += count;
    }
    requests
}

async fn clear(namespace: &Namespace) {
    namespace.clear::<SparkApplication>().await;
    namespace.clear::<ConfigMap>().await;
    namespace.clear::<Event>().await;
    namespace.clear::<Service>().await;
    namespace.clear::<Pod>().await;
}

/// The times at which two watches, of pods and of applications, reported each change.
struct Seen {
    times: Arc<Mutex<HashMap<String, Times>>>,
    watches: [JoinHandle<()>; 2],
}

#[derive(Clone, Copy, Default)]
struct Times {
    created: Option<Instant>,
    pod: Option<Instant>,
    submitted: Option<Instant>,
}

struct Measured {
    /// The time from the first creation to the last SUBMITTED.
    all: Duration,
    to_pod: Vec<Duration>,
    to_status: Vec<Duration>,
}

impl Seen {
    async fn watch(namespace: &Namespace) -> Self {
        let times = Arc::<Mutex<HashMap<String, Times>>>::default();
        let pods = follow::<Pod>(namespace, &times, |pod, times| {
            if let Some(name) = pod.name_any().strip_suffix("-driver") {
                times.entry(name.to_owned()).or_default().pod.get_or_insert_with(Instant::now);
            }
        });
        let applications = follow::<SparkApplication>(namespace, &times, |application, times| {
            if application.data["status"]["applicationState"]["state"] == "SUBMITTED" {
                let times = times.entry(application.name_any()).or_default();
                times.submitted.get_or_insert_with(Instant::now);
            }
        });
        // After this time both watches have listed.
        sleep(Duration::from_millis(500)).await;
        Self { times, watches: [pods, applications] }
    }

    fn creates(&self, name: &str) {
        self.times.lock().unwrap().entry(name.to_owned()).or_default().created = Some(Instant::now());
    }

    /// Waits until `count` applications are SUBMITTED.
    async fn submitted(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(900);
        loop {
            let submitted =
                self.times.lock().unwrap().values().filter(|times| times.submitted.is_some()).count();
            if submitted >= count {
                return;
            }
            assert!(Instant::now() < deadline, "{submitted} of {count} are SUBMITTED");
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn measured(&self, begun: Instant) -> Measured {
        let times = self.times.lock().unwrap();
        let since = |end: fn(&Times) -> Option<Instant>| {
            let mut since: Vec<_> =
                times.values().map(|times| end(times).unwrap() - times.created.unwrap()).collect();
            since.sort_unstable();
            since
        };
        let last = times.values().filter_map(|times| times.submitted).max().unwrap();
        Measured {
            all: last - begun,
            to_pod: since(|times| times.pod),
            to_status: since(|times| times.submitted),
        }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

/// Calls `note` for every object of a kind that is created or changed.
fn follow<K: Ours>(
    namespace: &Namespace,
    times: &Arc<Mutex<HashMap<String, Times>>>,
    note: fn(&DynamicObject, &mut HashMap<String, Times>),
) -> JoinHandle<()> {
    let times = Arc::clone(times);
    let changes = watcher(namespace.api::<K>(), watcher::Config::default());
    tokio::spawn(changes.for_each(move |change| {
        if let Change::Apply(object) = change.unwrap() {
            note(&object, &mut times.lock().unwrap());
        }
        std::future::ready(())
    }))
}
