//! Tests what the operator does with the pods of an application that is being deleted or no longer exists.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plan::{Action, lifecycle::after_deletion, pod_summary::PodSummary};
use serde_json::{Value, from_value, json};

#[test]
fn the_pods_of_one_that_is_gone_go() {
    let pods = [driver("old", &json!({"protected": true})), executor("run-of-old"), executor("run-of-old")];
    let expected = ["delete driver of old", "release driver of old", "delete executors of run-of-old"];
    assert_eq!(told(&pods, None), expected);
    let deleted =
        json!({"uid": "old", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/x"]});
    assert_eq!(told(&pods, Some(&deleted)), expected);
    let going = [driver("old", &json!({"terminating": true}))];
    assert_eq!(told(&going, None), Vec::<String>::new());
    let driverless = [executor("run-of-old")];
    assert_eq!(told(&driverless, None), ["delete executors of run-of-old"]);
}

#[test]
fn the_pods_of_whoever_has_its_name_now_stay() {
    let there = json!({"uid": "new"});
    let pods = [
        driver("old", &json!({})),
        driver("new", &json!({"protected": true})),
        executor("run-of-old"),
        executor("run-of-new"),
    ];
    assert_eq!(told(&pods, Some(&there)), ["delete driver of old", "delete executors of run-of-old"]);
    // Without a driver, the operator cannot know whether these executors belong to the old or to the new application.
    // Kubernetes' garbage collection deletes them if their owner is gone.
    assert_eq!(told(&[executor("run-of-old")], Some(&there)), Vec::<String>::new());
}

#[test]
fn pods_that_are_kept_on_purpose_stay() {
    let pods = [driver("old", &json!({"protected": true})), executor("run-of-old")];
    let orphaning =
        json!({"uid": "old", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]});
    assert_eq!(told(&pods, Some(&orphaning)), ["release driver of old"]);
    for controller in [Value::Null, json!({"kind": "ReplicaSet", "name": "pi", "uid": "web"})] {
        let orphaned = [driver("old", &json!({"controller": controller})), executor("run-of-old")];
        assert_eq!(told(&orphaned, None), Vec::<String>::new());
    }
}

fn told(pods: &[PodSummary], there: Option<&Value>) -> Vec<String> {
    let there: Option<ObjectMeta> = there.map(|there| from_value(there.clone()).unwrap());
    let told = after_deletion(pods, there.as_ref()).into_iter().map(|action| match action {
        Action::DeletePod { uid, .. } => format!("delete driver of {uid}"),
        Action::ProtectDriver { uid, protect: false, .. } => format!("release driver of {uid}"),
        Action::DeleteExecutors { submission_id } => format!("delete executors of {submission_id}"),
        other => panic!("{other:?}"),
    });
    told.collect()
}

/// Returns the driver of the application with the uid `uid`. The driver pod has the same uid.
fn driver(uid: &str, differs: &Value) -> PodSummary {
    let mut pod = json!({
        "name": "pi-driver",
        "uid": uid,
        "application": "pi",
        "role": "driver",
        "submissionId": format!("run-of-{uid}"),
        "controller": {"kind": "SparkApplication", "name": "pi", "uid": uid},
    });
    for (key, value) in differs.as_object().unwrap() {
        pod[key] = value.clone();
    }
    from_value(pod).unwrap()
}

fn executor(run: &str) -> PodSummary {
    from_value(json!({"name": "exec", "application": "pi", "role": "executor", "submissionId": run})).unwrap()
}
