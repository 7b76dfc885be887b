//! Tests the lifecycle of a schedule. Each story in `tests/data/schedules` is a sequence of observations with the
//! expected plans. The schedule is called `pi`, and its uid is `uid`.

use crate::prelude::*;
use api::State;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schedules::{Action, Child, Observed, Plan, Policy, Precision, check, next, questions};

/// The content of one file in `tests/data/schedules`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Story {
    created: Timestamp,
    spec: Value,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// The status at the beginning of the story. If missing, the operator has recorded nothing yet.
    #[serde(default)]
    status: Value,
    #[serde(default)]
    minutes: bool,
    /// The shortest period that the operator allows, in seconds.
    #[serde(default)]
    shortest: u64,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: Timestamp,
    /// The user's changes to the spec before this step (RFC 7386).
    edit: Option<Value>,
    trigger: Option<String>,
    #[serde(default)]
    children: Vec<Made>,
    /// Names of applications that do not belong to the schedule.
    #[serde(default)]
    taken: Vec<String>,
    /// Whether pods of an application that is gone still exist.
    #[serde(default)]
    pods: bool,
    /// Whether the operator crashes before it has written the status.
    #[serde(default)]
    lost: bool,
    expect: Expected,
}

/// An application that belongs to the schedule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    name: Option<String>,
    slot: Option<Timestamp>,
    trigger: Option<String>,
    state: State,
    #[serde(default)]
    going: bool,
}

/// The expected plan: all actions and events, and the fields of the status that the file names.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Expected {
    actions: Vec<String>,
    events: Vec<String>,
    status: BTreeMap<String, Value>,
    /// The outcomes that metrics count, as `Debug` writes them.
    outcomes: Option<Vec<String>>,
    /// The time until the next reconcile, in whole seconds.
    wake: Option<u64>,
}

#[test]
fn every_story_of_a_schedule_gives_the_expected_plans() {
    let files = entries(data("schedules"));
    assert!(!files.is_empty());
    for file in files {
        let story: Story = yaml(&file);
        story.goes(&file.file_stem().unwrap().to_string_lossy());
    }
}

#[test]
fn a_schedule_has_at_most_fifty_unfinished_runs() {
    let skipped = "ScheduledRunSkipped: the run of 2026-03-01T10:00:00Z is skipped: 50 applications of";
    for (unfinished, actions, event, outcome) in [
        (49, json!(["start pi-1772359200"]), "ScheduledRunStarted", "Started(1s)"),
        (50, json!([]), skipped, "Skipped(TooMany)"),
    ] {
        let running = |i: u32| json!({"slot": format!("2026-03-01T09:{i:02}:00Z"), "state": "RUNNING"});
        let children: Vec<_> = (1..=unfinished).map(running).collect();
        let handled = json!({"handledUntil": "2026-03-01T10:00:00Z"});
        let story = json!({
            "created": "2026-03-01T09:00:00Z", "spec": {"schedule": "* * * * *"},
            "status": {
                "scheduleState": "Scheduled", "observedSchedule": "* * * * *",
                "scheduledSince": "2026-03-01T09:00:00Z", "handledUntil": "2026-03-01T09:59:00Z",
            },
            "steps": [{
                "at": "2026-03-01T10:00:01Z", "children": children,
                "expect": {"actions": actions, "events": [event], "status": handled, "outcomes": [outcome]},
            }],
        });
        serde_json::from_value::<Story>(story).unwrap().goes(&format!("{unfinished} that run"));
    }
}

impl Story {
    fn goes(self, title: &str) {
        let precision = if self.minutes { Precision::Minutes } else { Precision::Seconds };
        let policy =
            Policy { precision, shortest_period: Duration::from_secs(self.shortest), zone: TimeZone::UTC };
        let template = json!({
            "sparkVersion": "4.0.1", "type": "Python", "mode": "cluster",
            "mainApplicationFile": "local:///main.py", "image": "spark",
        });
        let mut schedule: ScheduledSparkApplication = serde_json::from_value(json!({
            "metadata": {"name": "pi", "namespace": "default", "uid": "uid", "annotations": self.annotations},
            "spec": {"schedule": "", "template": template}, "status": self.status,
        }))
        .unwrap();
        schedule.metadata.creation_timestamp = Some(Time(self.created));
        edit(&mut schedule, &self.spec);
        for (number, step) in self.steps.into_iter().enumerate() {
            let place = format!("{title}, step {}", number + 1);
            if let Some(patch) = &step.edit {
                edit(&mut schedule, patch);
            }
            if let Some(value) = step.trigger {
                schedule.annotations_mut().insert("sparkoperator.k8s.io/trigger".to_owned(), value);
            }
            let children: Vec<_> = step.children.into_iter().map(Made::child).collect();
            let checked = check(&schedule, &policy);
            let asked = questions(&schedule, &checked, &children, step.at, &policy);
            // The controller looks up only the names that `questions` asks for.
            let taken = step.taken.into_iter().filter(|name| asked.names.contains(name)).collect();
            let has_pods = step.pods && asked.pods;
            let seen = Observed { children, departed: Vec::new(), taken, has_pods };
            let plan = next(&schedule, &checked, &seen, step.at, &policy);
            step.expect.meets(&plan, &place);
            if !step.lost {
                schedule.status = Some(plan.status);
            }
        }
    }
}

impl Made {
    fn child(self) -> Child {
        let slot = self.slot.map(|slot| format!("pi-{}", slot.as_second()));
        let name = self.name.or(slot).unwrap_or_else(|| "pi-t1".to_owned());
        Child {
            uid: format!("uid of {name}"),
            name,
            resource_version: None,
            created: self.slot.unwrap_or_default(),
            slot: self.slot,
            trigger: self.trigger,
            state: self.state,
            is_going: self.going,
        }
    }
}

impl Expected {
    fn meets(&self, plan: &Plan, place: &str) {
        let action = |action: &Action| match action {
            Action::Start(application) => format!("start {}", application.name_any()),
            Action::Delete { name, .. } => format!("delete {name}"),
        };
        let actions: Vec<_> = plan.actions.iter().map(action).collect();
        assert_eq!(actions, self.actions, "{place}");
        let events: Vec<_> =
            plan.events.iter().map(|event| format!("{}: {}", event.reason, event.note)).collect();
        assert_eq!(events.len(), self.events.len(), "{place}: {events:#?}");
        for (event, expected) in events.iter().zip(&self.events) {
            assert!(event.starts_with(expected.as_str()), "{place}: {event}");
        }
        let status = json!(plan.status);
        for (field, value) in &self.status {
            assert_eq!(status[field], *value, "{place}: {field} of {status:#}");
        }
        if let Some(outcomes) = &self.outcomes {
            let counted: Vec<_> = plan.outcomes.iter().map(|outcome| format!("{outcome:?}")).collect();
            assert_eq!(counted, *outcomes, "{place}");
        }
        if self.wake.is_some() {
            assert_eq!(plan.wake.as_ref().map(Duration::as_secs), self.wake, "{place}");
        }
    }
}

fn edit(schedule: &mut ScheduledSparkApplication, patch: &Value) {
    let mut spec = json!(schedule.spec);
    json_patch::merge(&mut spec, patch);
    schedule.spec = serde_json::from_value(spec).unwrap();
}
