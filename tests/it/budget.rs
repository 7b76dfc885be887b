//! Compares the cost of work (requests, bytes, allocations, memory; never time) with the numbers of
//! `tests/data/budget.json`. The test fails after a change that makes work more expensive. After a change that makes
//! work cheaper, lower the numbers: `UPDATE_BUDGET=1` writes the measured ones.
//!
//! Allocations are counted here, because their number is the same in every run. `apiserver::budget` measures the load
//! that an application puts on the API server.

use crate::{
    golden::{data, yaml},
    lifecycle::nothing,
};
use allocation_counter::measure;
use api::{Role, SparkApplication};
use jiff::Timestamp;
use plan::{
    Driver, Observed, Policy, lifecycle,
    run::Run,
    submission::{SubmissionEnvironment, objects},
    validation::{examine, validate},
};
use pod_customization::{annotations, borrowed_json::BorrowedJson, patch};
use serde_json::{Map, Value, json};
use spark_client::Objects;
use std::{collections::BTreeMap, env, fs, sync::Mutex};

/// How far a number that is the same in every run may exceed its budget, as a fraction of the budget.
pub(crate) const TOLERANCE: f64 = 0.05;

/// An absolute amount by which any number may exceed its budget as well. It covers requests that the operator makes
/// only once: divided by 500 applications, one such request counts 0.002.
const SLACK: f64 = 0.05;

/// Measured numbers by their names, such as `GET pods`.
pub(crate) type Measured = BTreeMap<String, f64>;

/// Compares the numbers of `subject` with its budget.
///
/// # Panics
///
/// When a number exceeds its budget by more than its `tolerance`, a fraction of the budget. All numbers are printed
/// then.
pub(crate) fn keep(subject: &str, measured: &Measured, tolerance: impl Fn(&str) -> f64) {
    static FILE: Mutex<()> = Mutex::new(());
    let file = data("budget.json");
    let _alone = FILE.lock().unwrap();
    let mut budgets: Map<String, Value> = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    if env::var_os("UPDATE_BUDGET").is_some() {
        let rounded =
            measured.iter().map(|(name, number)| (name.clone(), json!((number * 100.0).round() / 100.0)));
        budgets.insert(subject.to_owned(), rounded.collect::<Map<_, _>>().into());
        fs::write(&file, serde_json::to_string_pretty(&budgets).unwrap() + "\n").unwrap();
        return;
    }
    let budget: Measured = serde_json::from_value(budgets[subject].clone()).unwrap();
    let mut compared = compared(&budget, measured, tolerance);
    // CI shows only the first lines of this table, so the numbers that exceed their budget come first.
    compared.sort_by_key(|(_, has_grown)| !has_grown);
    let table = compared.iter().map(|(line, _)| format!("  {line}\n")).collect::<String>();
    let has_grown = compared.iter().any(|(_, has_grown)| *has_grown);
    assert!(
        !has_grown,
        "the budget of {subject} is exceeded; if that has to be, UPDATE_BUDGET=1 writes it anew:\n{table}"
    );
}

/// Returns a line for each number, and whether the number exceeds its budget. The budget of an unknown number is 0.
fn compared(budget: &Measured, measured: &Measured, tolerance: impl Fn(&str) -> f64) -> Vec<(String, bool)> {
    let compared = measured.iter().map(|(name, number)| {
        let most = budget.get(name).copied().unwrap_or_default();
        let has_grown = *number > most * (1.0 + tolerance(name)) + SLACK;
        let mark = if has_grown { "  <-- too much" } else { "" };
        (format!("{name}: {number:.2}, budget {most:.2}{mark}"), has_grown)
    });
    compared.collect()
}

/// Issue 23: for days the operator made a LIST of events for each waiting driver, which made 2,000 applications take
/// seven times as long.
#[test]
fn a_request_that_was_not_made_before_exceeds_the_budget() {
    let of = |numbers: &[(&str, f64)]| {
        numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect::<Measured>()
    };
    let budget = of(&[("GET pods", 1.0), ("POST pods", 1.0)]);
    let grown = |measured: &[(&str, f64)]| {
        let compared = compared(&budget, &of(measured), |_| TOLERANCE);
        compared.into_iter().filter(|(_, has_grown)| *has_grown).map(|(line, _)| line).collect::<Vec<_>>()
    };
    let as_before = [("GET pods", 1.04), ("POST pods", 0.5), ("LIST pods", 1.0 / 500.0)];
    assert_eq!(grown(&as_before), Vec::<String>::new());
    assert_eq!(grown(&[("GET pods", 1.2)]), ["GET pods: 1.20, budget 1.00  <-- too much"]);
    assert_eq!(grown(&[("LIST events", 0.1)]), ["LIST events: 0.10, budget 0.00  <-- too much"]);
}

#[test]
fn decisions_plans_and_reviews_allocate_no_more_than_they_did() {
    let application = typical();
    let (policy, submission_environment) =
        (Policy::new("k8s://https://10.96.0.1:443"), SubmissionEnvironment::default());
    let planned = || {
        objects(
            validate(&application).unwrap(),
            &Run::next(&application),
            &policy,
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
            let object: BorrowedJson = serde_json::from_str(&text).unwrap();
            patch(&object).unwrap();
        })
    };
    let seen = Observed { driver: Driver::Gone, ..nothing() };
    let decided = || lifecycle::next(&application, &seen, Timestamp::UNIX_EPOCH, &policy);
    let mut measured = Measured::new();
    for (name, counted) in [
        ("validation", measure(|| drop(examine(&application)))),
        ("native submission", measure(|| drop(planned()))),
        ("decision on a new application", measure(|| drop(decided()))),
        ("review of a driver", review(&driver)),
        ("review of an executor", review(&executor)),
    ] {
        measured.insert(format!("{name}, allocations"), counted.count_total as f64);
        measured.insert(format!("{name}, bytes"), counted.bytes_total as f64);
    }
    keep("allocations", &measured, |_| TOLERANCE);
}

/// Returns an application that uses the fields that users commonly set.
fn typical() -> SparkApplication {
    let mut object: Value = yaml(&data("budget/application.yaml"));
    object["metadata"]["uid"] = json!("6c1f0b5e-0000-4000-8000-000000000001");
    // The executor gets the settings of the driver, so the file contains them only once.
    let mut executor = object["spec"]["driver"].clone();
    executor["instances"] = object["spec"]["executor"]["instances"].take();
    object["spec"]["executor"] = executor;
    serde_json::from_value(object).unwrap()
}
