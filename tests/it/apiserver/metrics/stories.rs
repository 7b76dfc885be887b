//! The stories of applications in the course of a day, with the values that the metrics must have because of them.

use super::{Day, There};
use crate::apiserver::{applications::hopeless, prelude::*, spark};
use api::State;

/// Parts of the day. No operator runs in the breaks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Morning,
    FirstBreak,
    Noon,
    SecondBreak,
    Evening,
}

/// The fate of an application.
#[derive(Clone, Copy, Debug)]
pub(super) enum Story {
    Completes,
    Fails,
    /// The submission is refused, and not retried.
    IsRefused,
    /// The submission is retried, and fails again.
    IsRefusedTwice,
    /// The application is suspended from the start.
    Waits,
    /// The application is suspended while it runs.
    Pauses,
    IsEdited,
    /// The application is run again after its end.
    RunsAgain,
    IsDeleted,
    /// The application fails once.
    IsRetried,
    /// The application still runs at the end of the day.
    Lasts,
    /// The application is still SUBMITTED at the end of the day.
    IsStuck,
    /// The application ends while no operator runs.
    EndsUnseen,
    /// The application is created while no operator runs.
    BeginsUnseen,
}

pub(super) const STORIES: [Story; 14] = [
    Story::Completes,
    Story::Fails,
    Story::IsRefused,
    Story::IsRefusedTwice,
    Story::Waits,
    Story::Pauses,
    Story::IsEdited,
    Story::RunsAgain,
    Story::IsDeleted,
    Story::IsRetried,
    Story::Lasts,
    Story::IsStuck,
    Story::EndsUnseen,
    Story::BeginsUnseen,
];

/// One application and its actions.
pub(super) struct Actor<'a> {
    pub day: &'a Day<'a>,
    pub name: String,
    /// The value of the label `app-type`.
    pub kind: &'static str,
}

impl Actor<'_> {
    /// Plays this part of the story.
    pub(super) async fn does(&self, story: Story, part: Part) {
        match (story, part) {
            (Story::BeginsUnseen, Part::FirstBreak) => self.make(json!({})).await,
            (Story::BeginsUnseen, Part::Noon) => self.runs().await,
            (Story::BeginsUnseen, Part::Evening) => self.completes().await,
            (Story::Completes, Part::Morning) => {
                self.makes_and_runs(json!({})).await;
                self.has_executors(2).await;
            }
            (Story::Completes, Part::Noon) => {
                self.executor_ends(1, 0).await;
                self.executor_ends(2, 0).await;
                self.completes().await;
            }
            (Story::Fails, Part::Morning) => {
                self.makes_and_runs(json!({})).await;
                self.has_executors(1).await;
            }
            (Story::Fails, Part::Noon) => {
                self.executor_ends(1, 1).await;
                self.driver_ends(1).await;
                self.has_failed().await;
            }
            (Story::IsRefused, Part::Morning) => {
                self.make_hopeless(json!({})).await;
                self.was_refused(1).await;
            }
            (Story::IsRefusedTwice, Part::Noon) => {
                let restart = json!({
                    "type": "OnFailure", "onSubmissionFailureRetries": 1,
                    "onSubmissionFailureRetryInterval": 1,
                });
                self.make_hopeless(json!({"restartPolicy": restart})).await;
                self.was_refused(2).await;
                self.counts_retry("SubmissionRetry");
            }
            (Story::Waits, Part::Morning) => {
                self.make(json!({"suspend": true})).await;
                self.reaches(State::Suspended).await;
            }
            (Story::Waits, Part::Noon) => {
                self.edit(json!({"spec": {"suspend": false}})).await;
                self.is_submitted(1).await;
                self.starts().await;
                self.counts_latency("start");
            }
            (Story::Waits, Part::Evening) => self.completes().await,
            (Story::Pauses, Part::Morning) => self.makes_and_runs(json!({})).await,
            (Story::Pauses, Part::Noon) => {
                self.edit(json!({"spec": {"suspend": true}})).await;
                self.reaches(State::Suspended).await;
            }
            (Story::Pauses, Part::Evening) => {
                self.edit(json!({"spec": {"suspend": false}})).await;
                self.is_submitted(2).await;
                self.starts().await;
            }
            (Story::IsEdited, Part::Morning) => self.makes_and_runs(json!({})).await,
            (Story::IsEdited, Part::Noon) => {
                self.edit(json!({"spec": {"arguments": ["10"]}})).await;
                self.is_submitted(2).await;
                self.starts().await;
            }
            (Story::IsEdited, Part::Evening) => self.completes().await,
            (Story::RunsAgain, Part::Morning) => {
                self.makes_and_runs(json!({})).await;
                self.completes().await;
            }
            (Story::RunsAgain, Part::Noon) => {
                let again = json!({"metadata": {"annotations": {"sparkoperator.k8s.io/rerun": "noon"}}});
                self.edit(again).await;
                self.is_submitted(2).await;
            }
            (Story::RunsAgain, Part::Evening) => {
                self.starts().await;
                self.completes().await;
            }
            (Story::IsDeleted, Part::Morning) => {
                self.makes_and_runs(json!({})).await;
                self.has_executors(1).await;
            }
            (Story::IsDeleted, Part::Noon) => self.delete().await,
            (Story::IsRetried, Part::Morning) => {
                let restart = json!({
                    "type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 1,
                });
                self.makes_and_runs(json!({"restartPolicy": restart})).await;
            }
            (Story::IsRetried, Part::Noon) => {
                self.driver_ends(1).await;
                self.is_submitted(2).await;
                self.counts_retry("FailureRetry");
                self.starts().await;
            }
            (Story::IsRetried, Part::Evening) => self.completes().await,
            (Story::Lasts, Part::Morning) => {
                self.makes_and_runs(json!({})).await;
                self.has_executors(2).await;
            }
            (Story::Lasts, Part::Evening) => self.executor_ends(1, 1).await,
            (Story::IsStuck, Part::Noon) => {
                self.make(json!({})).await;
                self.is_submitted(1).await;
            }
            (Story::EndsUnseen, Part::Morning) => self.makes_and_runs(json!({})).await,
            (Story::EndsUnseen, Part::SecondBreak) => self.driver_ends(0).await,
            (Story::EndsUnseen, Part::Evening) => self.has_completed().await,
            // The story has no action in this part of the day.
            _ => {}
        }
    }

    async fn make(&self, spec: Value) {
        self.create(application(&self.name), spec).await;
    }

    /// Creates an application that cannot be submitted.
    async fn make_hopeless(&self, spec: Value) {
        self.create(hopeless(&self.name), spec).await;
    }

    async fn create(&self, mut application: Value, spec: Value) {
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

    async fn makes_and_runs(&self, spec: Value) {
        self.make(spec).await;
        self.runs().await;
    }

    /// Waits until the first run is submitted, and starts its driver.
    async fn runs(&self) {
        self.is_submitted(1).await;
        self.starts().await;
        self.counts_latency("start");
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

    async fn completes(&self) {
        self.driver_ends(0).await;
        self.has_completed().await;
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

    async fn edit(&self, patch: Value) {
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
