//! The stories of applications in the course of a day, with the values that the metrics must have because of them.

use super::{Day, There};
use crate::apiserver::{applications::hopeless, prelude::*, spark};
use api::State;

/// The number of stories in `tests/data/day.yaml`.
pub(super) const STORIES: usize = 14;

/// The steps of an application in each part of the day, from `tests/data/day.yaml`. No operator runs in the breaks.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct Story {
    pub morning: Vec<Step>,
    pub first_break: Vec<Step>,
    pub noon: Vec<Step>,
    pub second_break: Vec<Step>,
    pub evening: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Step {
    /// The application is created, with these fields in its spec.
    Made(Value),
    /// An application is created that cannot be submitted.
    MadeHopeless(Value),
    /// The run with this ordinal is submitted.
    Submitted(i64),
    /// The driver starts.
    Starts,
    /// The first run is submitted, and its driver starts.
    Runs,
    Executors(u32),
    /// The executor with this number ends, with this exit code.
    ExecutorEnds((u32, i32)),
    DriverEnds(i32),
    Completed,
    /// The driver ends with exit code 0, and the application is COMPLETED.
    Completes,
    Failed,
    /// The application has failed after so many refused submissions.
    Refused(usize),
    /// A retry with this cause is counted.
    Retried(String),
    Suspended,
    Edited(Value),
    Deleted,
}

/// One application and its actions.
pub(super) struct Actor<'a> {
    pub day: &'a Day<'a>,
    pub name: String,
    /// The value of the label `app-type`.
    pub kind: &'static str,
}

impl Actor<'_> {
    pub(super) async fn does(&self, step: &Step) {
        match step {
            Step::Made(spec) => self.make(application(&self.name), spec).await,
            Step::MadeHopeless(spec) => self.make(hopeless(&self.name), spec).await,
            Step::Submitted(run) => self.is_submitted(*run).await,
            Step::Starts => self.starts().await,
            Step::Runs => {
                self.is_submitted(1).await;
                self.starts().await;
                self.counts_latency("start");
            }
            Step::Executors(count) => self.has_executors(*count).await,
            Step::ExecutorEnds((id, exit_code)) => self.executor_ends(*id, *exit_code).await,
            Step::DriverEnds(exit_code) => self.driver_ends(*exit_code).await,
            Step::Completed => self.has_completed().await,
            Step::Completes => {
                self.driver_ends(0).await;
                self.has_completed().await;
            }
            Step::Failed => self.has_failed().await,
            Step::Refused(times) => self.was_refused(*times).await,
            Step::Retried(cause) => self.counts_retry(cause),
            Step::Suspended => self.reaches(State::Suspended).await,
            Step::Edited(patch) => self.edit(patch).await,
            Step::Deleted => self.delete().await,
        }
    }

    async fn make(&self, mut application: Value, spec: &Value) {
        application["metadata"]["labels"] = json!({"app-type": self.kind});
        for (key, value) in spec.as_object().unwrap() {
            application["spec"][key] = value.clone();
        }
        self.day.namespace.create::<SparkApplication>(&application).await;
        self.day
            .there
            .lock()
            .unwrap()
            .insert(self.name.clone(), There { kind: self.kind, state: State::New, executors: 0 });
        self.counts("spark_application_count");
    }

    async fn is_submitted(&self, run: i64) {
        self.day
            .becomes(&self.name, &format!("SUBMITTED in run {run}"), |status| {
                status["applicationState"]["state"] == "SUBMITTED" && status["runOrdinal"] == run
            })
            .await;
        self.is(State::Submitted);
        self.counts("spark_application_submit_count");
        if run == 1 {
            self.counts_latency("submit");
        }
    }

    async fn starts(&self) {
        kubelet::runs(self.day.namespace, &self.driver()).await;
        self.reaches(State::Running).await;
    }

    async fn driver_ends(&self, exit_code: i32) {
        kubelet::ends(self.day.namespace, &self.driver(), exit_code).await;
    }

    async fn has_completed(&self) {
        self.reaches(State::Completed).await;
        self.counts("spark_application_success_count");
        self.counts("spark_application_success_execution_time_seconds_count");
    }

    async fn has_failed(&self) {
        self.reaches(State::Failed).await;
        self.counts("spark_application_failure_count");
        self.counts("spark_application_failure_execution_time_seconds_count");
    }

    async fn was_refused(&self, times: usize) {
        self.has_failed().await;
        for _ in 0..times {
            self.counts("spark_application_failed_submission_count");
        }
    }

    async fn has_executors(&self, count: u32) {
        let namespace = self.day.namespace;
        let driver = namespace.pod(&self.driver()).await.unwrap();
        for id in 1..=count {
            let executor = spark::make_executor(namespace, &driver, id).await;
            kubelet::runs(namespace, &executor).await;
        }
        self.changes(|there| there.executors += u64::from(count));
    }

    async fn executor_ends(&self, id: u32, exit_code: i32) {
        kubelet::ends(self.day.namespace, &format!("{}-exec-{id}", self.name), exit_code).await;
        self.changes(|there| there.executors -= 1);
        let outcome = if exit_code == 0 { "success" } else { "failure" };
        self.counts(&format!("spark_executor_{outcome}_count"));
    }

    async fn edit(&self, patch: &Value) {
        let applications = self.day.namespace.api::<SparkApplication>();
        applications.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn delete(&self) {
        let applications = self.day.namespace.api::<SparkApplication>();
        applications.delete(&self.name, &DeleteParams::default()).await.unwrap();
        self.day.there.lock().unwrap().remove(&self.name);
    }

    async fn reaches(&self, state: State) {
        let state_of = |status: &Value| status["applicationState"]["state"] == state.as_str();
        self.day.becomes(&self.name, state.as_str(), state_of).await;
        self.is(state);
    }

    fn is(&self, state: State) {
        self.changes(|there| there.state = state);
    }

    fn changes(&self, change: impl FnOnce(&mut There)) {
        change(self.day.there.lock().unwrap().get_mut(&self.name).unwrap());
    }

    fn counts(&self, name: &str) {
        self.counts_series(format!("{name}{{{}}}", self.day.labels(self.kind)));
    }

    /// Counts a latency, which is measured only for the first submission and the first start.
    fn counts_latency(&self, what: &str) {
        self.counts(&format!("spark_application_{what}_latency_seconds_count"));
        self.counts(&format!("spark_application_{what}_latency_seconds_histogram_count"));
    }

    fn counts_retry(&self, cause: &str) {
        let labels = self.day.labels(self.kind);
        self.counts_series(format!("spark_application_retries_total{{{labels},cause=\"{cause}\"}}"));
    }

    fn counts_series(&self, series: String) {
        *self.day.happened.lock().unwrap().entry(series).or_default() += 1;
    }

    fn driver(&self) -> String {
        format!("{}-driver", self.name)
    }
}
