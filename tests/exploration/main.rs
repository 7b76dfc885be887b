//! Do the decisions of `crates/plan` keep their promises whatever happens? Models of the API server, the cluster, the operator's memory and
//! its user are played through: exhaustively within some bounds, and at random beyond.
//!
//! A package of its own, so that its millions of states are compiled with optimization, and nothing but the decisions with them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

/// All that can happen to one application.
mod applications;
/// Plans, as the models see them.
mod decision;
/// Every state that a model can come to, once.
mod explorer;
/// All that can happen to one schedule.
mod schedules;
/// Years of schedules in which everything happens, drawn at random.
mod simulation;

use std::io::{Write, stderr};

/// The least that an application can be made from.
fn template() -> serde_json::Value {
    serde_json::json!({
        "sparkVersion": "4.0.1",
        "type": "Scala",
        "mode": "cluster",
        "mainApplicationFile": "local:///main.jar",
        "mainClass": "Main",
        "image": "spark",
    })
}

#[expect(clippy::explicit_write, reason = "what is printed is not shown in CI, and this is to be")]
fn say(line: &str) {
    writeln!(stderr(), "{line}").unwrap();
}
