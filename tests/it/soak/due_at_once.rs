//! Proves that thousands of schedules that are due in the same minute are all started in time.

use crate::{apiserver::schedules::crowd, prelude::*};

const MANY: usize = 2_000;
const LATEST: SignedDuration = SignedDuration::from_secs(30);

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn two_thousand_schedules_of_the_same_minute_start_within_half_a_minute() {
    // The applications are suspended and do not run: the speed of submission is measured elsewhere.
    let lags = crowd("soak-schedules", MANY, &json!({"template": {"suspend": true}})).await;
    let last = lags.into_iter().max().unwrap();
    println!("soak: {MANY} schedules due in one minute: each started once, the last after {last}");
    assert!(last <= LATEST, "the last was started after {last}");
}
