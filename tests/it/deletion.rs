//! Tests what the operator does with the pods of an application that is being deleted or no longer exists, or that the
//! operator ceases to drive.

use crate::{extensions::extensions, prelude::*};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use plan::{
    Action, PodPatch,
    lifecycle::{after_deletion, leave},
};
use serde_json::from_value;

#[test]
fn the_pods_of_one_that_is_gone_go() {
    let pods = [driver("old", &json!({"protected": true})), executor("old"), executor("old")];
    let expected =
        ["delete driver of old", "release driver of old", "delete exec of old", "delete exec of old"];
    assert_eq!(told(&pods, None), expected);
    let deleted =
        json!({"uid": "old", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/x"]});
    assert_eq!(told(&pods, Some(&deleted)), expected);
    let going = [driver("old", &json!({"terminating": true}))];
    assert_eq!(told(&going, None), Vec::<String>::new());
    let driverless = [executor("old")];
    assert_eq!(told(&driverless, None), ["delete exec of old"]);
    // Anybody who may create pods can write their labels.
    let labelled = PodSummary { controller: None, ..executor("old") };
    assert_eq!(told(&[labelled], None), Vec::<String>::new());
}

/// Spark's allocators `statefulset` and `deployment`: the driver owns the set, and the set its pods.
#[test]
fn the_executors_of_a_set_go_and_stay_with_their_driver() {
    for (kind, name) in [("StatefulSet", "spark-s-1-0"), ("ReplicaSet", "spark-d-1-0-5d5b")] {
        let of_set = |name: &str| {
            let set = json!({"kind": kind, "name": name, "uid": "set"});
            PodSummary { controller: from_value(set).unwrap(), ..executor("old") }
        };
        let going = [driver("old", &json!({})), of_set(name)];
        let expected = ["delete driver of old", "delete exec of old"];
        assert_eq!(told(&going, None), expected);
        assert_eq!(told(&going, Some(&json!({"uid": "new"}))), expected);
        let kept = [driver("old", &json!({"controller": null})), of_set(name)];
        assert_eq!(told(&kept, None), Vec::<String>::new());
        assert_eq!(told(&[of_set("web")], None), Vec::<String>::new(), "another set");
    }
}

#[test]
fn the_pods_of_whoever_has_its_name_now_stay() {
    let there = json!({"uid": "new"});
    let pods = [
        driver("old", &json!({})),
        driver("new", &json!({"protected": true})),
        executor("old"),
        executor("new"),
    ];
    assert_eq!(told(&pods, Some(&there)), ["delete driver of old", "delete exec of old"]);
    // Without a driver, the operator cannot know whether these executors belong to the old or to the new application.
    // Kubernetes' garbage collection deletes them if their owner is gone.
    assert_eq!(told(&[executor("old")], Some(&there)), Vec::<String>::new());
}

#[test]
fn pods_that_are_kept_on_purpose_stay() {
    let pods = [driver("old", &json!({"protected": true})), executor("old")];
    let orphaning =
        json!({"uid": "old", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]});
    assert_eq!(told(&pods, Some(&orphaning)), ["release driver of old"]);
    for controller in [Value::Null, json!({"kind": "ReplicaSet", "name": "pi", "uid": "web"})] {
        let driver = driver("old", &json!({"controller": controller}));
        let orphaned = [driver, executor("old")];
        assert_eq!(told(&orphaned, None), Vec::<String>::new());
    }
}

/// The driver goes on creating executors with the gate of gangs.
#[test]
#[cfg_attr(not(feature = "batch-schedulers"), ignore = "needs batch schedulers")]
fn executors_of_a_driver_that_is_kept_lose_their_gate() {
    let new = json!({"uid": "new"});
    for controller in [Value::Null, json!({"kind": "ReplicaSet", "name": "pi", "uid": "web"})] {
        let driver = driver("old", &json!({"controller": controller}));
        for there in [None, Some(&new)] {
            assert_eq!(told(&[driver.clone(), gated()], there), ["ungate exec"]);
        }
    }
    assert_eq!(told(&[driver("new", &json!({})), gated_of("new")], Some(&new)), Vec::<String>::new());
}

#[test]
#[cfg_attr(not(feature = "batch-schedulers"), ignore = "needs batch schedulers")]
fn placeholders_go_with_their_application() {
    let old = json!({"uid": "old", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]});
    let of = |controller: Value| placeholder(&controller);
    let owner = |kind: &str, uid: &str| json!({"kind": kind, "name": "pi", "uid": uid});
    let pods = [
        of(owner("SparkApplication", "old")),
        of(owner("SparkApplication", "new")),
        of(owner("ReplicaSet", "web")),
    ];
    let there = json!({"uid": "new"});
    assert_eq!(told(&pods, Some(&there)), ["delete placeholder of old"]);
    // The executors of orphans live on, and the garbage collector may have removed the owner already.
    let orphans = [of(Value::Null), of(owner("ReplicaSet", "web")), gated()];
    assert_eq!(told(&orphans, Some(&old)), ["delete placeholder of nobody", "ungate exec"]);
}

#[test]
#[cfg_attr(not(feature = "batch-schedulers"), ignore = "needs batch schedulers")]
fn executors_of_a_gang_that_nobody_drives_any_more_take_what_room_there_is() {
    let is_placed = json!({"protected": true, "assigned": "2026-01-01T00:00:00Z"});
    let own = placeholder(&json!({"kind": "SparkApplication", "name": "pi", "uid": "old"}));
    let other = placeholder(&json!({"kind": "ReplicaSet", "name": "pi", "uid": "web"}));
    let left = |driver: PodSummary| {
        let pods = [driver, own.clone(), other.clone(), gated(), executor("old")];
        shown(leave(&pods, "old", &policy()))
    };
    let expected = ["release driver of old", "delete placeholder of old", "ungate exec"];
    assert_eq!(left(driver("old", &is_placed)), expected);
    // The scheduler places the gang with its placeholders, or not at all.
    let waits = driver("old", &json!({"protected": true}));
    assert_eq!(left(waits), ["release driver of old", "ungate exec"]);
}

fn told(pods: &[PodSummary], there: Option<&Value>) -> Vec<String> {
    let there: Option<ObjectMeta> = there.map(|there| from_value(there.clone()).unwrap());
    shown(after_deletion(pods, there.as_ref(), &policy()))
}

fn policy() -> Policy {
    Policy { extensions: extensions(false), ..Policy::new("k8s://https://10.0.0.1:443") }
}

fn shown(actions: Vec<Action>) -> Vec<String> {
    let shown = actions.into_iter().map(|action| match action {
        Action::DeletePod { name, uid } if name != "pi-driver" => format!("delete {name} of {uid}"),
        Action::DeletePod { uid, .. } => format!("delete driver of {uid}"),
        Action::ProtectDriver { uid, protect: false, .. } => format!("release driver of {uid}"),
        Action::PatchPod { name, patch: PodPatch::Spec(_), .. } => format!("ungate {name}"),
        other => panic!("{other:?}"),
    });
    shown.collect()
}

/// Returns the driver of the application with the uid `uid`. The driver pod has the same uid.
fn driver(uid: &str, differs: &Value) -> PodSummary {
    let mut pod =
        pod("pi-driver", "driver", uid, &json!({"kind": "SparkApplication", "name": "pi", "uid": uid}));
    for (key, value) in differs.as_object().unwrap() {
        pod[key] = value.clone();
    }
    from_value(pod).unwrap()
}

/// Returns an executor of the driver with the uid `driver`. The executor's pod has the same uid.
fn executor(driver: &str) -> PodSummary {
    let owner = json!({"kind": "Pod", "name": "pi-driver", "uid": driver});
    from_value(pod("exec", "executor", driver, &owner)).unwrap()
}

fn pod(name: &str, role: &str, uid: &str, controller: &Value) -> Value {
    json!({
        "name": name, "uid": uid, "application": "pi", "role": role, "submissionId": format!("run-of-{uid}"),
        "controller": controller,
    })
}

/// Returns a placeholder of this owner. The pod has the same uid as the owner.
fn placeholder(controller: &Value) -> PodSummary {
    let uid = controller["uid"].as_str().unwrap_or("nobody");
    let particulars = json!({"role": "placeholder", "placement": {"node": "n1"}});
    let pod = json!({
        "name": "placeholder", "uid": uid, "application": "pi", "controller": controller, "particulars": particulars,
    });
    from_value(pod).unwrap()
}

fn gated() -> PodSummary {
    gated_of("old")
}

fn gated_of(driver: &str) -> PodSummary {
    let particulars = json!({"placement": {"gate": "sparkoperator.k8s.io/gang"}});
    PodSummary { particulars: from_value(particulars).unwrap(), ..executor(driver) }
}
