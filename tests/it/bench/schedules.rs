//! Measures how late applications are created when thousands of schedules are due at once.

use super::Results;
use crate::{apiserver::schedules::crowd, prelude::*};

#[tokio::test]
#[ignore = "takes minutes: make bench"]
async fn many_at_once() {
    let mut results = Results::default();
    let lags = crowd("bench-schedules", 2_000, &json!({})).await;
    let seconds = |lag: &jiff::SignedDuration| lag.as_secs_f64();
    // Kubernetes timestamps have whole seconds.
    results.put("schedules.lag_s.mean.2000", lags.iter().map(seconds).sum::<f64>() / lags.len() as f64);
    results.put("schedules.lag_s.max.2000", lags.iter().map(seconds).fold(0.0, f64::max));
    results.finish();
}
