//! Compares the cost of work (requests, bytes, allocations, memory; never time) with the numbers of
//! `tests/data/budget.json`. A test fails after a change that makes work more expensive. After a change that makes work
//! cheaper, lower the numbers: `UPDATE_BUDGET=1` writes the measured ones.
//!
//! `apiserver::budget` measures the load that an application puts on the API server; `crates/plan/tests/allocations.rs`,
//! which shares this file, counts allocations.

use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, env, fs, path::Path, sync::Mutex};

/// How far a number that is the same in every run may exceed its budget, as a fraction of the budget.
pub(crate) const TOLERANCE: f64 = 0.05;

/// An absolute amount by which any number may exceed its budget as well. It covers requests that the operator makes
/// only once: divided by 100 applications, one such request counts 0.01.
const SLACK: f64 = 0.05;

/// Measured numbers by their names, such as `GET pods`.
pub(crate) type Measured = BTreeMap<String, f64>;

/// Compares the numbers of `subject` with its budget in `file`.
///
/// # Panics
///
/// When a number exceeds its budget by more than its `tolerance`, a fraction of the budget. All numbers are printed
/// then.
pub(crate) fn keep(file: &Path, subject: &str, measured: &Measured, tolerance: impl Fn(&str) -> f64) {
    static FILE: Mutex<()> = Mutex::new(());
    let _alone = FILE.lock().unwrap();
    let mut budgets: Map<String, Value> = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    if env::var_os("UPDATE_BUDGET").is_some() {
        let rounded = measured.iter().map(|(name, number)| (name.clone(), (number * 100.0).round() / 100.0));
        budgets.insert(subject.to_owned(), json!(rounded.collect::<Measured>()));
        return fs::write(file, serde_json::to_string_pretty(&budgets).unwrap() + "\n").unwrap();
    }
    let budget: Measured = serde_json::from_value(budgets[subject].clone()).unwrap();
    let mut compared = compared(&budget, measured, tolerance);
    // CI shows only the first lines of this table, so the numbers that exceed their budget come first.
    compared.sort_by_key(|(_, has_grown)| !has_grown);
    let table = compared.iter().map(|(line, _)| format!("  {line}\n")).collect::<String>();
    assert!(
        !compared.iter().any(|(_, has_grown)| *has_grown),
        "the budget of {subject} is exceeded; if that is intended, update it with UPDATE_BUDGET=1:\n{table}"
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

/// For days an earlier version of the operator made a LIST of events for each waiting driver, which made 2,000
/// applications take seven times as long.
#[test]
fn a_new_kind_of_request_exceeds_the_budget() {
    let of = |numbers: &[(&str, f64)]| {
        numbers.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect::<Measured>()
    };
    let budget = of(&[("GET pods", 1.0), ("POST pods", 1.0)]);
    let grown = |measured: &[(&str, f64)]| {
        let compared = compared(&budget, &of(measured), |_| TOLERANCE);
        compared.into_iter().filter(|(_, has_grown)| *has_grown).map(|(line, _)| line).collect::<Vec<_>>()
    };
    let as_before = [("GET pods", 1.04), ("POST pods", 0.5), ("LIST pods", 1.0 / 100.0)];
    assert_eq!(grown(&as_before), Vec::<String>::new());
    assert_eq!(grown(&[("GET pods", 1.2)]), ["GET pods: 1.20, budget 1.00  <-- too much"]);
    assert_eq!(grown(&[("LIST events", 0.1)]), ["LIST events: 0.10, budget 0.00  <-- too much"]);
}
