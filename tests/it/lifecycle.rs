//! Tests the lifecycle of an application. Each story in `tests/data/lifecycle` is a sequence of observations with the
//! expected plans.

use crate::{
    extensions::{extensions, recalled},
    prelude::*,
};
use api::{ExecutorState, RunRecord, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::{
    Action, Driver, Observed, Plan, PodPatch, Submission, SubmissionProgress,
    auxiliary::AuxiliaryObjects,
    events::Event,
    executor_trial::Trial,
    executors::MOST_EXECUTORS,
    extension::AT_ONCE,
    lifecycle::{self, questions},
    submission_plan::Submitter,
};
use pods::{Phase, Placement};
use submission::run::SubmissionId;

const UID: &str = "6c1f0b5e-0000-4000-8000-000000000001";

/// The content of one file in `tests/data/lifecycle`. The application is called `pi`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Story {
    #[serde(default)]
    spec: Map<String, Value>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// The admin's settings that differ from the defaults.
    #[serde(default)]
    policy: Admin,
    /// When the application was created.
    created: Option<Timestamp>,
    /// The status at the beginning of the story. If missing, the operator has recorded nothing yet.
    status: Option<Value>,
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Admin {
    default_time_to_live_seconds: Option<i64>,
    default_service_account: bool,
    driver_pdb: bool,
    protect_driver_outcome: bool,
    executor_limit: Option<usize>,
    kubernetes_gangs: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// The time since the beginning of the story.
    at: SignedDuration,
    /// The user's changes to the spec and annotations before this step (RFC 7386). The generation counts edits of the
    /// spec.
    edit: Option<Value>,
    annotate: Option<BTreeMap<String, String>>,
    observed: Seen,
    expect: Expected,
}

/// The observation of a step. A pod is written as the fields in which it differs from the usual pod of this run.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Seen {
    /// `gone`, `unseen` or a pod.
    driver: Value,
    /// Whether the driver belongs to the run in the status, and not to the next run.
    of_recorded_run: bool,
    #[serde(default = "yes")]
    complete: bool,
    executors: BTreeMap<String, Value>,
    /// Other pods of the application. By default they are executors of the recorded run.
    strays: BTreeMap<String, Value>,
    /// The submission pods, by their names.
    submission_pods: BTreeMap<String, Value>,
    /// The placeholders, pods that reserve room for executors, by their names.
    placeholders: BTreeMap<String, Value>,
    /// Placeholders and executors of another application, by their names.
    elsewhere: BTreeMap<String, Value>,
    /// The nodes to which executors were nominated, which the watch has not reported yet.
    nominations: BTreeMap<String, String>,
    /// When the operator first saw executors with their gates, if not at their creation.
    waiting_since: BTreeMap<String, Timestamp>,
    /// The last observation of a driver that is gone.
    departed: Option<Value>,
    start_failure: Option<String>,
    /// The API server's answer to the trial creation of an executor: `accepted`, or reason and message of its refusal.
    executor_trial: Option<String>,
    /// The time since the status was last written.
    recorded: Option<SignedDuration>,
    made: bool,
    submission: Option<Progress>,
    /// The run that was submitted, if it is not the current run.
    submission_of: Option<SubmissionId>,
    /// The time by the API server's clock, since the beginning of the story.
    server_time: Option<SignedDuration>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Progress {
    Running,
    Succeeded,
    PodMade,
    DriverExists,
    Failed(String),
}

/// The expected plan. Everything in the plan is compared, except optional fields that the file leaves out.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expected {
    state: State,
    message: Option<String>,
    #[serde(default)]
    actions: Vec<String>,
    /// Each event is a reason alone, or `reason: note`.
    #[serde(default)]
    events: Vec<String>,
    wake: Option<SignedDuration>,
    /// The time since the beginning of the story at which the application ended.
    terminated: Option<SignedDuration>,
    executors: Option<BTreeMap<String, ExecutorState>>,
    spark_application_id: Option<String>,
    /// The number of execution attempts, and also of submission attempts.
    attempts: Option<i32>,
    /// The conditions by their types: status and reason.
    conditions: Option<BTreeMap<String, String>>,
    /// All runs that are recorded: ordinal, cause and outcome.
    runs: Option<Vec<String>>,
}

#[test]
fn every_story_gives_the_expected_plans() {
    let differing: Vec<_> = stories()
        .filter_map(|(name, story)| {
            std::panic::catch_unwind(|| gives_the_expected_plans(&name, &story)).err().map(|_| name)
        })
        .collect();
    assert_eq!(differing, Vec::<String>::new(), "the first difference of each is printed above");
}

fn gives_the_expected_plans(name: &str, story: &Story) {
    for (at, _, _, plan, expect) in told(story) {
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
        if let Some(conditions) = &expect.conditions {
            let found = status.conditions.iter().map(|condition| {
                (condition.type_.clone(), format!("{} {}", condition.status, condition.reason))
            });
            assert_eq!(&found.collect::<BTreeMap<_, _>>(), conditions, "{context}");
        }
        if let Some(runs) = &expect.runs {
            assert_eq!(&status.runs.iter().map(described).collect::<Vec<_>>(), runs, "{context}");
        }
        if let Some(terminated) = expect.terminated {
            assert_eq!(status.termination_time.as_ref().unwrap().0, begin() + terminated, "{context}");
        }
    }
}

/// Facts that are recorded already cause no writes, events or actions. The next plans leave a state in which nothing is
/// to be waited for at once.
#[test]
fn after_a_plan_has_taken_effect_nothing_more_is_planned() {
    for (name, story) in stories() {
        for (at, mut application, mut seen, plan, _) in told(&story) {
            let policy = policy(story.policy);
            let mut told: Vec<_> = plan.events.clone();
            seen = taken_effect(seen, &plan.actions);
            application.status = Some(plan.status);
            let mut passes = 0;
            loop {
                let again = lifecycle::next(&application, &seen, begin() + at, &policy);
                let context = format!("{name} at {at:#}: {again:?}");
                assert!(again.events.iter().all(|event| !told.contains(event)), "{context}");
                if again.actions.is_empty() && application.status.as_ref() == Some(&again.status) {
                    assert_eq!(again.events, [], "{context}");
                    break;
                }
                // The application is gone, so there is no further plan.
                if again.actions == [Action::DeleteApplication] {
                    break;
                }
                passes += 1;
                assert!(passes < 6, "{context}: no end");
                told.extend(again.events);
                seen = taken_effect(seen, &again.actions);
                application.status = Some(again.status);
            }
        }
    }
}

/// A process that knows its submission submits nothing again. A new process submits the same run, and no other.
#[test]
fn a_lost_status_write_or_a_crash_submits_nothing_else() {
    for (name, story) in stories() {
        for (at, application, seen, plan, _) in told(&story) {
            let Some(first) = submitted_run(&plan.actions) else { continue };
            let context = format!("{name} at {at:#}");
            let policy = policy(story.policy);
            let remembered = taken_effect(seen.clone(), &plan.actions);
            let after = lifecycle::next(&application, &remembered, begin() + at, &policy);
            assert_eq!(submitted_run(&after.actions), None, "{context}: while it runs");
            let later = begin() + at + SignedDuration::from_hours(1);
            let after = lifecycle::next(&application, &seen, later, &policy);
            assert_eq!(submitted_run(&after.actions), Some(first), "{context}: by a new process");
        }
    }
}

/// The controller looks up the driver only if `questions` asks for it. A state that depends on the driver without
/// asking would wait for ever.
#[test]
fn a_state_that_depends_on_the_driver_asks_for_it() {
    for state in State::ALL {
        let status = json!({"applicationState": {"state": state}, "submissionID": "1"});
        let application = pi(&Map::new(), Some(status));
        let plan_seeing = |driver| {
            let seen = Observed { driver, ..Observed::default() };
            lifecycle::next(&application, &seen, begin(), &policy(Admin::default()))
        };
        let depends = plan_seeing(Driver::Unseen) != plan_seeing(Driver::Gone);
        // At this time a failed submission is not yet retried, so that its plan does not depend on the driver.
        assert_eq!(depends, questions(&application).driver && state != State::SubmissionFailed, "{state}");
    }
}

/// `make explore` found this: a run had two drivers, because the first was deleted together with its submission pod.
#[test]
fn all_pods_are_known_once_the_last_driver_that_was_seen_to_end_is_gone() {
    let run = Run::next(&pi(&Map::new(), None)).id;
    let status = json!({"applicationState": {"state": "PENDING_RERUN"}, "submissionID": run.as_str()});
    let mut application = pi(&Map::new(), Some(status));
    let driver = |uid: &str, phase| {
        record(json!({"name": "pi-driver", "role": "driver"}), &json!({"uid": uid, "phase": phase}), &run)
    };
    let first = driver("d1", "Failed");
    let seen = |pod| Driver::Pod { pod: Box::new(pod), complete: true };
    assert_eq!(lifecycle::ended_driver(&application, &Driver::Gone), None);
    assert_eq!(lifecycle::ended_driver(&application, &seen(driver("d2", "Running"))), None);
    assert_eq!(lifecycle::ended_driver(&application, &seen(first.clone())), Some(&first));

    let knows = |application: &_, ended| lifecycle::knows_all_pods(application, Some(&first), ended);
    assert!(knows(&application, Some("d1")));
    assert!(!knows(&application, Some("d2")));
    assert!(!knows(&application, None));
    assert!(!lifecycle::knows_all_pods(&application, None, Some("d1")));
    application.metadata.generation = Some(2);
    assert!(!knows(&application, Some("d1")));
}

/// The last of 101 executors is deleted by the next plan. An earlier version reported in the status that it would stay.
#[test]
fn a_pod_that_a_later_plan_deletes_is_not_reported_to_stay() {
    let spec = json!({"suspend": true});
    let status = json!({"applicationState": {"state": "SUSPENDING"}});
    let mut application = pi(spec.as_object().unwrap(), Some(status));
    application.metadata.creation_timestamp = Some(Time(begin()));
    let id = Run::next(&application).id;
    let owner = json!({"kind": "Pod", "name": "pi-driver", "uid": "d1"});
    let executor = |number| {
        let name = format!("pi-exec-{number}");
        let pod = json!({"name": name, "uid": name, "role": "executor", "controller": owner});
        record(pod, &json!({}), &id)
    };
    let strays = (0..=AT_ONCE).map(executor).collect();
    let seen = Observed { driver: Driver::Gone, strays, ..Observed::default() };
    let now = begin() + SignedDuration::from_secs(60);
    let plan = lifecycle::next(&application, &seen, now, &policy(Admin::default()));
    assert_eq!(plan.actions.len(), AT_ONCE);
    assert_eq!(plan.status.application_state.error_message, None);
}

/// A plan is limited, because other applications wait while the operator carries it out.
#[test]
#[cfg_attr(not(feature = "batch-schedulers"), ignore = "needs batch schedulers")]
fn a_plan_deletes_some_of_many_placeholders_and_the_next_plan_more() {
    let (_, story) = stories().find(|(name, _)| name == "placeholders-are-left").unwrap();
    let application = pi(&story.spec, story.status.clone());
    let step = story.steps.last().unwrap();
    let now = begin() + step.at;
    let mut seen = observed(&step.observed, &application, now);
    let one = seen.others[0].clone();
    let with_number = |number| PodSummary { name: format!("placeholder-{number}"), ..one.clone() };
    seen.others = (0..1000).map(with_number).collect();
    let next = |seen: &Observed| lifecycle::next(&application, seen, now, &policy(story.policy));
    for _ in 0..10 {
        let Plan { actions, wake, .. } = next(&seen);
        assert_eq!((actions.len(), wake), (100, Some(Duration::from_secs(1))));
        seen = taken_effect(seen, &actions);
    }
    // The last action is that for the executor with a gate.
    assert_eq!(next(&seen).actions.len(), 1);
}

#[test]
#[cfg_attr(not(feature = "batch-schedulers"), ignore = "needs batch schedulers")]
fn a_plan_creates_some_of_many_lost_placeholders() {
    let (_, mut story) = stories().find(|(name, _)| name == "placeholders-are-lost").unwrap();
    story.spec["executor"]["instances"] = json!(1000);
    let application = pi(&story.spec, story.status.clone());
    let step = story.steps.last().unwrap();
    let now = begin() + step.at;
    let seen = observed(&step.observed, &application, now);
    let plan = lifecycle::next(&application, &seen, now, &policy(story.policy));
    let [Action::MakeCopies { numbers, .. }] = &plan.actions[..] else { panic!("{plan:?}") };
    assert_eq!(*numbers, (2..=101).collect::<Vec<_>>());
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
    assert_eq!(first.id.as_str().chars().nth(14), Some('5'), "the version of the UUID");
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
    // A change of these fields starts no new run.
    assert_eq!(run(UID, json!({"suspend": false, "timeToLiveSeconds": 5}), None).id, first.id);
}

/// Describes a run: `1 Created: FAILED Error (exit code 1) as spark`, with the default account that its driver has.
fn described(run: &RunRecord) -> String {
    let outcome = match (run.state, &run.reason) {
        (Some(state), Some(reason)) => format!(": {state} {reason}"),
        _ => String::new(),
    };
    let exit_code = run.exit_code.map_or_else(String::new, |code| format!(" (exit code {code})"));
    let account = run.default_service_account.as_ref().map(|account| format!(" as {account}"));
    let cause = run.cause.as_deref().unwrap_or("unknown");
    format!("{} {cause}{outcome}{exit_code}{}", run.ordinal, account.unwrap_or_default())
}

type Told<'s> = (SignedDuration, SparkApplication, Observed, Plan, &'s Expected);

/// Returns for each step the time, the application before the step, the observation, the plan and the expected plan.
/// The status of the plan is the status before the next step.
fn told(story: &Story) -> Vec<Told<'_>> {
    let mut application = pi(&story.spec, story.status.clone());
    application.metadata.labels = Some(story.labels.clone());
    application.metadata.creation_timestamp = story.created.map(Time);
    let mut told = Vec::new();
    for Step { at, edit, annotate, observed: seen, expect } in &story.steps {
        if let Some(edit) = edit {
            edited(&mut application, edit);
        }
        if let Some(annotations) = annotate {
            application.metadata.annotations.get_or_insert_default().extend(annotations.clone());
        }
        let seen = observed(seen, &application, begin() + *at);
        let plan = lifecycle::next(&application, &seen, begin() + *at, &policy(story.policy));
        let status = plan.status.clone();
        told.push((*at, application.clone(), seen, plan, expect));
        application.status = Some(status);
    }
    told
}

/// A step of a story: the story and the time, the application before the step, the observation, and the plan.
pub(crate) type Decided = (String, SparkApplication, Observed, Plan);

/// Returns each step of every story.
pub(crate) fn steps() -> Vec<Decided> {
    let of_story = |(name, story): (String, Story)| {
        let steps = told(&story).into_iter();
        let step = |(at, application, seen, plan, _): Told<'_>| {
            (format!("{name} at {at:#}"), application, seen, plan)
        };
        steps.map(step).collect::<Vec<_>>()
    };
    stories().flat_map(of_story).collect()
}

/// Returns the short form of an action: the verb, and its object.
fn shown(action: &Action) -> String {
    match action {
        Action::Submit(request) => format!("submit #{}", request.run.ordinal),
        Action::StopSubmission => "stop submission".to_owned(),
        Action::DeletePod { name, uid } if name.ends_with("-submission") => {
            format!("delete submission pod {uid}")
        }
        Action::DeletePod { name, uid } if name.contains("placeholder") || name.contains("-exec-") => {
            format!("delete {uid}")
        }
        Action::DeletePod { uid, .. } => format!("delete driver {uid}"),
        Action::PatchPod { name, patch, .. } => match nomination(patch) {
            Some(node) => format!("nominate {name} to {node}"),
            None => format!("ungate {name}"),
        },
        Action::RenewTemplate { uid, .. } => format!("renew the template of driver {uid}"),
        Action::Make(objects) => format!("make {} objects", objects.len()),
        Action::MakeCopies { numbers, .. } => format!("make placeholders {numbers:?}"),
        Action::DeleteChildren(_) => "delete children".to_owned(),
        Action::ProtectDriver { uid, protect, .. } => {
            format!("{} driver {uid}", if *protect { "protect" } else { "release" })
        }
        Action::DeleteApplication => "delete application".to_owned(),
    }
}

/// Returns the node to which `patch` nominates a pod; `None` if it removes the pod's gate.
fn nomination(patch: &PodPatch) -> Option<&str> {
    let PodPatch::Status(patch) = patch else { return None };
    patch["status"]["nominatedNodeName"].as_str()
}

/// Returns an event's reason, and also its note if `expected` has one (`Reason: note`), so that both can be compared.
///
/// # Panics
///
/// If an event about a pod does not name the pod, or another event names one.
fn shortened(event: &Event, expected: Option<&String>) -> String {
    let of_pods = ["SparkDriver", "SparkExecutor", "SparkSubmission"];
    let is_of_pod = of_pods.iter().any(|prefix| event.reason.starts_with(prefix))
        && !event.note.starts_with("Executors ");
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
        _ => None,
    })
}

/// Returns the observation after the actions have been carried out, if nothing else has happened.
fn taken_effect(mut seen: Observed, actions: &[Action]) -> Observed {
    for action in actions {
        match action {
            Action::Submit(request) => {
                let id = request.run.id.clone();
                seen.submission = Some(Submission { id, progress: SubmissionProgress::Running });
            }
            Action::StopSubmission => seen.submission = None,
            Action::DeletePod { name, uid } => {
                let driver = match &mut seen.driver {
                    Driver::Pod { pod, .. } => Some(&mut **pod),
                    Driver::Unseen | Driver::Gone => None,
                };
                let pods = driver.into_iter().chain(&mut seen.strays).chain(&mut seen.submission_pods);
                let pods = pods.chain(&mut seen.others).chain(&mut seen.executors);
                // A submission pod of another run is among the strays and among the submission pods.
                let pods: Vec<_> = pods.filter(|pod| (&pod.name, &pod.uid) == (name, uid)).collect();
                assert!(!pods.is_empty(), "{action:?} of nothing");
                pods.into_iter().for_each(|pod| pod.terminating = true);
            }
            Action::ProtectDriver { protect, .. } => match &mut seen.driver {
                Driver::Pod { pod, .. } => pod.protected = *protect,
                other => panic!("{action:?} of {other:?}"),
            },
            Action::PatchPod { name, patch, .. } => match nomination(patch) {
                Some(node) => placement(&mut seen, name).nominated = Some(node.to_owned()),
                None => placement(&mut seen, name).gate = None,
            },
            Action::RenewTemplate { template, .. } => match &mut seen.driver {
                Driver::Pod { pod, .. } => {
                    let mark = (annotation::TEMPLATE.to_owned(), template.fingerprint());
                    pod.particulars.get_or_insert_default().marks = [mark].into();
                }
                other => panic!("{action:?} of {other:?}"),
            },
            Action::Make(_) => seen.made = true,
            Action::MakeCopies { copies, numbers } => {
                let made = numbers.iter().map(|number| copies.with_number(*number));
                let made = made.map(|pod| PodSummary::of(&serde_json::from_value(pod).unwrap()));
                seen.others.extend(made);
            }
            // Children are not part of the observation, and a deleted application is not observed any more.
            Action::DeleteChildren(_) | Action::DeleteApplication => {}
        }
    }
    seen
}

fn placement<'a>(seen: &'a mut Observed, executor: &str) -> &'a mut Placement {
    let executor = seen.executors.iter_mut().find(|pod| pod.name == executor).expect(executor);
    executor.particulars.as_mut().unwrap().placement.as_mut().expect("a gated executor has a placement")
}

/// Applies an edit to the spec. Fields that the edit removes are null.
fn edited(application: &mut SparkApplication, edit: &Value) {
    let mut spec = json!(application.spec);
    json_patch::merge(&mut spec, edit);
    application.spec = serde_json::from_value(spec).unwrap();
    application.metadata.generation = application.metadata.generation.map(|generation| generation + 1);
}

fn observed(seen: &Seen, application: &SparkApplication, now: Timestamp) -> Observed {
    let recorded = application.status.as_ref().and_then(|status| status.submission_id.clone());
    let recorded: Option<SubmissionId> = recorded.map(|id| serde_json::from_value(id.into()).unwrap());
    let id: SubmissionId = match (application.state(), recorded.clone()) {
        (State::New | State::PendingRerun | State::Resuming | State::SubmissionFailed, _) | (_, None) => {
            Run::next(application).id
        }
        (_, Some(recorded)) => recorded,
    };
    let recorded = recorded.unwrap_or_else(|| serde_json::from_value(json!("unrecorded")).unwrap());
    let driver = match seen.driver.as_str() {
        Some("gone") => Driver::Gone,
        Some("unseen") => Driver::Unseen,
        Some(other) => panic!("a driver is not {other}"),
        None => {
            let owner = json!({"kind": "SparkApplication", "name": "pi", "uid": UID});
            let pod = json!({"name": "pi-driver", "uid": "d1", "role": "driver", "controller": owner});
            let run = if seen.of_recorded_run { &recorded } else { &id };
            Driver::Pod { pod: Box::new(record(pod, &seen.driver, run)), complete: seen.complete }
        }
    };
    let pods = |pods: &BTreeMap<String, Value>, fields: &Value, id: &SubmissionId| -> Vec<PodSummary> {
        let pod = |(name, differs): (&String, &Value)| {
            let mut pod = json!({"name": name, "uid": name});
            json_patch::merge(&mut pod, fields);
            record(pod, differs, id)
        };
        pods.iter().map(pod).collect()
    };
    let executor =
        json!({"role": "executor", "controller": {"kind": "Pod", "name": "pi-driver", "uid": "d1"}});
    let executors = pods(&seen.executors, &executor, &id);
    let owned = json!({"controller": {"kind": "SparkApplication", "name": "pi", "uid": UID}});
    let submits = json!({"submits": true, "controller": owned["controller"]});
    let submission = seen.submission.clone().map(|progress| Submission {
        id: seen.submission_of.clone().unwrap_or_else(|| id.clone()),
        progress: match progress {
            Progress::Running => SubmissionProgress::Running,
            Progress::Succeeded => SubmissionProgress::Succeeded { spark_application_id: None },
            Progress::PodMade => SubmissionProgress::PodMade,
            Progress::DriverExists => SubmissionProgress::DriverExists,
            Progress::Failed(why) => SubmissionProgress::Failed(why),
        },
    });
    let departed = seen.departed.as_ref().map(|differs| {
        let pod = json!({"name": "pi-driver", "uid": "d1", "role": "driver"});
        Box::new(record(pod, differs, &id))
    });
    let gated = executors.iter().filter(|pod| pod.placement().is_some_and(|own| own.gate.is_some()));
    let waits = gated.map(|pod| {
        let since = seen.waiting_since.get(&pod.name).copied().or(pod.created).unwrap_or(now);
        (pod.uid.clone(), since, seen.nominations.get(&pod.name).cloned())
    });
    Observed {
        driver,
        executors: executors.clone(),
        strays: pods(&seen.strays, &executor, &recorded),
        submission_pods: pods(&seen.submission_pods, &submits, &id),
        others: pods(&seen.placeholders, &owned, &id),
        recalled: recalled(&pods(&seen.elsewhere, &json!({}), &id), waits),
        departed,
        start_failure: seen.start_failure.clone(),
        executor_trial: seen.executor_trial.as_ref().map(|answer| match answer.split_once(": ") {
            Some((reason, why)) => Trial::Refused { reason: reason.to_owned(), why: why.to_owned() },
            None => Trial::Accepted,
        }),
        recorded: seen.recorded.map(|ago| now - ago),
        made: seen.made,
        auxiliary: AuxiliaryObjects::default(),
        submission,
        submission_environment: SubmissionEnvironment::default(),
        defaults: Some(String::new()),
        server_time: seen.server_time.map(|since| begin() + since),
    }
}

/// Returns a pod of the run `id` with the changes of `differs` (RFC 7386). A pod in phase Running has started.
fn record(mut pod: Value, differs: &Value, id: &SubmissionId) -> PodSummary {
    pod["application"] = "pi".into();
    pod["submissionId"] = id.as_str().into();
    json_patch::merge(&mut pod, differs);
    let mut record: PodSummary = serde_json::from_value(pod).unwrap();
    record.started |= record.phase == Phase::Running || record.ended.is_some();
    record
}

fn pi(spec: &Map<String, Value>, status: Option<Value>) -> SparkApplication {
    let mut spec = spec.clone();
    // An application without an image cannot be submitted.
    spec.entry("image").or_insert_with(|| "spark".into());
    let metadata = json!({"name": "pi", "namespace": "default", "uid": UID, "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

/// Returns a story's policy. The lifecycle is the same for all submitters, and `spark-submit` accepts any application.
fn policy(admin: Admin) -> Policy {
    Policy {
        submitter: Submitter::SparkSubmit,
        default_time_to_live_seconds: admin.default_time_to_live_seconds,
        default_service_account: admin.default_service_account.then(|| "spark".to_owned()),
        has_driver_pdb: admin.driver_pdb,
        protects_driver_outcome: admin.protect_driver_outcome,
        extensions: extensions(admin.kubernetes_gangs),
        executor_limit: admin.executor_limit.unwrap_or(MOST_EXECUTORS),
        ..Policy::new("k8s://https://10.96.0.1:443")
    }
}

/// Returns the time at which every story begins.
fn begin() -> Timestamp {
    "2026-11-21T08:00:00Z".parse().unwrap()
}

const fn yes() -> bool {
    true
}

fn stories() -> impl Iterator<Item = (String, Story)> {
    let files = entries(data("lifecycle"));
    assert!(!files.is_empty());
    let named =
        files.into_iter().map(|file| (file.file_stem().unwrap().to_string_lossy().into_owned(), file));
    let is_about_gangs = |name: &str| name.starts_with("gang") || name.starts_with("placeholders");
    named
        .filter(move |(name, _)| cfg!(feature = "batch-schedulers") || !is_about_gangs(name))
        .map(|(name, file)| (name, yaml(&file)))
}
