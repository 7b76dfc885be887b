//! What if any call goes wrong, in any way, however applications are submitted?

use crate::apiserver::{
    faults::{Kind, Story, singly, tell_all},
    operator::{spark_home, stand_in},
};

/// Every so many-th call of a story that is told with Spark's own `spark-submit`, in a pod, goes wrong.
const EVERY: usize = 4;

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn natively_an_application_runs_once_whatever_happens_to_a_call() {
    tell_all("soak-faults", None, every_fault).await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn natively_an_application_runs_once_whatever_happens_to_a_call_and_to_the_one_after_the_next() {
    tell_all("soak-faults-twice", None, twice).await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn with_the_stand_in_an_application_runs_once_whatever_happens_to_a_call() {
    tell_all("soak-faults-stand-in", Some(&stand_in()), every_fault).await;
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn with_spark_submit_an_application_runs_once_through_all_faults() {
    tell_all("soak-faults-spark", Some(spark_home()), |_, calls| vec![all_kinds(calls)]).await;
}

fn every_fault(_: Story, calls: usize) -> Vec<Vec<(usize, Kind)>> {
    singly(calls, &Kind::ALL)
}

/// A creation whose answer is lost is tried again, is told that it has been, and looks for what there is: that look
/// fails.
fn twice(_: Story, calls: usize) -> Vec<Vec<(usize, Kind)>> {
    let then = [Kind::CutBefore, Kind::Conflict, Kind::TooManyRequests, Kind::InternalError];
    let pairs = |n| then.map(|kind| vec![(n, Kind::CutAfter), (n + 2, kind)]);
    (1..calls).flat_map(pairs).collect()
}

/// All kinds, one after the other, in one run.
fn all_kinds(calls: usize) -> Vec<(usize, Kind)> {
    (1..=calls).step_by(EVERY).zip(Kind::ALL.into_iter().cycle()).collect()
}
