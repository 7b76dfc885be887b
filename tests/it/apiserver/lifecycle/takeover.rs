//! Tests what happens to the applications of Kubeflow's operator (2.x) when this operator replaces Kubeflow's.

use super::{application, complaints, ended, runs, submitted};
use crate::apiserver::{definitions, prelude::*};

/// A submission id as Kubeflow generates it.
pub(crate) const ID: &str = "5f3c1a52-77aa-4f0b-9b5c-0b1f6f0c2d11";

/// The states in which no run is to be submitted; at most a driver is to be followed.
const BEGUN: [&str; 8] =
    ["SUBMITTED", "RUNNING", "UNKNOWN", "SUCCEEDING", "FAILING", "COMPLETED", "FAILED", "SUSPENDED"];
/// The states in which Kubeflow's operator is about to submit a run.
const DUE: [&str; 4] = ["PENDING_RERUN", "INVALIDATING", "SUBMISSION_FAILED", "RESUMING"];

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn applications_of_kubeflows_operator_are_taken_over_and_each_run_happens_once() {
    let begun = Namespace::new("taken-over").await;
    let due = begun.beside("taken-over-early").await;
    let drained = begun.beside("drained").await;
    let executor = runs_have_begun(&begun).await;
    let before = begun.list::<Pod>().await.len();
    runs_are_due(&due).await;
    executors_will_lack_customizations(&drained).await;
    let whole = begun.beside("taken-over-whole").await;
    let stored = definitions::an_object_as_kubeflow_stores_it(&whole).await;

    let operator = Operator::start(&begun).await;
    no_run_is_repeated_and_running_drivers_are_followed_to_their_end(&begun, &executor, before).await;
    let others = [due.name, drained.name, whole.name];
    let of_others = |line: &&str| others.iter().any(|name| line.contains(name));
    let log = operator.log();
    let complaints = complaints(&log).into_iter().filter(|line| !of_others(line));
    assert_eq!(complaints.collect::<Vec<_>>(), Vec::<&str>::new());
    due_runs_are_submitted_once(&due).await;
    what_executors_lack_is_reported_once(&drained).await;
    definitions::is_kept_but_for_its_status(&whole, &stored).await;
}

/// Creates an application in each state of [`BEGUN`], with its driver. Returns the name of the
/// executor of the running one.
async fn runs_have_begun(namespace: &Namespace) -> String {
    for state in BEGUN {
        let suspend = state == "SUSPENDED";
        kubeflows(namespace, &state.to_lowercase(), state, &json!({"suspend": suspend})).await;
        if !suspend {
            drivers(namespace, &state.to_lowercase()).await;
        }
    }
    kubelet::runs(namespace, "running-driver").await;
    kubelet::runs(namespace, "unknown-driver").await;
    for (name, exit_code) in [("succeeding", 0), ("completed", 0), ("failing", 1), ("failed", 1)] {
        kubelet::ends(namespace, &format!("{name}-driver"), exit_code).await;
    }
    let executor = executor_of(namespace, "running").await;
    kubelet::runs(namespace, &executor).await;
    executor
}

async fn no_run_is_repeated_and_running_drivers_are_followed_to_their_end(
    namespace: &Namespace,
    executor: &str,
    before: usize,
) {
    for (name, state) in [
        ("submitted", "SUBMITTED"),
        ("running", "RUNNING"),
        ("unknown", "RUNNING"),
        ("succeeding", "COMPLETED"),
        ("failing", "FAILED"),
        ("completed", "COMPLETED"),
        ("failed", "FAILED"),
        ("suspended", "SUSPENDED"),
    ] {
        let taken = json!({
            "applicationState": {"state": state}, "observedGeneration": 1, "submissionID": ID, "runOrdinal": null,
            "executionAttempts": 1, "submissionAttempts": 1,
        });
        namespace.status_has(name, &taken).await;
    }
    assert_eq!(namespace.list::<Pod>().await.len(), before);
    let has_one = |running: &Value| running["status"]["executorState"] == json!({executor: "RUNNING"});
    namespace.until::<SparkApplication>("running", "has one executor", has_one).await;

    kubelet::runs(namespace, "submitted-driver").await;
    for name in ["submitted", "running", "unknown"] {
        namespace.reaches(name, "RUNNING").await;
        let completed = namespace.completes(name).await;
        assert_eq!(completed["status"]["submissionID"], ID);
        assert_eq!(runs(&completed), [json!([0, null, "COMPLETED", "Completed", 0])]);
    }
    assert_eq!(
        namespace.drivers_ever().await.len(),
        BEGUN.len() - 1,
        "only the runs of Kubeflow's operator exist"
    );
}

/// Creates an application in each state of [`DUE`], and one that is being suspended.
async fn runs_are_due(namespace: &Namespace) {
    for state in DUE {
        let retry = json!({"type": "OnFailure", "onSubmissionFailureRetries": 3});
        kubeflows(namespace, &name_of(state), state, &json!({"restartPolicy": retry})).await;
    }
    kubeflows(namespace, "suspending", "SUSPENDING", &json!({"suspend": true})).await;
    for name in ["invalidating", "suspending"] {
        drivers(namespace, name).await;
    }
}

/// This operator does what Kubeflow's operator was about to do.
async fn due_runs_are_submitted_once(namespace: &Namespace) {
    namespace.reaches("suspending", "SUSPENDED").await;
    assert_eq!(namespace.pod("suspending-driver").await, None);
    for state in DUE {
        let submitted = submitted(namespace, &name_of(state), 1).await;
        assert_ne!(submitted["status"]["submissionID"], ID);
        ended(namespace, &name_of(state), 1, 0).await;
        namespace.reaches(&name_of(state), "COMPLETED").await;
    }
    assert_eq!(namespace.drivers_ever().await.len(), DUE.len() + 2);
}

/// Creates applications whose executors would be customized; asserts that `sparkctl` lists those that are to be drained.
async fn executors_will_lack_customizations(namespace: &Namespace) {
    let customized = json!({"executor": {
        "env": [{"name": "COLOUR", "value": "blue"}],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    }});
    for (name, state, spec) in [
        ("customized", "RUNNING", &customized),
        ("starting", "SUBMITTED", &customized),
        ("plain", "RUNNING", &json!({})),
        ("finished", "COMPLETED", &customized),
    ] {
        kubeflows(namespace, name, state, spec).await;
        drivers(namespace, name).await;
    }
    for name in ["customized", "plain"] {
        kubelet::runs(namespace, &format!("{name}-driver")).await;
    }
    let [table, complaints] = listed();
    let rows: Vec<_> = table.lines().collect();
    assert!(rows[0].ends_with("EXECUTORS LACK"), "{table}");
    assert!(rows[1].starts_with("customized ") && rows[1].ends_with("env, tolerations"), "{table}");
    assert!(rows[2].starts_with("starting ") && rows.len() == 3 && complaints.is_empty(), "{table}");
}

async fn what_executors_lack_is_reported_once(namespace: &Namespace) {
    for name in ["customized", "starting", "plain", "finished"] {
        namespace.status_has(name, &json!({"observedGeneration": 1})).await;
    }
    // The event is sent only once, whatever happens later.
    namespace.runs("starting").await;
    for name in ["customized", "starting", "plain"] {
        namespace.completes(name).await;
    }
    let told: Vec<_> = namespace
        .events()
        .await
        .into_iter()
        .filter(|event| event[1] == "SparkApplicationTakenOver")
        .collect();
    let note = |name: &str| {
        format!(
            "SparkApplication {name} was submitted by another operator: executors that its driver creates from now on lack \
             env, tolerations; to give it to them, let the application end, or edit its spec, which starts a new run"
        )
    };
    let mut notes: Vec<_> = told.iter().map(|event| &*event[3]).collect();
    notes.sort_unstable();
    assert_eq!(notes, [note("customized"), note("starting")]);
    let [table, complaints] = listed();
    assert_eq!(
        [&*table, &*complaints],
        ["", "No applications that need to be drained found in namespace drained.\n"]
    );
}

/// Returns standard output and standard error of `sparkctl list --needs-drain`, which lists the applications that have to
/// end before the takeover.
fn listed() -> [String; 2] {
    let output = program::run(sparkctl_program(), &["list", "--needs-drain", "-n", "drained"], "");
    assert!(output.status.success(), "{output:?}");
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
}

/// Creates an application as Kubeflow's operator leaves it in `state`.
async fn kubeflows(namespace: &Namespace, name: &str, state: &str, spec: &Value) {
    namespace.apply(&application(name, spec));
    let mut stored = namespace.application(name).await;
    stored["status"] = status_in(state, name);
    namespace.replace_status::<SparkApplication>(&stored).await;
}

/// Returns the status that Kubeflow's operator gives an application in `state`.
pub(crate) fn status_in(state: &str, name: &str) -> Value {
    left("status", [("{state}", state), ("{name}", name)])
}

/// Creates the application's driver.
async fn drivers(namespace: &Namespace, name: &str) {
    namespace.create::<Pod>(&driver_of(&namespace.application(name).await)).await;
}

/// Returns the driver of a stored application, as the `spark-submit` of Kubeflow's operator creates it.
pub(crate) fn driver_of(application: &Value) -> Value {
    let [name, uid] = ["name", "uid"].map(|field| application["metadata"][field].as_str().unwrap());
    left("driver", [("{name}", name), ("{uid}", uid)])
}

/// Creates an executor of the application's driver; returns the executor's name.
async fn executor_of(namespace: &Namespace, name: &str) -> String {
    let driver = namespace.pod(&format!("{name}-driver")).await.unwrap();
    let uid = driver["metadata"]["uid"].as_str().unwrap();
    namespace.create::<Pod>(&left("executor", [("{name}", name), ("{uid}", uid)])).await;
    format!("{name}-exec-1")
}

/// Returns a part of the objects that Kubeflow's operator leaves, with these placeholders replaced.
fn left(part: &str, words: [(&str, &str); 2]) -> Value {
    let text = fs::read_to_string(data("apiserver/taken-over.yaml")).unwrap();
    let text = words.into_iter().fold(text, |text, (word, by)| text.replace(word, by));
    serde_saphyr::from_str::<Value>(&text).unwrap()[part].take()
}

fn name_of(state: &str) -> String {
    state.to_lowercase().replace('_', "-")
}
