//! What becomes of an application? Stories in `tests/data/lifecycle`, each a sequence of what was seen and
//! what follows from it.

use crate::golden::{data, yaml};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use spark_operator::{
    api::{ExecutorState, SparkApplication, State},
    plan::{
        Action, Driver, Observed, Plan, Policy, Submission, SubmissionProgress,
        events::Event,
        lifecycle::{self, questions},
        pod_record::{Phase, PodRecord},
        run::{Run, SubmissionId},
        submission::{Submitter, Surroundings},
    },
};
use std::{collections::BTreeMap, fs};

const UID: &str = "6c1f0b5e-0000-4000-8000-000000000001";

/// One file. The application is called `pi`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Story {
    #[serde(default)]
    spec: Map<String, Value>,
    /// Where the story begins; nothing recorded if there is none.
    status: Option<Value>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// Since the beginning of the story.
    at: SignedDuration,
    observed: Seen,
    expect: Expected,
}

/// What was seen. Pods are written as far as they differ from those that our `spark-submit` makes for this
/// run.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Seen {
    /// `gone`, `unseen` or a pod.
    driver: Value,
    #[serde(default = "yes")]
    complete: bool,
    #[serde(default)]
    executors: BTreeMap<String, Value>,
    submission: Option<Progress>,
    /// The run that the submission was for, if not this one.
    submission_of: Option<SubmissionId>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Progress {
    Running,
    Succeeded,
    DriverExists,
    Failed(String),
}

/// What follows: all of it, but for fields that are optional here and not given.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expected {
    state: State,
    message: Option<String>,
    #[serde(default)]
    actions: Vec<String>,
    /// Each the reason alone, or `reason: note`.
    #[serde(default)]
    events: Vec<String>,
    wake: Option<SignedDuration>,
    /// Since the beginning of the story; checked in terminal states.
    terminated: Option<SignedDuration>,
    executors: Option<BTreeMap<String, ExecutorState>>,
    spark_application_id: Option<String>,
    attempts: Option<i32>,
}

#[test]
fn every_story_goes_as_it_is_written() {
    for (name, story) in stories() {
        for (at, _, _, plan, expect) in told(&story) {
            let context = format!("{name} at {at:#}");
            let status = &plan.status;
            assert_eq!(status.application_state.state, expect.state, "{context}");
            assert_eq!(status.application_state.error_message, expect.message, "{context}");
            assert_eq!(plan.actions.iter().map(shown).collect::<Vec<_>>(), expect.actions, "{context}");
            let expected = expect.events.iter().map(Some).chain(std::iter::repeat(None));
            let events = plan.events.iter().zip(expected).map(|(event, expected)| shortened(event, expected));
            let events: Vec<_> = events.collect();
            assert_eq!(events, expect.events, "{context}");
            let wake = plan.wake.map(|wake| SignedDuration::try_from(wake).unwrap());
            assert_eq!(wake, expect.wake, "{context}: wake");
            if let Some(executors) = &expect.executors {
                assert_eq!(&status.executor_state, executors, "{context}");
            }
            if let Some(id) = &expect.spark_application_id {
                assert_eq!(status.spark_application_id.as_ref(), Some(id), "{context}");
            }
            if let Some(attempts) = expect.attempts {
                assert_eq!(
                    (status.execution_attempts, status.submission_attempts),
                    (attempts, attempts),
                    "{context}"
                );
            }
            if let Some(terminated) = expect.terminated {
                assert_eq!(status.termination_time.as_ref().unwrap().0, begin() + terminated, "{context}");
            }
        }
    }
}

#[test]
fn what_has_ended_has_a_time_and_what_has_not_has_a_timer() {
    for (name, story) in stories() {
        for (at, application, _, plan, _) in told(&story) {
            let context = format!("{name} at {at:#}");
            match plan.status.application_state.state {
                State::Completed | State::Failed => {
                    assert!(plan.status.termination_time.is_some() && plan.wake.is_none(), "{context}");
                }
                State::New if application.spec.suspend == Some(true) => {}
                _ => assert!(plan.wake.is_some_and(|wake| !wake.is_zero()), "{context}"),
            }
        }
    }
}

/// No writes, events or actions for what is known already; states that are only passed through are passed
/// through at once.
#[test]
fn a_plan_that_has_taken_effect_plans_nothing_more() {
    for (name, story) in stories() {
        for (at, mut application, seen, plan, _) in told(&story) {
            let seen = taken_effect(seen, &plan.actions);
            let mut told: Vec<_> = plan.events.clone();
            application.status = Some(plan.status);
            let mut passes = 0;
            loop {
                let again = lifecycle::next(&application, &seen, begin() + at, &policy());
                let context = format!("{name} at {at:#}: {again:?}");
                assert_eq!(again.actions, [], "{context}");
                assert!(again.events.iter().all(|event| !told.contains(event)), "{context}");
                if application.status.as_ref() == Some(&again.status) {
                    assert_eq!(again.events, [], "{context}");
                    break;
                }
                passes += 1;
                assert!(passes < 4, "{context}: no end");
                told.extend(again.events);
                application.status = Some(again.status);
            }
        }
    }
}

/// Whether the status was written or not, and whether this process remembers its `spark-submit` or not.
#[test]
fn a_lost_status_write_or_a_crash_submits_nothing_else() {
    for (name, story) in stories() {
        for (at, application, seen, plan, _) in told(&story) {
            let Some(first) = submitted_run(&plan.actions) else { continue };
            let context = format!("{name} at {at:#}");
            let remembered = taken_effect(seen.clone(), &plan.actions);
            let after = lifecycle::next(&application, &remembered, begin() + at, &policy());
            assert_eq!(submitted_run(&after.actions), None, "{context}: while it runs");
            let later = begin() + at + SignedDuration::from_hours(1);
            let after = lifecycle::next(&application, &seen, later, &policy());
            assert_eq!(submitted_run(&after.actions), Some(first), "{context}: by a new process");
        }
    }
}

/// States that nothing brings an application into yet; KF's operator may have left one there.
#[test]
fn states_that_are_not_ours_are_left_alone() {
    for state in
        [State::PendingRerun, State::Invalidating, State::Suspending, State::Suspended, State::Resuming]
    {
        let application = pi(&Map::new(), Some(json!({"applicationState": {"state": state}})));
        let seen = nothing();
        let plan = lifecycle::next(&application, &seen, begin(), &policy());
        assert_eq!((plan.actions, plan.events), (Vec::new(), Vec::new()), "{state}");
        assert_eq!(Some(plan.status), application.status, "{state}");
    }
}

/// What the controller did not ask about, it did not see; a state that then waits for an answer would wait
/// forever.
#[test]
fn whoever_decides_on_the_driver_asks_for_it() {
    for state in State::ALL {
        let application =
            pi(&Map::new(), Some(json!({"applicationState": {"state": state}, "submissionID": "1"})));
        let plan_seeing = |driver| {
            let seen = Observed { driver, ..nothing() };
            lifecycle::next(&application, &seen, begin(), &policy())
        };
        let depends = plan_seeing(Driver::Unseen) != plan_seeing(Driver::Gone);
        assert_eq!(depends, questions(state).driver, "{state}");
    }
}

#[test]
fn a_run_has_one_id_and_no_other_run_has_it() {
    let run = |uid: &str, spec: Value, ordinal: Option<i64>| {
        let mut application =
            pi(spec.as_object().unwrap(), ordinal.map(|ordinal| json!({"runOrdinal": ordinal})));
        application.metadata.uid = Some(uid.to_owned());
        Run::next(&application)
    };
    let first = run(UID, json!({}), None);
    assert_eq!(first, run(UID, json!({}), None));
    assert_eq!(first.ordinal, 1);
    assert_eq!(uuid_version(&first), '5');
    let others = [
        run("6c1f0b5e-0000-4000-8000-000000000002", json!({}), None),
        run("not a UUID", json!({}), None),
        run(UID, json!({"arguments": ["1"]}), None),
        run(UID, json!({}), Some(1)),
        run(UID, json!({"arguments": ["1"]}), Some(1)),
    ];
    let mut ids: Vec<_> = others.iter().chain([&first]).map(|run| &run.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), others.len() + 1);
    // Neither makes another run of it.
    assert_eq!(run(UID, json!({"suspend": false, "timeToLiveSeconds": 5}), None).id, first.id);
}

fn uuid_version(run: &Run) -> char {
    run.id.as_str().chars().nth(14).unwrap()
}

type Told<'s> = (SignedDuration, SparkApplication, Observed, Plan, &'s Expected);

/// Each step: when, the application before it, what was seen, and what was planned. Its status is the next
/// step's.
fn told(story: &Story) -> Vec<Told<'_>> {
    let mut application = pi(&story.spec, story.status.clone());
    let mut told = Vec::new();
    for Step { at, observed: seen, expect } in &story.steps {
        let seen = observed(seen, &application);
        let plan = lifecycle::next(&application, &seen, begin() + *at, &policy());
        let status = plan.status.clone();
        told.push((*at, application.clone(), seen, plan, expect));
        application.status = Some(status);
    }
    told
}

/// The short form of an action: what, and what of.
fn shown(action: &Action) -> String {
    match action {
        Action::Submit(request) => format!("submit #{}", request.run.ordinal),
        Action::DeleteDriver { uid, .. } => format!("delete driver {uid}"),
        Action::DeleteChildren(_) => "delete children".to_owned(),
    }
}

/// An event as far as `expected` tells of it; what happened to a pod names it.
fn shortened(event: &Event, expected: Option<&String>) -> String {
    let is_of_pod = event.reason.starts_with("SparkDriver") || event.reason.starts_with("SparkExecutor");
    assert_eq!(event.pod.is_some(), is_of_pod, "{event:?}");
    if expected.is_some_and(|expected| expected.contains(": ")) {
        format!("{}: {}", event.reason, event.note)
    } else {
        event.reason.to_owned()
    }
}

fn submitted_run(actions: &[Action]) -> Option<Run> {
    actions.iter().find_map(|action| match action {
        Action::Submit(request) => Some(request.run.clone()),
        Action::DeleteDriver { .. } | Action::DeleteChildren(_) => None,
    })
}

/// What is seen once the actions have been carried out, and nothing else has happened.
fn taken_effect(mut seen: Observed, actions: &[Action]) -> Observed {
    for action in actions {
        match action {
            Action::Submit(request) => {
                let id = request.run.id.clone();
                seen.submission = Some(Submission { id, progress: SubmissionProgress::Running });
            }
            Action::DeleteDriver { name, uid } => match &mut seen.driver {
                Driver::Pod { pod, .. } if (&pod.name, &pod.uid) == (name, uid) => pod.terminating = true,
                other => panic!("{action:?} of {other:?}"),
            },
            // Nobody looks at them.
            Action::DeleteChildren(_) => {}
        }
    }
    seen
}

/// What nobody has looked for.
fn nothing() -> Observed {
    let surroundings = Surroundings::default();
    Observed { driver: Driver::Unseen, executors: Vec::new(), submission: None, surroundings }
}

fn observed(seen: &Seen, application: &SparkApplication) -> Observed {
    let recorded = application.status.as_ref().and_then(|status| status.submission_id.clone());
    let id: SubmissionId = match (application.state(), recorded) {
        (State::New, _) | (_, None) => Run::next(application).id,
        (_, Some(recorded)) => serde_json::from_value(recorded.into()).unwrap(),
    };
    let driver = match seen.driver.as_str() {
        Some("gone") => Driver::Gone,
        Some("unseen") => Driver::Unseen,
        Some(other) => panic!("a driver is not {other}"),
        None => {
            let owner = json!({"kind": "SparkApplication", "name": "pi", "uid": UID});
            let pod = json!({"name": "pi-driver", "uid": "d1", "role": "driver", "controller": owner});
            Driver::Pod { pod: Box::new(record(pod, &seen.driver, &id)), complete: seen.complete }
        }
    };
    let executors = seen.executors.iter().map(|(name, differs)| {
        let owner = json!({"kind": "Pod", "name": "pi-driver", "uid": "d1"});
        record(json!({"name": name, "uid": name, "role": "executor", "controller": owner}), differs, &id)
    });
    let submission = seen.submission.clone().map(|progress| Submission {
        id: seen.submission_of.clone().unwrap_or_else(|| id.clone()),
        progress: match progress {
            Progress::Running => SubmissionProgress::Running,
            Progress::Succeeded => SubmissionProgress::Succeeded { spark_application_id: None },
            Progress::DriverExists => SubmissionProgress::DriverExists,
            Progress::Failed(why) => SubmissionProgress::Failed(why),
        },
    });
    Observed { driver, executors: executors.collect(), submission, surroundings: Surroundings::default() }
}

/// A pod of the run `id` but for what `differs` (RFC 7386). A pod that is in phase Running has started.
fn record(mut pod: Value, differs: &Value, id: &SubmissionId) -> PodRecord {
    pod["application"] = "pi".into();
    pod["submissionId"] = id.as_str().into();
    json_patch::merge(&mut pod, differs);
    let mut record: PodRecord = serde_json::from_value(pod).unwrap();
    record.started |= record.phase == Phase::Running || record.ended.is_some();
    record
}

fn pi(spec: &Map<String, Value>, status: Option<Value>) -> SparkApplication {
    let metadata = json!({"name": "pi", "namespace": "default", "uid": UID, "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

/// The stories are the same whoever submits; `spark-submit` takes any application.
fn policy() -> Policy {
    Policy { submitter: Submitter::SparkSubmit, ..Policy::new("k8s://https://10.96.0.1:443") }
}

/// When every story begins.
fn begin() -> Timestamp {
    "2026-11-21T08:00:00Z".parse().unwrap()
}

const fn yes() -> bool {
    true
}

fn stories() -> impl Iterator<Item = (String, Story)> {
    let mut files: Vec<_> =
        fs::read_dir(data("lifecycle")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files.into_iter().map(|file| (file.file_stem().unwrap().to_string_lossy().into_owned(), yaml(&file)))
}
