//! Proves that exactly one application is created at an API server for each due time of a schedule. The decisions are
//! tested by `tests/data/schedules` and `tests/exploration`.

use crate::apiserver::prelude::*;
use jiff::{RoundMode, ToSpan, Unit, ZonedRound, tz::TimeZone};

/// The period of most schedules in seconds: long enough for an application to be created and seen.
const PERIOD: i64 = 2;
const STARTED: &str = "spark_operator_scheduled_runs_started_total";

/// An application of another owner has the name of the first application of the schedule `taken`.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn each_due_time_gets_an_application_and_old_ones_are_pruned() {
    let namespace = Namespace::new("schedules").await;
    let operator = Operator::start(&namespace).await;
    // Long enough to check the results of one due time before the next.
    let period = 6.seconds();
    namespace.apply(&schedule("taken", &json!({"schedule": "@every 6s"})));
    let made = namespace.get::<ScheduledSparkApplication>("taken").await.unwrap();
    let foreign_slot = created(&made).checked_add(period).unwrap();
    let foreign = format!("taken-{}", foreign_slot.as_nanosecond());
    let foreign = namespace.create::<SparkApplication>(&hopeless(&foreign)).await;
    let mut wanted = schedule("often", &json!({"schedule": "@every 6s", "successfulRunHistoryLimit": 1}));
    wanted["metadata"]["labels"] = json!({"team": "data"});
    namespace.apply(&wanted);
    status_has(&namespace, "taken", &json!({"handledUntil": foreign_slot.to_string(), "lastRunName": null}))
        .await;
    let there = namespace.application(name(&foreign)).await;
    assert_eq!(there["metadata"]["uid"], foreign["metadata"]["uid"]);
    is_reported(&namespace, "taken", "ScheduledRunSkipped").await;
    let first = nth_run(&namespace, "often", 1).await;

    let made = namespace.get::<ScheduledSparkApplication>("often").await.unwrap();
    let slot = created(&made).checked_add(period).unwrap();
    let metadata = &first["metadata"];
    assert_eq!(metadata["name"], format!("often-{}", slot.as_nanosecond()));
    assert_eq!(
        metadata["labels"],
        json!({"sparkoperator.k8s.io/scheduled-app-name": "often", "team": "data"})
    );
    assert_eq!(metadata["annotations"], json!({"sparkoperator.k8s.io/scheduled-time": slot.to_string()}));
    assert_eq!(
        metadata["ownerReferences"],
        json!([{
            "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "ScheduledSparkApplication",
            "name": "often", "uid": made["metadata"]["uid"], "blockOwnerDeletion": true,
        }])
    );
    assert_eq!(first["spec"]["mainClass"], wanted["spec"]["template"]["mainClass"]);
    let next = slot.checked_add(period).unwrap();
    let recorded = json!({
        "lastRunName": name(&first), "scheduleState": "Scheduled", "handledUntil": slot.to_string(), "nextRun": next.to_string(),
    });
    let status = status_has(&namespace, "often", &recorded).await;
    assert!((slot..next).contains(&time(&status["lastRun"])), "{status}");

    // The next due time of `taken` has an application of its own.
    let other = nth_run(&namespace, "taken", 1).await;
    assert!(slot_of(&other) > foreign_slot, "{other}");
    let second = nth_run(&namespace, "often", 2).await;
    for (schedule, last) in [("taken", &other), ("often", &second)] {
        status_has(&namespace, schedule, &json!({"lastRunName": name(last)})).await;
        suspend(&namespace, schedule);
    }
    assert_eq!(runs(&namespace, "taken").await.len(), 1);
    for run in [&first, &second] {
        completes(&namespace, name(run)).await;
    }
    // The first application is pruned. The schedule is suspended, so it has no next run.
    let pruned = json!({"pastSuccessfulRunNames": [name(&second)], "nextRun": null});
    status_has(&namespace, "often", &pruned).await;
    namespace.is_gone::<SparkApplication>(name(&first)).await;
    for reason in ["ScheduledRunStarted", "ScheduledRunsPruned"] {
        is_reported(&namespace, "often", reason).await;
    }
    has_started(&operator, 3.0).await;
    assert_eq!(operator.metric("spark_operator_scheduled_run_lag_seconds_count").await, Ok(3.0));
}

/// An earlier version listed the namespace's pods at each due time of a `Forbid` schedule, and thousands may be due in
/// one minute. The name of this schedule is one letter too long for names of runs with nanoseconds.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_forbid_schedule_lists_pods_once_and_a_crash_loses_no_run() {
    let namespace = Namespace::new("schedule-lists").await;
    let proxy = Proxy::start().await;
    let reviewed = reviewed();
    let setup = || {
        let setup = Operator::with(&namespace).through(&proxy);
        setup.argument("--scheduled-spark-application-timestamp-precision=seconds")
    };
    let operator = setup().start().await;
    let alone = "a".repeat(44);
    // A user has copied a run with its label, and the copy does not end: it does not count as a run of the schedule.
    let mut copy = application("copy");
    copy["metadata"]["labels"] = json!({"sparkoperator.k8s.io/scheduled-app-name": alone});
    namespace.apply(&copy);
    namespace.reaches("copy", "SUBMITTED").await;
    namespace
        .apply(&schedule(&alone, &json!({"concurrencyPolicy": "Forbid", "successfulRunHistoryLimit": 1})));
    let mut last = String::new();
    for _ in 0..3 {
        let begun = |it: &Value| it["status"]["lastRunName"].as_str().is_some_and(|name| name != last);
        let it = namespace.until::<ScheduledSparkApplication>(&alone, "has started another run", begun).await;
        it["status"]["lastRunName"].as_str().unwrap().clone_into(&mut last);
        let slot = slot_of(&namespace.application(&last).await).as_second();
        assert_eq!(last, format!("{alone}-{slot}"));
        completes(&namespace, &last).await;
    }
    let requests = proxy.requests();
    let of_pods = requests.iter().filter(|(_, uri)| uri.path().ends_with("/schedule-lists/pods"));
    assert_eq!(of_pods.filter(|(method, _)| *method == Method::GET).count(), 1);
    suspend(&namespace, &alone);
    // While no operator runs, the API server would call a webhook that does not answer.
    drop(reviewed);
    let unrecorded = namespace.beside("schedule-unrecorded").await;
    after_a_crash_a_run_is_recorded_and_pruned_and_a_missed_one_is_started(
        &unrecorded,
        &proxy,
        operator,
        setup(),
    )
    .await;
}

/// Needs an operator behind this proxy, and the settings of the next one.
async fn after_a_crash_a_run_is_recorded_and_pruned_and_a_missed_one_is_started(
    namespace: &Namespace,
    proxy: &Proxy,
    operator: Operator,
    next: Setup<'_>,
) {
    namespace.apply(&schedule("yearly", &json!({"schedule": "@yearly", "successfulRunHistoryLimit": 0})));
    status_has(namespace, "yearly", &json!({"scheduleState": "Scheduled"})).await;
    let write = Call { method: "PATCH", path: "/scheduledsparkapplications/yearly/status" };
    namespace.apply(&schedule("often", &json!({})));
    nth_run(namespace, "often", 1).await;
    let has_run = |often: &Value| !often["status"]["lastRun"].is_null();
    namespace.until::<ScheduledSparkApplication>("often", "has recorded a run", has_run).await;
    let trap = proxy.hold(write, Moment::Before);
    let trigger = json!({"metadata": {"annotations": {"sparkoperator.k8s.io/trigger": "now"}}});
    namespace.merge::<ScheduledSparkApplication>("yearly", &trigger);
    let held = trap.caught().await;
    let only = nth_run(namespace, "yearly", 1).await;
    operator.kill();
    held.close();
    let ended = json!({"applicationState": {"state": "COMPLETED"}, "driverInfo": {}});
    namespace.patch_status::<SparkApplication>(name(&only), &ended).await;
    let before = runs(namespace, "often").await.len();
    sleep(Duration::from_secs(3 * PERIOD.unsigned_abs())).await;

    let operator = next.start().await;
    status_has(namespace, "yearly", &json!({"lastTrigger": "now"})).await;
    eventually("the run is pruned", async || {
        let runs = runs(namespace, "yearly").await;
        seen(runs.is_empty(), runs.iter().map(name).collect::<Vec<_>>())
    })
    .await;
    eventually("slots were missed, and a run was started for one of them", async || {
        let missed = operator.metric("spark_operator_scheduled_runs_missed_total").await?;
        let made_up = runs(namespace, "often").await.len() > before;
        seen(missed >= 1.0 && made_up, (missed, made_up))
    })
    .await;
    is_reported(namespace, "often", "ScheduledRunsMissed").await;
}

/// Creates `many` schedules, with these fields in their specs, that are due at the same time. Returns the delay
/// with which each application was created.
pub(crate) async fn crowd(namespace: &'static str, many: usize, spec: &Value) -> Vec<SignedDuration> {
    /// The number of requests that the test sends at once.
    const AT_ONCE: usize = 32;
    let namespace = Namespace::new(namespace).await;
    let operator = Operator::start(&namespace).await;
    let clock = async || {
        let moment = json!({"metadata": {"generateName": "moment-"}});
        created(&namespace.create::<ConfigMap>(&moment).await)
    };
    // The first full minute after all schedules have been created, which may take ten times the usual duration.
    let seconds = 20 + i64::try_from(many / 30).unwrap();
    let earliest = clock().await.checked_add(seconds.seconds()).unwrap().to_zoned(TimeZone::UTC);
    let up = ZonedRound::new().smallest(Unit::Minute).mode(RoundMode::Ceil);
    let slot = earliest.round(up).unwrap();
    let mut due = json!({"schedule": slot.strftime("%M %H * * *").to_string(), "timeZone": "UTC"});
    json_patch::merge(&mut due, spec);
    let (crowd, due) = (&namespace, &due);
    let made = stream::iter(0..many).map(|i| async move {
        let wanted = schedule(&format!("crowd-{i}"), due);
        crowd.create::<ScheduledSparkApplication>(&wanted).await
    });
    made.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
    assert_eq!(operator.metric(STARTED).await, Ok(0.0), "none is due yet");
    // If the watch reports a change late, there is one more reconcile: 76 of 4,000 were measured.
    let is_idle_after = async |times: usize| {
        eventually(&format!("each is reconciled {times} times, and the operator is idle"), async || {
            let before = reconciles(&operator).await;
            sleep(Duration::from_secs(2)).await;
            let now = reconciles(&operator).await;
            seen(now == before && (times * many..=times * many + many / 4).contains(&now), now)
        })
        .await;
    };
    // A schedule is reconciled when it is created, and when its status is written.
    is_idle_after(2).await;
    sleep(Duration::try_from(slot.timestamp().duration_since(clock().await)).unwrap_or_default()).await;
    has_started(&operator, many as f64).await;

    let runs = namespace.list::<SparkApplication>().await;
    let names: BTreeSet<_> = runs.iter().map(name).collect();
    assert_eq!(names.len(), many);
    // Further reconciles: when the schedule was due, and one for both its new application and its written status.
    is_idle_after(4).await;
    operator.stop().await;
    // The objects must not affect the next measurement in this cluster.
    namespace.clear::<Service>().await;
    namespace.clear::<ConfigMap>().await;
    runs.iter().map(|run| created(run).duration_since(slot_of(run))).collect()
}

/// Waits until the metric of started runs is `count`. The operator counts a start when the status records it.
async fn has_started(operator: &Operator, count: f64) {
    operator.measures(STARTED, |started| started == count).await;
}

/// Returns the number of reconciles of schedules; failed ones, which are retried, are not counted.
async fn reconciles(operator: &Operator) -> usize {
    let mut sum = 0.0;
    for result in ["success", "requeue_after"] {
        let labels = format!("{{controller=\"scheduledsparkapplication\",result=\"{result}\"}}");
        sum += operator.metric(&format!("controller_runtime_reconcile_total{labels}")).await.unwrap();
    }
    sum as usize
}

/// Returns the smallest schedule with this name, with these fields in its spec.
fn schedule(name: &str, spec: &Value) -> Value {
    let mut smallest = application(name);
    // A driver that does not exist is not waited for.
    smallest["spec"]["restartPolicy"] = json!({"type": "Never"});
    let mut schedule = scheduled(name, &format!("@every {PERIOD}s"), &smallest);
    json_patch::merge(&mut schedule["spec"], spec);
    schedule
}

/// Returns the applications of a schedule, oldest first.
async fn runs(namespace: &Namespace, schedule: &str) -> Vec<Value> {
    let mut runs = namespace.list::<SparkApplication>().await;
    runs.retain(|run| run["metadata"]["ownerReferences"][0]["name"] == schedule);
    runs.sort_by_key(created);
    runs
}

/// Waits until the schedule has `count` applications, and returns the last of them.
async fn nth_run(namespace: &Namespace, schedule: &str, count: usize) -> Value {
    eventually(&format!("{schedule} has created {count}"), async || {
        let mut runs = runs(namespace, schedule).await;
        if runs.len() < count { Err(format!("{} runs", runs.len())) } else { Ok(runs.swap_remove(count - 1)) }
    })
    .await
}

/// Waits until the status of a schedule has all that `expected` has, and returns the status.
async fn status_has(namespace: &Namespace, schedule: &str, expected: &Value) -> Value {
    let expected = json!({"status": expected});
    namespace.has::<ScheduledSparkApplication>(schedule, &expected).await["status"].take()
}

/// Waits until there is an event with this reason about a schedule; events are sent after the status is written.
async fn is_reported(namespace: &Namespace, schedule: &str, reason: &str) {
    namespace.has_event(reason, |event| event["regarding"]["name"] == schedule).await;
}

fn suspend(namespace: &Namespace, schedule: &str) {
    namespace.merge::<ScheduledSparkApplication>(schedule, &json!({"spec": {"suspend": true}}));
}

async fn completes(namespace: &Namespace, application: &str) {
    namespace.reaches(application, "SUBMITTED").await;
    namespace.runs(application).await;
    kubelet::ends(namespace, &format!("{application}-driver"), 0).await;
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn slot_of(run: &Value) -> Timestamp {
    time(&run["metadata"]["annotations"]["sparkoperator.k8s.io/scheduled-time"])
}

fn created(object: &Value) -> Timestamp {
    time(&object["metadata"]["creationTimestamp"])
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}
