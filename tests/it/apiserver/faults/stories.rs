//! The actions of users and kubelets while the API server fails, and the results that they must have.

use super::{Stage, Trouble, world::PodLife};
use crate::apiserver::{namespace::Ours, prelude::*};
use kube::api::{ApiResource, GroupVersionKind};

/// The time for the operator to see the deletion or suspension of an application whose driver is about to be created.
const HEARD: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Story {
    Success,
    RetryThenSuccess,
    /// With a PodGroup of Volcano, whose requests come in addition to those of the other stories.
    EditWhileRunning,
    SuspendAndResume,
    SuspendWhileSubmitting,
    DeleteWhileSubmitting,
}

impl Story {
    pub(crate) const ALL: [Self; 6] = [
        Self::Success,
        Self::RetryThenSuccess,
        Self::EditWhileRunning,
        Self::SuspendAndResume,
        Self::SuspendWhileSubmitting,
        Self::DeleteWhileSubmitting,
    ];

    /// Returns the application of the story. If a fault makes `spark-submit` fail, only the restart policy leads to
    /// another submission, and to another run if `spark-submit` deletes a driver that runs already.
    fn application(self, name: &str, by_spark_submit: bool) -> Value {
        let mut application = application(name);
        let retries = u8::from(self == Self::RetryThenSuccess) + u8::from(by_spark_submit);
        let mut policy = json!({
            "type": "OnFailure", "onFailureRetries": retries, "onFailureRetryInterval": 1,
            "onSubmissionFailureRetries": 0, "onSubmissionFailureRetryInterval": 1,
        });
        if by_spark_submit {
            policy["onSubmissionFailureRetries"] = json!(10);
        }
        application["spec"]["restartPolicy"] = policy;
        if self == Self::EditWhileRunning {
            application["spec"]["batchScheduler"] = json!("volcano");
        }
        application
    }

    /// Returns the number of drivers that are started, and the allowed values of `executionAttempts` at the end.
    const fn outcome(self) -> (usize, &'static [i64]) {
        match self {
            Self::Success => (1, &[1]),
            Self::RetryThenSuccess => (2, &[2]),
            // After an edit, attempts are counted from 1 again.
            Self::EditWhileRunning => (2, &[1]),
            Self::SuspendAndResume => (2, &[2]),
            // The first run may have been recorded already.
            Self::SuspendWhileSubmitting => (1, &[1, 2]),
            Self::DeleteWhileSubmitting => (0, &[]),
        }
    }

    /// Plays the story to its end, and checks that the end is right.
    pub(super) async fn tell(self, stage: &Stage<'_>, name: &str) -> Result<(), Trouble> {
        let world = &stage.world;
        let application = self.application(name, stage.by_spark_submit);
        if matches!(self, Self::SuspendWhileSubmitting | Self::DeleteWhileSubmitting) {
            let about_to_be_made = stage.director.hold_driver(name);
            stage.namespace.create::<SparkApplication>(&application).await;
            let Ok(Ok(held)) = timeout(world.patience(), about_to_be_made).await else {
                return Err(Trouble::Stuck("no driver is created".to_owned()));
            };
            if self == Self::DeleteWhileSubmitting {
                stage.delete(name).await;
                sleep(HEARD).await;
                held.release();
                return Ok(());
            }
            stage.edit(name, &json!({"suspend": true})).await;
            sleep(HEARD).await;
            held.release();
            world.reaches(name, "SUSPENDED").await?;
            // A driver that was under way is deleted as well.
            if let Some(left) = world.pod_left(name, true).await {
                return Err(Trouble::Stuck(format!("{left} is not deleted")));
            }
            stage.edit(name, &json!({"suspend": false})).await;
            self.last_run(stage, name).await?;
            world.becomes(name, "at its end", has_ended).await?;
            return Ok(());
        }

        stage.namespace.create::<SparkApplication>(&application).await;
        let driver = world.driver_runs(name).await?;
        self.grouped(stage, name, &driver).await?;
        let executor = world.executor(name, &driver).await;
        match self {
            Self::Success => {
                world.ends(&executor, 0).await;
                world.ends(&driver, 0).await;
            }
            // The operator does not wait for executors that outlive their driver.
            Self::RetryThenSuccess => {
                world.ends(&driver, 1).await;
                self.last_run(stage, name).await?;
            }
            Self::EditWhileRunning => {
                stage.edit(name, &json!({"arguments": ["5"]})).await;
                self.last_run(stage, name).await?;
            }
            Self::SuspendAndResume => {
                stage.edit(name, &json!({"suspend": true})).await;
                world.reaches(name, "SUSPENDED").await?;
                let own = [stage.own::<Pod>(name).await, stage.own::<Service>(name).await];
                if let [left, ..] = &own.concat()[..] {
                    return Err(Trouble::Wrong(format!("it is suspended, but {left} exists")));
                }
                stage.edit(name, &json!({"suspend": false})).await;
                self.last_run(stage, name).await?;
            }
            Self::SuspendWhileSubmitting | Self::DeleteWhileSubmitting => {}
        }
        world.becomes(name, "at its end", has_ended).await?;
        Ok(())
    }

    /// Checks that a running driver has the PodGroup of its run, if the story has one.
    async fn grouped(self, stage: &Stage<'_>, name: &str, driver: &PodLife) -> Result<(), Trouble> {
        let runs = stage.groups(name).await;
        let run = &driver.pod["metadata"]["labels"][label::SUBMISSION_ID];
        let is_right = match &runs[..] {
            [] => self != Self::EditWhileRunning,
            [of] => of == run,
            _ => false,
        };
        if is_right { Ok(()) } else { Err(Trouble::Wrong(format!("run {run} has the groups of {runs:?}"))) }
    }

    async fn last_run(self, stage: &Stage<'_>, name: &str) -> Result<(), Trouble> {
        let driver = stage.world.driver_runs(name).await?;
        self.grouped(stage, name, &driver).await?;
        let arguments = driver.pod["spec"]["containers"][0]["args"].as_array().cloned().unwrap_or_default();
        if (arguments.last() == Some(&json!("5"))) != (self == Self::EditWhileRunning) {
            return Err(Trouble::Wrong(format!("the last driver runs {arguments:?}")));
        }
        stage.world.ends(&driver, 0).await;
        Ok(())
    }

    /// Checks that the results are those of the story.
    pub(super) async fn judge(self, stage: &Stage<'_>, name: &str) -> Result<(), Trouble> {
        let world = &stage.world;
        let (started, executions) = self.outcome();
        if let [doubled, ..] = &world.doubled(name)[..] {
            return Err(Trouble::Doubled(doubled.clone()));
        }
        let wrong = |what: String| Err(Trouble::Wrong(what));
        let ever = world.drivers_started(name);
        // A driver that a failing `spark-submit` has deleted again was started in addition.
        if ever < started || ever > started && !stage.by_spark_submit {
            return wrong(format!("{ever} drivers were started"));
        }
        if self == Self::DeleteWhileSubmitting {
            return Ok(());
        }
        let states = world.states(name);
        if states.iter().map(String::as_str).filter(|state| is_end(state)).ne(["COMPLETED"]) {
            return wrong(format!("its states were {states:?}"));
        }
        let status = &world.application(name)["status"];
        let has_times =
            status["terminationTime"].is_string() && status["lastSubmissionAttemptTime"].is_string();
        // If such a driver ran already, or was recorded before it ran, its run counts as an execution as well.
        let mut runs = status["runs"].as_array().into_iter().flatten();
        let is_recorded = runs.any(|run| run["reason"] == "DriverOutcomeUnknown");
        let lost = i64::from(stage.by_spark_submit && (ever > started || is_recorded));
        let has_executions = status["executionAttempts"]
            .as_i64()
            .is_some_and(|found| executions.contains(&found) || executions.contains(&(found - lost)));
        if !has_executions || !has_times {
            return wrong(format!("{executions:?} execution attempts are expected: {status}"));
        }
        let is_certain = !stage.by_spark_submit && self != Self::SuspendWhileSubmitting;
        if is_certain && status["runOrdinal"] != started {
            return wrong(format!("{started} runs are expected: {status}"));
        }
        if let Some(left) = world.pod_left(name, false).await {
            return wrong(format!("its run is over, but {left} exists"));
        }
        // Objects that `spark-submit` has created are deleted with the driver's pod, and do not have the label with the
        // application's name.
        let own = [stage.own::<Service>(name).await, stage.own::<ConfigMap>(name).await];
        let left = [&own.concat()[..], &stage.groups(name).await].concat();
        if let [left, ..] = &left[..] {
            return wrong(format!("its run is over, but {left} exists"));
        }
        Ok(())
    }
}

fn has_ended(application: &Value) -> bool {
    application["status"]["applicationState"]["state"].as_str().is_some_and(is_end)
}

fn is_end(state: &str) -> bool {
    matches!(state, "COMPLETED" | "FAILED")
}

impl Stage<'_> {
    /// Returns the names of the application's objects of a kind.
    async fn own<K: Ours>(&self, name: &str) -> Vec<String> {
        let own = ListParams::default().labels(&format!("sparkoperator.k8s.io/app-name={name}"));
        let own = self.namespace.api::<K>().list(&own).await.unwrap();
        own.iter().map(ResourceExt::name_any).collect()
    }

    /// Returns the submission ids of the application's groups.
    async fn groups(&self, name: &str) -> Vec<String> {
        let kind = GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "PodGroup");
        let pod_groups = ApiResource::from_gvk(&kind);
        let own = ListParams::default().labels(&format!("{}={name}", label::APP_NAME));
        let list = self.namespace.of_resource(&pod_groups).list(&own).await.unwrap();
        list.iter().map(|group| group.labels()[label::SUBMISSION_ID].clone()).collect()
    }

    async fn edit(&self, name: &str, spec: &Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.namespace.api::<SparkApplication>().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(super) async fn delete(&self, name: &str) {
        self.namespace.api::<SparkApplication>().delete(name, &DeleteParams::default()).await.unwrap();
    }
}
