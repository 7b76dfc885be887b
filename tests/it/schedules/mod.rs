//! Does each time of a schedule have its application, once, whatever happens? The pure core, with an invented clock.

mod exploration;
mod ledger;
mod simulation;
mod stories;
mod timetable;

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
