//! Checks that the decisions of `crates/plan`, `crates/schedules` and `crates/connect` keep their invariants whatever
//! happens. Models of the API server, the cluster, the operator's memory and its user are explored exhaustively within
//! bounds.
//!
//! These tests are a package of their own, so that Cargo compiles them with optimization, which their millions of
//! states need. Of the operator, the package compiles only the decisions.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

/// Explores all that can happen to one application.
mod applications;
/// Limits the number of troubles in an exploration.
mod budget;
/// Explores all that can happen to one server of Spark Connect.
mod connects;
/// Plans of the decision core, as the models represent them.
mod decision;
/// Explores all that can happen while executors take the node capacity of their placeholders.
mod exchanges;
/// Visits every state that a model can reach, once.
mod explorer;
/// Explores all that can happen to one schedule.
mod schedules;

use std::io::{Write, stderr};

/// Returns a minimal valid spec of an application.
fn template() -> serde_json::Value {
    serde_json::json!({
        "sparkVersion": "4.0.1", "type": "Scala", "mode": "cluster",
        "mainApplicationFile": "local:///main.jar", "mainClass": "Main", "image": "spark",
    })
}

#[expect(
    clippy::explicit_write,
    reason = "the test harness captures the output of `eprintln!`, and CI has to show this"
)]
fn say(line: &str) {
    writeln!(stderr(), "{line}").unwrap();
}
