//! Reduces objects to the rows that lists show, some 300 bytes each: each caller may have lists of ten thousand in
//! memory.

use api::{
    ApplicationType, Identity, Lenient, ScheduledSparkApplication, SparkApplication, SparkApplicationStatus,
    SparkConnect, State, excerpt::beginning, names::label, stated,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Resource, core::error_boundary::InvalidObject};
use plan::quota::present_sum;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use spark_operator_client::{
    connect_summary,
    printable::{line, lines},
    summary::{self, Tone},
};
use work::caught_now;

/// Namespace and name of an object.
pub(crate) type Key = (Box<str>, Box<str>);

/// A row of a list of one kind.
pub(crate) trait Row: Sized + Send + 'static {
    type Kind: Resource<DynamicType = ()> + DeserializeOwned;

    /// Returns the row of an object, also if the object cannot be read.
    fn of(object: &Lenient<Self::Kind>) -> Self;

    /// Returns the size of the row's texts, in bytes.
    fn length(&self) -> usize;
}

/// Reduces an object of a list. Returns its key, its `resourceVersion` and its row.
pub(crate) fn reduced<R: Row>(object: &RawValue) -> (Key, String, R) {
    let (read, _) = Lenient::<R::Kind>::parse(object);
    let key = (read.own_namespace().into(), read.own_name().into());
    (key, read.meta().resource_version.clone().unwrap_or_default(), row(&read, R::of))
}

/// Returns the row that `of` builds from an object. If `of` panics, the row shows the bug; otherwise the panic would
/// end the caller's whole list.
fn row<K: Resource, R>(read: &Lenient<K>, of: impl Fn(&Lenient<K>) -> R) -> R {
    caught_now(|| of(read)).unwrap_or_else(|bug| {
        let metadata = read.meta().clone();
        of(&Lenient(Err(Box::new(InvalidObject { error: bug.to_string(), metadata }))))
    })
}

/// An application as lists show it.
#[derive(Default)]
pub(crate) struct Application {
    /// `None` if the application cannot be read.
    pub state: Option<State>,
    pub language: ApplicationType,
    /// The name of the schedule that created the application, else the kind and name of its controlling owner.
    pub owner: Box<str>,
    pub queue: Box<str>,
    pub attempts: i32,
    pub wanted: i32,
    /// The size of a status limits it to some 40,000 executors.
    pub running: u16,
    pub failed: u16,
    /// The requests of its pods for CPU and memory, in thousandths; `None` without a driver. Boxed because most have
    /// none.
    pub requested: Option<Box<[i128; 2]>>,
    pub created: Option<Timestamp>,
    pub submitted: Option<Timestamp>,
    /// `None` if another run was submitted afterwards.
    pub ended: Option<Timestamp>,
    /// The reason for its state: one sentence, perhaps truncated.
    pub why: Box<str>,
    /// The reason why its last run ended, as a word.
    pub reason: Box<str>,
}

impl Application {
    /// Returns the time from its submission to its end, or to `now` if it has not ended. `None` if it was not
    /// submitted.
    pub(crate) fn took(&self, now: Timestamp) -> Option<SignedDuration> {
        self.submitted.map(|submitted| self.ended.unwrap_or(now).duration_since(submitted))
    }
}

/// A schedule as lists show it.
#[derive(Default)]
pub(crate) struct Schedule {
    /// `None` if the schedule cannot be read.
    pub when: Option<Box<str>>,
    pub zone: Box<str>,
    pub is_suspended: bool,
    pub last: Option<Timestamp>,
    pub last_name: Box<str>,
    pub next: Option<Timestamp>,
    pub why: Box<str>,
}

/// A server of Spark Connect as lists show it.
#[derive(Default)]
pub(crate) struct Connect {
    /// `None` if the SparkConnect cannot be read.
    pub state: Option<(Tone, &'static str)>,
    pub executors: Box<str>,
    pub restarts: i32,
    pub last_connection: Option<Timestamp>,
    pub why: Box<str>,
}

/// The maximum sizes of a sentence and of a word in a row, in bytes.
const LONGEST_SENTENCE: usize = 240;
const LONGEST_WORD: usize = 64;

fn sentence(text: &str) -> Box<str> {
    beginning(lines(text), LONGEST_SENTENCE).into()
}

fn word(text: Option<&String>) -> Box<str> {
    beginning(text.map(|text| line(text)).unwrap_or_default(), LONGEST_WORD).into()
}

fn time(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

impl Row for Application {
    type Kind = SparkApplication;

    fn of(object: &Lenient<SparkApplication>) -> Self {
        let row = match &object.0 {
            Ok(application) => of_application(application),
            Err(invalid) => Self { why: sentence(&invalid.error), ..Self::default() },
        };
        let created = time(object.meta().creation_timestamp.as_ref());
        Self { created, owner: owner(object.meta()), ..row }
    }

    fn length(&self) -> usize {
        self.owner.len() + self.queue.len() + self.why.len() + self.reason.len()
    }
}

fn of_application(application: &SparkApplication) -> Application {
    let spec = &application.spec;
    let nothing = SparkApplicationStatus::default();
    let status = application.status.as_ref().unwrap_or(&nothing);
    let count = |wanted: api::ExecutorState| {
        let states = status.executor_state.values().filter(|state| **state == wanted);
        u16::try_from(states.count()).unwrap_or(u16::MAX)
    };
    let dynamic = spec.dynamic_allocation.as_ref();
    let initial = dynamic.and_then(|dynamic| dynamic.initial_executors.or(dynamic.min_executors));
    let wanted = spec.executor.instances.or(initial).unwrap_or(1);
    let options = spec.batch_scheduler_options.as_ref();
    let submitted = time(status.last_submission_attempt_time.as_ref());
    Application {
        state: Some(application.state()),
        language: spec.application_type,
        queue: word(options.and_then(|options| stated(&options.queue))),
        attempts: status.submission_attempts,
        wanted,
        running: count(api::ExecutorState::Running),
        failed: count(api::ExecutorState::Failed),
        requested: present_sum(application)
            .map(|sum| Box::new(["cpu", "memory"].map(|name| sum.get(name).copied().unwrap_or_default()))),
        submitted,
        ended: time(status.termination_time.as_ref())
            .filter(|ended| submitted.is_none_or(|begun| *ended >= begun)),
        why: sentence(&summary::why(application).unwrap_or_default()),
        reason: word(status.runs.last().and_then(|run| run.reason.as_ref())),
        ..Application::default()
    }
}

/// Returns the name of the schedule that created the object, else the kind and name of its controlling owner.
fn owner(metadata: &ObjectMeta) -> Box<str> {
    let schedule = metadata.labels.as_ref().and_then(|labels| labels.get(label::SCHEDULED_APP_NAME));
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true));
    word(schedule.cloned().or_else(|| owner.map(|owner| format!("{} {}", owner.kind, owner.name))).as_ref())
}

impl Row for Schedule {
    type Kind = ScheduledSparkApplication;

    fn of(object: &Lenient<ScheduledSparkApplication>) -> Self {
        let schedule = match &object.0 {
            Ok(schedule) => schedule,
            Err(invalid) => return Self { why: sentence(&invalid.error), ..Self::default() },
        };
        let status = schedule.status.clone().unwrap_or_default();
        let is_suspended = schedule.spec.suspend == Some(true);
        Self {
            when: Some(word(Some(&schedule.spec.schedule))),
            zone: word(schedule.spec.time_zone.as_ref()),
            is_suspended,
            last: time(status.last_run.as_ref()),
            last_name: word(status.last_run_name.as_ref()),
            next: time(status.next_run.as_ref()).filter(|_| !is_suspended),
            why: sentence(&status.reason.unwrap_or_default()),
        }
    }

    fn length(&self) -> usize {
        let when = self.when.as_deref().map_or(0, str::len);
        when + self.zone.len() + self.last_name.len() + self.why.len()
    }
}

impl Row for Connect {
    type Kind = SparkConnect;

    fn of(object: &Lenient<SparkConnect>) -> Self {
        let connect = match &object.0 {
            Ok(connect) => connect,
            Err(invalid) => return Self { why: sentence(&invalid.error), ..Self::default() },
        };
        Self {
            state: Some((Tone::of_connect(connect.state()), connect_summary::state(connect))),
            executors: word(connect_summary::executors(connect).as_ref()),
            restarts: connect.status.as_ref().map_or(0, |status| status.restarts),
            last_connection: time(connect.last_connection().as_ref()),
            why: sentence(&connect_summary::why(connect).unwrap_or_default()),
        }
    }

    fn length(&self) -> usize {
        self.executors.len() + self.why.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json, value::to_raw_value};

    fn object(spec: &Value, status: &Value) -> Box<RawValue> {
        let metadata = json!({
            "name": "pi", "namespace": "team-a", "resourceVersion": "7", "creationTimestamp": "2026-11-21T10:00:00Z",
            "labels": {label::SCHEDULED_APP_NAME: "nightly"},
        });
        to_raw_value(&json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn an_application_is_reduced_to_what_lists_show() {
        let spec = json!({
            "type": "Python", "sparkVersion": "4.0.1", "batchSchedulerOptions": {"queue": "data\u{202e}"},
            "driver": {}, "executor": {"instances": 3},
        });
        let status = json!({
            "applicationState": {"state": "FAILED", "errorMessage": "no luck\n".repeat(100)}, "driverInfo": {},
            "executorState": {"a": "RUNNING", "b": "FAILED", "c": "FAILED"}, "submissionAttempts": 2,
            "runs": [{"ordinal": 1, "reason": "OOMKilled"}],
        });
        let (key, version, row) = reduced::<Application>(&object(&spec, &status));
        assert_eq!((&*key.0, &*key.1, &*version, &*row.owner), ("team-a", "pi", "7", "nightly"));
        assert_eq!(
            (row.state, &*row.queue, &*row.reason),
            (Some(State::Failed), "data\u{fffd}", "OOMKilled")
        );
        assert_eq!((row.attempts, row.wanted, row.running, row.failed), (2, 3, 1, 2));
        assert_eq!((row.language, row.requested), (ApplicationType::Python, None), "it has no driver");
        assert!(row.why.len() <= LONGEST_SENTENCE && row.why.starts_with("no luck\n"), "{}", row.why);
    }

    #[test]
    fn an_application_that_cannot_be_read_is_a_row_with_the_error() {
        let (.., row) = reduced::<Application>(&object(&json!({"type": "Ruby"}), &json!({})));
        assert_eq!((row.state, row.created.is_some(), &*row.owner), (None, true, "nightly"));
        assert!(row.why.contains("Ruby"), "{}", row.why);
    }

    #[test]
    fn a_panic_over_an_application_becomes_a_row_that_shows_the_bug() {
        let spec = json!({"type": "Python", "sparkVersion": "4.0.1", "driver": {}, "executor": {}});
        let status = json!({"applicationState": {"state": "RUNNING"}, "driverInfo": {}});
        let (read, _) = Lenient::<SparkApplication>::parse(&object(&spec, &status));
        let row = row(&read, |read| {
            assert!(read.0.is_err(), "beyond the end");
            Application::of(read)
        });
        assert_eq!((row.state, &*row.owner), (None, "nightly"));
        assert_eq!(&*row.why, "a bug of the operator: beyond the end");
    }

    #[test]
    fn a_server_is_reduced_to_what_lists_show() {
        let spec = json!({"sparkVersion": "4.0.1", "server": {}, "executor": {}});
        let row = |spec: &Value| {
            let status = json!({"state": "Ready", "executors": {"running": 2}, "restarts": 1});
            reduced::<Connect>(&object(spec, &status)).2
        };
        let read = row(&spec);
        assert_eq!(
            (read.state, &*read.executors, read.restarts),
            (Some((Tone::Good, "Ready")), "2 running", 1)
        );
        assert_eq!(row(&json!({"server": 1})).state, None);
    }

    #[test]
    fn a_suspended_schedule_has_no_next_time() {
        let status = json!({"nextRun": "2026-11-21T12:30:00Z", "lastRunName": "nightly-1"});
        let is_next_known = |suspend| {
            let template = json!({"type": "Scala", "sparkVersion": "4.0.1", "driver": {}, "executor": {}});
            let spec = json!({"schedule": "@hourly", "suspend": suspend, "template": template});
            reduced::<Schedule>(&object(&spec, &status)).2.next.is_some()
        };
        assert_eq!((is_next_known(false), is_next_known(true)), (true, false));
    }
}
