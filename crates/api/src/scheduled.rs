//! Defines `ScheduledSparkApplication`: a template of applications and the times at which an application is created
//! from it.

use api_derive::kubernetes_json;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{application::SparkApplicationSpec, nulls::reads_null_as_absent};

/// Which application to run, and when.
#[kubernetes_json]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "sparkoperator.k8s.io",
    version = "v1beta2",
    kind = "ScheduledSparkApplication",
    shortname = "scheduledsparkapp",
    namespaced,
    status = "ScheduledSparkApplicationStatus",
    derive = "PartialEq",
    doc = "A Spark program that the operator runs again and again, at set times."
)]
#[serde(remote = "Self")]
#[schemars(extend("required" = ["schedule", "template"]))]
pub struct ScheduledSparkApplicationSpec {
    /// When to run: a cron expression of five fields (minute, hour, day of month, month, day of week), or
    /// `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`, or `@every` and a duration such as `90m`.
    pub schedule: String,
    /// Time zone of the schedule: a name such as `Europe/Berlin`, `UTC`, or `Local`, the zone of the
    /// operator's container, which is the default.
    pub time_zone: Option<String>,
    /// The spec of each SparkApplication that is created.
    pub template: SparkApplicationSpec,
    /// Set to true to create no more applications; those that run continue. Default: false.
    pub suspend: Option<bool>,
    /// What to do if an application still runs when the next is due. `Allow` (the default): create it nevertheless;
    /// `Forbid`: wait until the running one has ended; `Replace`: delete the running one first.
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// Maximum delay, in seconds, of an application that could not be created in time; after that it is not created at
    /// all. Default: no maximum.
    pub starting_deadline_seconds: Option<i64>,
    /// Number of completed applications to keep. Default: 1.
    pub successful_run_history_limit: Option<i32>,
    /// Number of failed applications to keep. Default: 1.
    pub failed_run_history_limit: Option<i32>,
}

/// The last and the next run of a schedule. The fields of Kubeflow's operator and what we add to them:
/// `handledUntil`, `pendingRun`, `observedSchedule`, `observedTimeZone`, `scheduledSince`, `suspended` and `lastTrigger`.
#[kubernetes_json]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self")]
pub struct ScheduledSparkApplicationStatus {
    /// When the last application was created.
    pub last_run: Option<Time>,
    /// When the next application is due; absent while none is.
    pub next_run: Option<Time>,
    /// Name of the last application that was created.
    pub last_run_name: Option<String>,
    /// Names of the completed applications that were kept, newest first.
    pub past_successful_run_names: Vec<String>,
    /// Names of the failed applications that were kept, newest first.
    pub past_failed_run_names: Vec<String>,
    /// Empty (new), `Scheduled`, or `FailedValidation`, of which `reason` says more.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub schedule_state: ScheduleState,
    /// What is wrong with the schedule, its time zone or its template.
    pub reason: Option<String>,
    /// Every time of the schedule up to this one is handled: its application was created, or it was skipped or missed.
    pub handled_until: Option<Time>,
    /// The time of the schedule whose application is due and waits: until another one has ended, or until it can be
    /// created.
    pub pending_run: Option<Time>,
    /// The schedule that the times in this status belong to. An edited schedule counts from the time at which the
    /// operator saw the edit.
    pub observed_schedule: Option<String>,
    /// The time zone that the times in this status belong to.
    pub observed_time_zone: Option<String>,
    /// Time since which schedule and time zone are unchanged; `@every` counts from this time.
    pub scheduled_since: Option<Time>,
    /// Whether the schedule was suspended when it was seen last. Times that pass meanwhile are skipped.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub suspended: bool,
    /// The value of the annotation `sparkoperator.k8s.io/trigger` that was acted on last.
    pub last_trigger: Option<String>,
}

reads_null_as_absent!("spec": ScheduledSparkApplicationSpec, "status": ScheduledSparkApplicationStatus);

/// The reaction if the last application still runs when the next is due. Any string is allowed, as in
/// Kubeflow's operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(with = "String")]
pub enum ConcurrencyPolicy {
    /// Create the next application beside the running one.
    Allow,
    /// Wait until the running application has ended.
    Forbid,
    /// Delete the running application, and create the next one when it is gone.
    Replace,
    /// A string that is none of them: the operator warns of it, and treats it as `Allow`.
    #[serde(untagged)]
    Other(String),
}

/// Whether a schedule is in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(with = "String")]
pub enum ScheduleState {
    /// Kubeflow's operator knows this state and never writes it.
    Validating,
    /// In force.
    Scheduled,
    /// The schedule, its time zone, its name or its template is invalid: `reason` says why.
    FailedValidation,
    /// Nothing was done yet. Also what a state that we do not know is read as.
    #[default]
    #[serde(rename = "", other)]
    New,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_schedule_written_by_a_go_program_is_read() {
        let written = json!({
            "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "ScheduledSparkApplication",
            "metadata": {"name": "nightly", "creationTimestamp": null},
            "spec": {"schedule": "@daily", "concurrencyPolicy": "Sometimes", "template": {"arguments": null}},
            "status": {"lastRun": null, "nextRun": "2024-05-06T07:08:09Z", "scheduleState": "Scheduled"},
        });
        let schedule: ScheduledSparkApplication = serde_json::from_value(written).unwrap();
        assert_eq!(schedule.spec.concurrency_policy, Some(ConcurrencyPolicy::Other("Sometimes".into())));
        assert_eq!(schedule.spec.template, SparkApplicationSpec::default());
        let status = schedule.status.unwrap();
        assert_eq!((status.last_run, status.schedule_state), (None, ScheduleState::Scheduled));
        assert!(status.next_run.is_some());
    }

    #[test]
    fn a_field_that_cannot_be_read_is_named_by_its_path() {
        let cases = include_str!("../../../tests/data/schedules-refused.json");
        for (spec, complaint) in serde_json::from_str::<Vec<(Value, String)>>(cases).unwrap() {
            let object = json!({"metadata": {}, "spec": spec});
            let error = serde_json::from_value::<ScheduledSparkApplication>(object).unwrap_err().to_string();
            assert!(error.starts_with(&complaint), "{error}");
        }
    }

    #[test]
    fn every_schedule_state_is_written_back_as_it_was_read() {
        for name in ["", "Validating", "Scheduled", "FailedValidation"] {
            let state: ScheduleState = serde_json::from_value(json!(name)).unwrap();
            assert_eq!(serde_json::to_value(state).unwrap(), json!(name));
        }
    }
}
