//! Runs the controller in the test's process, with a client that panics on requests about certain objects; proves that
//! the panics affect only these objects.

use super::rights::no_other_installation;
use crate::apiserver::prelude::*;
use axum::http::Request;
use controller::{
    self, ApplicationMetrics, ScheduleMetrics, Setup, SubmissionEnvironment, SubmissionMetrics, Watching,
    Workloads,
};
use jiff::tz::TimeZone;
use kube::client::Body;
use plan::namespaces::Namespaces;
use prometheus_client::registry::Registry;
use spark_operator::metrics;
use watches::Watches;

/// Requests with one of these texts in their path, or in the body of a creation, panic: the lookup of a driver, the
/// status of a schedule, the objects of a submission, and the Service of a web UI.
const BUGS: [&str; 4] = [
    "/pods/looked-at-driver",
    "/scheduledsparkapplications/nightly-bug/status",
    "submitted-bug",
    "beside-bug-ui-svc",
];

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_panic_is_reported_on_its_object_and_other_objects_are_served() {
    let namespace = Namespace::new("panics").await;
    let _no_webhook = no_other_installation();
    let mut registry = Registry::default();
    let stop = CancellationToken::new();
    let setup = setup(buggy().await, namespace.name, &mut registry);
    let running = controller::run(setup, || {}, stop.clone());
    let running = AbortOnDropHandle::new(tokio::spawn(running));

    for name in ["looked-at", "beside-bug"] {
        namespace.apply(&application(name));
    }
    let mut submitted = application("submitted");
    submitted["spec"]["sparkConf"] = json!({"spark.x": "submitted-bug"});
    namespace.apply(&submitted);
    for name in ["nightly-bug", "nightly"] {
        namespace.apply(&scheduled(name, "@yearly", &application(name)));
    }

    for (name, reason) in [
        ("looked-at", "OperatorBug"),
        ("nightly-bug", "OperatorBug"),
        ("submitted", "SparkApplicationSubmissionFailed"),
        ("beside-bug", "SparkApplicationAuxiliaryFailed"),
    ] {
        let words = "a bug of the operator: as the test wants it";
        let is_it = |event: &Value| {
            event["regarding"]["name"] == name
                && event["note"].as_str().is_some_and(|note| note.contains(words))
        };
        namespace.has_event(reason, is_it).await;
    }
    eventually("reconciles that panicked are counted and retried", async || {
        let text = metrics::text(&registry);
        let count = |controller: &str| {
            let name = format!("controller_runtime_reconcile_panics_total{{controller=\"{controller}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok()).unwrap_or_default()
        };
        seen(
            ["sparkapplication", "scheduledsparkapplication"].map(count).iter().all(|count| *count > 1),
            text,
        )
    })
    .await;

    namespace.apply(&application("served"));
    namespace.reaches("served", "SUBMITTED").await;
    namespace.reaches("beside-bug", "SUBMITTED").await;
    let is_known = |schedule: &Value| schedule["status"]["nextRun"].is_string();
    namespace.until::<ScheduledSparkApplication>("nightly", "has a next run", is_known).await;
    namespace.there::<Service>("served-ui-svc").await;
    stop.cancel();
    running.await.unwrap();
}

fn setup(client: Client, namespace: &str, registry: &mut Registry) -> Setup {
    let mut policy = Policy::new("k8s://https://kubernetes.default.svc");
    policy.submission.has_webhook = false;
    Setup {
        client: client.clone(),
        policy,
        schedule_policy: schedules::Policy {
            precision: schedules::Precision::default(),
            shortest_period: Duration::ZERO,
            zone: TimeZone::UTC,
        },
        connect: None,
        max_submissions: 4,
        submission_environment: SubmissionEnvironment::of_process(None),
        application_metrics: ApplicationMetrics::new(Default::default()),
        submission_metrics: SubmissionMetrics::new(registry),
        schedule_metrics: ScheduleMetrics::new(registry),
        watching: Watching::new(
            client.clone(),
            Namespaces::new([namespace.to_owned()], None),
            60,
            Watches::default(),
            registry,
        ),
        server_time: Arc::new(|| None),
        workloads: Workloads::new(registry, 4),
        instance: "test".to_owned(),
    }
}

/// Returns a client that panics on the requests in [`BUGS`].
async fn buggy() -> Client {
    let client = Client::try_default().await.unwrap();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let text = String::from_utf8_lossy(&body);
            // The creation of an event about such an object does not panic, because the test waits for these events.
            let creates = head.method == "POST" && !head.uri.path().ends_with("/events");
            let is_buggy = |bug: &&str| head.uri.path().contains(*bug) || creates && text.contains(*bug);
            assert!(!BUGS.iter().any(is_buggy), "as the test wants it");
            client.send(Request::from_parts(head, Body::from(body))).await
        }
    });
    Client::new(service, "default")
}
