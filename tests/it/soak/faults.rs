//! Proves that an application runs exactly once even if any request to the API server fails, in any way, with each way
//! of submission.

use crate::apiserver::{
    faults::{Kind, Story, singly, tell_all},
    operator::{spark_home, stand_in},
};

/// The distance between two failing requests of a story, in the test with Spark's own `spark-submit`.
const EVERY: usize = 4;

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn with_native_submission_an_application_runs_once_despite_any_fault() {
    tell_all("soak-faults", None, every_fault).await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn with_native_submission_an_application_runs_once_despite_two_faults() {
    tell_all("soak-faults-twice", None, twice).await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn with_the_stand_in_an_application_runs_once_despite_any_fault() {
    tell_all("soak-faults-stand-in", Some(&stand_in()), every_fault).await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn with_spark_submit_an_application_runs_once_despite_all_faults() {
    tell_all("soak-faults-spark", Some(spark_home()), |_, calls| vec![all_kinds(calls)]).await;
}

fn every_fault(_: Story, calls: usize) -> Vec<Vec<(usize, Kind)>> {
    singly(calls, &Kind::ALL)
}

/// Returns pairs of faults: the response to a creation is lost, the retry is told that the object exists, and the
/// lookup of the existing object fails.
fn twice(_: Story, calls: usize) -> Vec<Vec<(usize, Kind)>> {
    let then = [Kind::CutBefore, Kind::Conflict, Kind::TooManyRequests, Kind::InternalError];
    let pairs = |n| then.map(|kind| vec![(n, Kind::CutAfter), (n + 2, kind)]);
    (1..calls).flat_map(pairs).collect()
}

/// Returns all kinds of faults, one after the other, for one run.
fn all_kinds(calls: usize) -> Vec<(usize, Kind)> {
    (1..=calls).step_by(EVERY).zip(Kind::ALL.into_iter().cycle()).collect()
}
