//! Counts the allocations of decisions, plans and reviews, whose number is the same in every run. A test binary of its own,
//! because the allocator that counts is slower than the operator's, with which `make bench` measures.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../../tests/it/budget.rs"]
mod budget;

use allocation_counter::measure;
use api::{Role, SparkApplication};
use budget::{Measured, TOLERANCE, keep};
use jiff::Timestamp;
use pod_customization::{annotations, patch};
use serde_json::{Value, json};
use spark_client::Objects;
use spark_operator_plan::{Driver, Observed, Policy, lifecycle, pod_requests::PodRequests};
use std::{fs, path::Path};
use submission::{SubmissionEnvironment, objects, run::Run};
use validation::{Files, examine, validate};

#[test]
fn decisions_plans_and_reviews_stay_within_their_budget_of_allocations() {
    let application = typical();
    let (policy, submission_environment) =
        (Policy::new("k8s://https://10.96.0.1:443"), SubmissionEnvironment::default());
    let planned = || {
        objects(
            &validate(&application).unwrap(),
            &Run::next(&application),
            &policy.submission,
            &submission_environment,
            Timestamp::UNIX_EPOCH,
        )
    };
    let (Objects { pod: driver, .. }, _) = planned().unwrap();
    let executor = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "typical-exec-1", "labels": {"spark-role": "executor"},
            "annotations": annotations(&application, Role::Executor),
        },
        "spec": {"containers": [{"name": "spark-kubernetes-executor", "image": "spark"}]},
    });
    let review = |pod: &Value| {
        let text = pod.to_string();
        measure(|| {
            let object: Value = serde_json::from_str(&text).unwrap();
            patch(&object).unwrap();
        })
    };
    let seen = Observed { driver: Driver::Gone, ..Observed::default() };
    let decided = || lifecycle::next(&application, &seen, Timestamp::UNIX_EPOCH, &policy);
    let (mut measured, valid) = (Measured::new(), validate(&application).unwrap());
    for (name, counted) in [
        ("validation", measure(|| drop(examine(&application, Files::Stay)))),
        ("native submission", measure(|| drop(planned()))),
        ("sums of pods", measure(|| drop(PodRequests::of(&valid, "", "sums").unwrap()))),
        ("decision on a new application", measure(|| drop(decided()))),
        ("review of a driver", review(&driver)),
        ("review of an executor", review(&executor)),
    ] {
        measured.insert(format!("{name}, allocations"), counted.count_total as f64);
        measured.insert(format!("{name}, bytes"), counted.bytes_total as f64);
    }
    keep(Path::new("../../tests/data/budget.json"), "allocations", &measured, |_| TOLERANCE);
}

/// Returns an application that uses the fields that users commonly set.
fn typical() -> SparkApplication {
    let text = fs::read_to_string("../../tests/data/budget/application.yaml").unwrap();
    let mut object: Value = serde_saphyr::from_str(&text).unwrap();
    object["metadata"]["uid"] = json!("6c1f0b5e-0000-4000-8000-000000000001");
    // The executor gets the settings of the driver, so the file contains them only once.
    let mut executor = object["spec"]["driver"].clone();
    executor["instances"] = object["spec"]["executor"]["instances"].take();
    object["spec"]["executor"] = executor;
    serde_json::from_value(object).unwrap()
}
