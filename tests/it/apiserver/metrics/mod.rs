//! Proves that the metrics are correct on a simulated day of twenty-eight applications with all outcomes and three
//! operators, one after the other: the sum of the operators' counters matches what has happened, and each operator's
//! gauges match what exists.

mod stories;

use super::operator::METRICS;
use crate::{
    apiserver::prelude::*,
    dashboards::{metric, used},
    docs::lists_metrics,
};
use api::State;
use kube::{
    api::ApiResource,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store, store::Writer},
        watcher,
    },
};
use stories::{Actor, STORIES, Step, Story};

/// The number of applications: each story is played with each kind.
const CROWD: usize = 2 * STORIES;
/// The number of applications that the test handles at once.
const AT_ONCE: usize = 24;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn all_metrics_are_correct_after_a_day_with_all_outcomes_and_two_restarts() {
    let namespace = Namespace::new("day").await;
    let begun = Instant::now();
    let kind = ApiResource::erase::<SparkApplication>(&());
    let writer = Writer::new(kind.clone());
    let applications = writer.as_reader();
    let watch = watcher(namespace.api::<SparkApplication>(), watcher::Config::default()).reflect(writer);
    let _watching = AbortOnDropHandle::new(tokio::spawn(watch.for_each(async |_| {})));
    let day = Day {
        namespace: &namespace,
        stories: yaml(&data("day.yaml")),
        applications,
        kind,
        happened: Mutex::default(),
        there: Mutex::default(),
    };
    let setup = || Operator::with(&namespace).argument("--metrics-labels=app-type,namespace");

    let operator = setup().start().await;
    day.all_do(|story| &story.morning).await;
    let morning = day.compared(&operator, &BTreeMap::new()).await;
    operator.stop().await;
    day.all_do(|story| &story.first_break).await;

    let operator = setup().start().await;
    day.all_do(|story| &story.noon).await;
    let noon = day.compared(&operator, &morning).await;
    operator.kill();
    day.all_do(|story| &story.second_break).await;

    // With leader election, so that the metrics of the lease exist as well.
    let operator = setup().candidate(2).start().await;
    operator.leads().await;
    day.all_do(|story| &story.evening).await;
    let all = day.compared(&operator, &noon).await;
    let text = metrics_of(&operator).await;
    // Further reconciles count nothing again.
    assert_eq!(day.compared(&operator, &noon).await, all);
    operator.stop().await;
    eprintln!("{CROWD} applications in {} s: {all:#?}", begun.elapsed().as_secs());

    lists_metrics(&text);
    let told: BTreeSet<_> = text.lines().filter(|line| !line.starts_with('#')).map(metric).collect();
    let missing: Vec<_> = used().into_iter().filter(|used| !told.contains(&**used)).collect();
    assert!(
        missing.is_empty(),
        "manifests/monitoring uses metrics that do not exist: {missing:?} in\n{text}"
    );
}

/// Needs an operator, behind this proxy, that has followed an application to its end.
pub(super) async fn a_status_write_with_a_lost_response_is_counted_once(
    namespace: &Namespace,
    operator: &Operator,
    proxy: &Proxy,
) {
    const WRITTEN: Call = Call { method: "PATCH", path: "/unanswered/sparkapplications/pi/status" };
    let counters = [
        "spark_application_count",
        "spark_application_submit_count",
        "spark_application_submit_latency_seconds_count",
        "spark_application_start_latency_seconds_count",
        "spark_application_success_count",
        "spark_application_success_execution_time_seconds_count",
    ];
    let counted = async || {
        let mut counted = Vec::new();
        for name in counters {
            counted.push(operator.metric(name).await?);
        }
        Ok::<_, String>(counted)
    };
    let before = counted().await.unwrap();
    let submitted = proxy.hold(WRITTEN, Moment::After);
    namespace.apply(&application("pi"));
    submitted.caught().await.close();
    namespace.reaches("pi", "SUBMITTED").await;
    namespace.runs("pi").await;
    let succeeding = proxy.hold(WRITTEN, Moment::Before);
    kubelet::ends(namespace, "pi-driver", 0).await;
    let succeeding = succeeding.caught().await;
    let completing = proxy.hold(WRITTEN, Moment::Before);
    succeeding.release();
    let completing = completing.caught().await;
    let completed = proxy.hold(WRITTEN, Moment::After);
    completing.release();
    completed.caught().await.close();
    namespace.reaches("pi", "COMPLETED").await;
    let once_more: Vec<_> = before.iter().map(|count| count + 1.0).collect();
    eventually("everything is counted once", async || {
        let counted = counted().await?;
        seen(counted == once_more, counted)
    })
    .await;
}

/// The counters that are compared with what has happened.
const COUNTERS: &str = include_str!("../../../data/day-counters.txt");
/// The gauges that are compared with what exists.
const GAUGES: [&str; 3] =
    ["spark_applications", "spark_application_running_count", "spark_executor_running_count"];

/// The day, with the expected values.
struct Day<'a> {
    namespace: &'a Namespace,
    stories: [Story; STORIES],
    /// The applications as a watch reports them: repeated requests would take more CPU time than all operators.
    applications: Store<DynamicObject>,
    kind: ApiResource,
    /// Expected counters, by series.
    happened: Mutex<BTreeMap<String, u64>>,
    /// What exists of each application.
    there: Mutex<BTreeMap<String, There>>,
}

struct There {
    kind: &'static str,
    state: State,
    /// The number of running executors.
    executors: u64,
}

impl Day<'_> {
    /// Waits until the status of an application fulfils `condition`.
    async fn becomes(&self, name: &str, what: &str, condition: impl Fn(&Value) -> bool) {
        let reference = ObjectRef::new_with(name, self.kind.clone()).within(self.namespace.name);
        eventually(&format!("{name} is {what}"), async || {
            let application = self.applications.get(&reference).ok_or("not there")?;
            seen(condition(&application.data["status"]), &application.data["status"])
        })
        .await;
    }

    async fn all_do(&self, steps: fn(&Story) -> &[Step]) {
        let begun = Instant::now();
        let done = stream::iter(0..CROWD).map(|i| async move {
            let kind = if i < STORIES { "etl" } else { "report" };
            let actor = Actor { day: self, name: format!("app-{i}"), kind };
            for step in steps(&self.stories[i % STORIES]) {
                actor.does(step).await;
            }
        });
        done.buffer_unordered(AT_ONCE).collect::<()>().await;
        eprintln!("this part of the day took {:.1} s", begun.elapsed().as_secs_f64());
    }

    /// Waits until the operator's gauges match what exists, and its counters plus `before`, the counters of the earlier
    /// operators, match what has happened. Returns the sum of the counters.
    async fn compared(&self, operator: &Operator, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let happened = self.happened.lock().unwrap().clone();
        let there = self.there();
        eventually("the metrics are correct, and the queue is empty", async || {
            let text = metrics_of(operator).await;
            let mut told = before.clone();
            let mut gauges = BTreeMap::new();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let value = || value.parse::<f64>().unwrap() as u64;
                if GAUGES.contains(&metric(series)) {
                    gauges.insert(series.to_owned(), value());
                } else if COUNTERS.lines().any(|counter| counter == metric(series)) {
                    *told.entry(series.to_owned()).or_default() += value();
                }
            }
            gauges.retain(|_, value| *value > 0);
            told.retain(|_, value| *value > 0);
            let queue = "{controller=\"sparkapplication\",name=\"sparkapplication\"}";
            let idle = ["workqueue_depth", "workqueue_active"]
                .iter()
                .all(|name| text.contains(&format!("\n{name}{queue} 0.0\n")));
            let differs = |ours: &BTreeMap<String, u64>, theirs: &BTreeMap<String, u64>| -> Vec<String> {
                let series: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
                let differing = series.into_iter().filter(|series| ours.get(*series) != theirs.get(*series));
                differing
                    .map(|series| format!("{series}: {:?}, not {:?}", theirs.get(series), ours.get(series)))
                    .collect()
            };
            let differing = [differs(&happened, &told), differs(&there, &gauges)].concat();
            seen(idle && differing.is_empty(), (idle, differing)).map(|()| told)
        })
        .await
    }

    /// Returns the expected gauges.
    fn there(&self) -> BTreeMap<String, u64> {
        let mut gauges = BTreeMap::new();
        for There { kind, state, executors } in self.there.lock().unwrap().values() {
            let labels = self.labels(kind);
            let mut add = |series: String, value: u64| *gauges.entry(series).or_default() += value;
            add(format!("spark_applications{{{labels},state=\"{state}\"}}"), 1);
            add(format!("spark_application_running_count{{{labels}}}"), u64::from(*state == State::Running));
            add(format!("spark_executor_running_count{{{labels}}}"), *executors);
        }
        gauges.retain(|_, value| *value > 0);
        gauges
    }

    fn labels(&self, kind: &str) -> String {
        format!("app_type=\"{kind}\",namespace=\"{}\"", self.namespace.name)
    }
}

async fn metrics_of(operator: &Operator) -> String {
    operator.get(METRICS, "/metrics").await.unwrap().1
}
