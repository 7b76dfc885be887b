//! Defines the status of a `SparkApplication`: its state, its driver and executors, and its latest runs.

use std::collections::BTreeMap;

use api_derive::kubernetes_json;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Embedded, nulls::reads_null_as_absent};

/// The state of an application and of its runs. The fields of Kubeflow's operator and what we add to them: `observedGeneration`,
/// `specHash`, `runOrdinal`, `lastRerun`, `runs` and `conditions`.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
#[schemars(extend("required" = ["driverInfo"]))]
pub struct SparkApplicationStatus {
    /// Spark's own id of the present run, `spark-…`.
    pub spark_application_id: Option<String>,
    /// Our id of the present run; the label `sparkoperator.k8s.io/submission-id` of all that belongs to it.
    #[serde(rename = "submissionID")]
    pub submission_id: Option<String>,
    /// When the present run was submitted.
    pub last_submission_attempt_time: Option<Time>,
    /// When the last run ended.
    pub termination_time: Option<Time>,
    /// The driver's pod and where its web UI is.
    pub driver_info: DriverInfo,
    /// Where the application is in its life, and why.
    pub application_state: ApplicationState,
    /// States of the executors by the names of their pods.
    pub executor_state: BTreeMap<String, ExecutorState>,
    /// Number of drivers that were started since the last edit of the spec.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub execution_attempts: i32,
    /// Number of submissions since the last edit of the spec.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub submission_attempts: i32,
    /// `metadata.generation` of the spec that the present run was made from.
    pub observed_generation: Option<i64>,
    /// Hash of the spec that the present run was made from: an edit that leaves it the same does not run the
    /// application again.
    pub spec_hash: Option<String>,
    /// Number of the present run, from 1. One higher for each run whatever its cause, never reset.
    pub run_ordinal: Option<i64>,
    /// The value of the annotation `sparkoperator.k8s.io/rerun` that was acted on last.
    pub last_rerun: Option<String>,
    /// The latest runs, oldest first; at most 10.
    pub runs: Vec<RunRecord>,
    /// The state once more in the form that `kubectl wait --for=condition=…` understands: Kubernetes
    /// Conditions.
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

reads_null_as_absent!("status": SparkApplicationStatus);

/// Where an application is in its life, and why.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplicationState {
    /// SUBMITTED, RUNNING, SUCCEEDING, COMPLETED, FAILING, FAILED, SUBMISSION_FAILED, PENDING_RERUN, INVALIDATING,
    /// SUSPENDING, SUSPENDED, RESUMING or UNKNOWN. Absent before the first of them, since programs such as Airflow take
    /// an empty state for that of a started application.
    #[serde(skip_serializing_if = "crate::is_default")]
    #[schemars(default)]
    pub state: State,
    /// Why it failed, or what is being waited for.
    pub error_message: Option<String>,
}

crate::words! {
    /// The stage of an application in its life. The strings are those of Kubeflow's operator. One application with a state
    /// that we do not know must not make the list of all applications unreadable.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    #[schemars(with = "String")]
    pub enum State {
        /// Nothing was done yet. The empty string, and what an absent status means.
        #[default]
        #[serde(rename = "")]
        New = "",
        /// The driver's pod was created, by the operator or by spark-submit; it is not running yet.
        Submitted = "SUBMITTED",
        /// The driver runs.
        Running = "RUNNING",
        /// The last run succeeded; there will be no other.
        Completed = "COMPLETED",
        /// The last run or submission failed; there will be no other.
        Failed = "FAILED",
        /// The submission failed; it may be tried again.
        SubmissionFailed = "SUBMISSION_FAILED",
        /// The objects of the last run are being deleted, then the next run is submitted.
        PendingRerun = "PENDING_RERUN",
        /// The spec was edited: what belonged to the old one is being deleted.
        Invalidating = "INVALIDATING",
        /// The driver succeeded; whether the application runs again is being decided.
        Succeeding = "SUCCEEDING",
        /// The driver failed; whether the application runs again is being decided.
        Failing = "FAILING",
        /// The pods are being deleted because `suspend` is true.
        Suspending = "SUSPENDING",
        /// No pods, and none will be created until `suspend` is false.
        Suspended = "SUSPENDED",
        /// `suspend` is false again; the next run is about to be submitted.
        Resuming = "RESUMING",
        /// The driver cannot be seen, for instance because its node is lost. Also what a state that we do not
        /// know is read as.
        #[serde(other)]
        Unknown = "UNKNOWN",
    }

    name => String: format!("`{name}` is not a state of a SparkApplication")
}

impl State {
    /// Whether the state of an application in this state follows the state of its driver's pod.
    pub const fn is_followed(self) -> bool {
        matches!(self, Self::Submitted | Self::Running | Self::Unknown)
    }

    /// Whether an edit of the spec ends the run of an application in this state, or starts another run after one that has
    /// already ended. In the other states, an edit needs no action: the next run uses the spec as it is when that run
    /// starts.
    pub const fn has_a_run_to_edit(self) -> bool {
        let has_ended = matches!(self, Self::Succeeding | Self::Failing | Self::Completed | Self::Failed);
        self.is_followed() || has_ended || matches!(self, Self::SubmissionFailed)
    }
}

/// The driver's pod and where its web UI is.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriverInfo {
    /// Name of the web UI's Service.
    #[serde(rename = "webUIServiceName")]
    pub web_ui_service_name: Option<String>,
    /// Address of the web UI inside the cluster, `<address>:<port>`.
    #[serde(rename = "webUIAddress")]
    pub web_ui_address: Option<String>,
    /// Port of the web UI's Service.
    #[serde(rename = "webUIPort")]
    pub web_ui_port: Option<i32>,
    /// Name of the web UI's Ingress.
    #[serde(rename = "webUIIngressName")]
    pub web_ui_ingress_name: Option<String>,
    /// Address of the web UI from outside, a URL.
    #[serde(rename = "webUIIngressAddress")]
    pub web_ui_ingress_address: Option<String>,
    /// Name of the driver's pod.
    pub pod_name: Option<String>,
}

/// State of an executor, from the phase of its pod.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(with = "String")]
pub enum ExecutorState {
    /// Its pod is pending: it waits for a node, an image or a volume.
    Pending,
    /// Its pod is running.
    Running,
    /// It has ended with exit code 0.
    Completed,
    /// It has ended otherwise.
    Failed,
    /// None of the other states. Also what a state that we do not know is read as.
    #[default]
    #[serde(other)]
    Unknown,
}

/// One run: an attempt at executing the application, whatever its cause.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["ordinal"]))]
pub struct RunRecord {
    /// Number of the run, from 1.
    pub ordinal: i64,
    /// Our id of the run.
    #[serde(rename = "submissionID")]
    pub submission_id: Option<String>,
    /// Why there was a run: `Created`, `SubmissionRetry`, `FailureRetry`, `RestartAlways`, `SpecEdited`,
    /// `RerunRequested` or `Resumed`.
    pub cause: Option<String>,
    /// The operator that has submitted it, as `<its namespace>/<its installation>`.
    pub operator: Option<String>,
    /// The driver's service account, if it is that of --default-service-account.
    pub default_service_account: Option<String>,
    /// When it was submitted.
    pub submitted_time: Option<Time>,
    /// When it ended.
    pub finished_time: Option<Time>,
    /// How it ended, or where it is: a state of the application.
    pub state: Option<State>,
    /// Why it ended so, as a word: `Completed`, `Error`, `OOMKilled`, `DriverOutcomeUnknown`.
    pub reason: Option<String>,
    /// Exit code of the driver's container.
    pub exit_code: Option<i32>,
    /// Why it failed, or what the driver's container left as its termination message.
    pub message: Option<String>,
}

/// Returns the schema of Kubernetes conditions: a list with at most one entry per type, to which several programs may
/// write.
pub(super) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": Embedded::<Condition>::json_schema(generator),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nulls::remove_nulls;
    use serde_json::json;

    #[test]
    fn every_state_is_read_from_its_name() {
        for state in State::ALL {
            assert_eq!(state.to_string().parse(), Ok(state));
            assert_eq!(serde_json::from_value::<State>(json!(state)).unwrap(), state);
        }
        assert_eq!(
            "running".parse::<State>(),
            Err("`running` is not a state of a SparkApplication".to_owned())
        );
        assert_eq!(serde_json::from_value::<State>(json!("PENDING_SUBMISSION")).unwrap(), State::Unknown);
    }

    #[test]
    fn a_status_written_by_a_go_program_is_read_and_written_back() {
        let mut written = json!({
            "applicationState": {"state": "SUBMITTED"},
            "driverInfo": {"podName": "pi-driver", "webUIPort": 4040}, "executorState": null,
            "executionAttempts": 1, "lastSubmissionAttemptTime": "2024-05-06T07:08:09Z",
            "submissionID": "f1f6a3a1", "terminationTime": null,
        });
        let status: SparkApplicationStatus = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(status.application_state.state, State::Submitted);
        remove_nulls(&mut written);
        assert_eq!(json!(status), written);
    }

    #[test]
    fn an_empty_status_still_has_a_driver_and_a_state() {
        let written = serde_json::to_value(SparkApplicationStatus::default()).unwrap();
        assert_eq!(written, json!({"applicationState": {}, "driverInfo": {}}));
    }

    #[test]
    fn an_executor_state_that_we_do_not_know_is_read_as_unknown() {
        let states: Vec<ExecutorState> = serde_json::from_value(json!(["RUNNING", "MIGRATING"])).unwrap();
        assert_eq!(states, [ExecutorState::Running, ExecutorState::Unknown]);
    }
}
