//! Stores objects that are hard to parse, before an operator starts and while it watches, as a hostile user would;
//! proves that the operator starts, watches and serves all other objects.

use super::{
    calls::{create_unchecked, delete_selected},
    certificates,
    operator::LEASE,
};
use crate::apiserver::prelude::*;
use kube::Resource;
use procfs::process::Process;

/// The manifest with the permission to read namespaces.
const RBAC: &str = "manifests/rbac/namespaces.yaml";
/// The maximum memory of the operator, in KiB. A pod with 1.5 times as many volume sources once made it take 480 MiB.
const MOST: u64 = 200 << 10;
/// Far deeper than serde_json parses.
const LEVELS: usize = 1000;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn the_operator_starts_and_serves_other_objects_whatever_is_stored() {
    let namespace = Namespace::new("hostile").await;
    let _gone = gone(namespace.name);
    calls::apply_manifests(RBAC);
    let chosen = format!("--namespace-selector=kubernetes.io/metadata.name={}", namespace.name);

    // The first operator creates the Secret and the Lease, which the test changes afterwards.
    Operator::with(&namespace).candidate(3).start().await.stop().await;
    poison(&namespace, "before");
    let operator = Operator::with(&namespace).candidate(3).argument(&chosen).start().await;
    namespace.apply(&hopeless("even"));
    namespace.reaches("even", "FAILED").await;
    // One Service, three applications and two pods cannot be read, and each is reported once. All other objects can be read.
    unreadable_are_reported(&namespace, &operator, "before", 1.0).await;

    poison(&namespace, "meanwhile");
    manage(LEASE, &deep());
    namespace.apply(&hopeless("later"));
    namespace.reaches("later", "FAILED").await;
    unreadable_are_reported(&namespace, &operator, "meanwhile", 2.0).await;
    let log = operator.log();
    let is_unread = |line: &str| line.contains("is retried") && line.contains("deserializing");
    assert!(!log.lines().any(is_unread), "{log}");
    assert!(!log.contains("cannot be renewed"), "{log}");
    let memory =
        || Process::new(i32::try_from(operator.id()).unwrap()).unwrap().status().unwrap().vmhwm.unwrap();
    assert!(memory() < MOST, "{} KiB", memory());
    operator.stop().await;

    manage(LEASE, &late());
    let _operator = Operator::with(&namespace).candidate(3).argument(&chosen).start().await;
    namespace.apply(&hopeless("last"));
    namespace.reaches("last", "FAILED").await;
}

/// Stores one object of each kind that the operator lists, in each form that is hard to parse.
fn poison(namespace: &Namespace, when: &str) {
    let store = |mut object: Value| {
        object["metadata"]["namespace"] = json!(namespace.name);
        object["metadata"]["labels"]["hostile"] = json!("yes");
        create_unchecked(&object);
    };
    for (how, managed) in [("late", late()), ("deep", deep())] {
        for mut object in documents(data("apiserver/hostile.yaml")) {
            object["metadata"]["name"] = json!(format!("{when}-{how}"));
            object["metadata"]["managedFields"] = json!([managed]);
            store(object);
        }
        manage_all(namespace.name, &managed);
    }

    let condition =
        json!({"type": "Odd", "status": "True", "reason": "Odd", "message": "", "lastTransitionTime": TIME});
    let status = json!({"status": {"conditions": [condition]}});
    let services = Service::url_path(&(), Some(namespace.name));
    calls::merge(&format!("{services}/{when}-late/status"), &status);

    let long: Map<_, _> = (0..6).map(|i| (format!("spark.x{i}"), json!("x".repeat(180_000)))).collect();
    for (what, field, value) in [
        ("spec", "driver", json!({"template": {"spec": {"x": nested()}}})),
        ("broad", "driver", json!({"template": {"spec": {"x": vec![json!({"a": 0}); 90_000]}}})),
        ("long", "sparkConf", json!(long)),
    ] {
        let mut odd = hopeless(&format!("{when}-{what}"));
        odd["spec"][field] = value;
        store(odd);
    }
    let sources = json!({"name": "v", "projected": {"sources": vec![json!({}); 200_000]}});
    for i in 0..2 {
        let labels = json!({"sparkoperator.k8s.io/launched-by-spark-operator": "true"});
        let mut pod = plain_pod(&json!({"name": format!("{when}-broad-{i}"), "labels": labels}));
        pod["spec"]["volumes"] = json!([sources]);
        store(pod);
    }
}

/// Adds an entry to the managedFields of the namespace, and of the objects that the operator reads before it is ready and
/// that only an admin may write.
fn manage_all(namespace: &str, managed: &Value) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    manage(&format!("/api/v1/namespaces/{namespace}"), managed);
    for kind in ["sparkapplications", "scheduledsparkapplications", "sparkconnects"] {
        manage(&format!("{definitions}/{kind}.sparkoperator.k8s.io"), managed);
    }
    manage(&webhooks("mutatingwebhookconfiguration", WEBHOOK), managed);
    manage(certificates::PATH, managed);
}

/// Adds an entry to the managedFields of the object at this path of the API.
fn manage(path: &str, managed: &Value) {
    calls::merge(path, &json!({"metadata": {"managedFields": [managed]}}));
}

/// A time beyond the range of jiff, but valid for Go.
const TIME: &str = "9999-12-31T12:00:00Z";

fn late() -> Value {
    json!({"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": TIME, "fieldsV1": {"f:x": {}}})
}

fn deep() -> Value {
    json!({"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": nested()})
}

fn nested() -> Value {
    (0..LEVELS).fold(json!({}), |inner, _| json!({"f:x": inner}))
}

async fn unreadable_are_reported(namespace: &Namespace, operator: &Operator, when: &str, rounds: f64) {
    for (kind, each) in [("SparkApplication", 3.0), ("Pod", 2.0)] {
        let name = format!("spark_operator_unreadable_objects_total{{kind=\"{kind}\"}}");
        operator.measures(&name, |count| count >= each * rounds).await;
    }
    for (name, why) in [
        (format!("{when}-spec"), "recursion limit exceeded"),
        (format!("{when}-long"), "longer than 1048576 bytes of JSON"),
        (
            format!("{when}-broad"),
            "is beyond the 5000 lists and maps that an object may have: move what is so long into ConfigMaps or files",
        ),
    ] {
        let is_it = |event: &Value| {
            let regarding = &event["regarding"];
            let says = event["note"].as_str().is_some_and(|note| note.ends_with(why));
            regarding["kind"] == "SparkApplication" && regarding["name"] == *name && says
        };
        namespace.has_event("InvalidObject", is_it).await;
    }
}

/// Deletes the objects, which other tests could not read, when the returned value is dropped, also after a failure.
fn gone(name: &'static str) -> Finally {
    const HOSTILE: &str = "hostile=yes";
    Finally::new(move || {
        delete_selected::<Pod>(name, HOSTILE);
        delete_selected::<Service>(name, HOSTILE);
        delete_selected::<Ingress>(name, HOSTILE);
        delete_selected::<SparkApplication>(name, HOSTILE);
        delete_selected::<ScheduledSparkApplication>(name, HOSTILE);
        calls::delete_manifests(RBAC);
        // One empty entry in managedFields makes the API server remove all entries.
        manage_all(name, &json!({}));
    })
}
