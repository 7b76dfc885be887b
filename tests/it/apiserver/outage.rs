//! Proves that the operator continues by itself after the API server has been unreachable for a while.

use super::{
    A_WHILE,
    applications::application,
    kubelet,
    namespace::Namespace,
    operator::Operator,
    proxy::{Call, Line, Moment, Proxy},
};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The length of an outage in `make test`; in `make soak` an outage lasts a minute.
const SHORT: Duration = Duration::from_secs(5);

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_whose_api_server_was_down_goes_on() {
    goes_on_after(Line::Refused, SHORT).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_that_was_cut_off_goes_on() {
    goes_on_after(Line::Silent, SHORT).await;
}

/// The operator writes the status of the application `recorded`.
const RECORD: Call = Call { method: "PATCH", path: "/sparkapplications/recorded/status" };

/// Makes the API server unreachable. Meanwhile one application is created, the driver of another ends, and the status
/// write of a third is under way. Returns the number of drivers that there were, and the time from the API server's
/// return until the operator has handled all three.
pub(crate) async fn goes_on_after(line: Line, length: Duration) -> (usize, Duration) {
    let namespace = Namespace::new("outage").await;
    let proxy = Proxy::start().await;
    // With the default settings, a leader that is cut off for a minute loses its lease.
    let setup = Operator::with(&namespace).through(&proxy).elected();
    let mut operator = setup.start().await;
    operator.leads().await;
    namespace.apply(&application("ended"));
    namespace.reaches("ended", "SUBMITTED").await;
    kubelet::runs(&namespace, "ended-driver").await;
    namespace.reaches("ended", "RUNNING").await;
    let record = proxy.hold(RECORD, Moment::Before);
    namespace.apply(&application("recorded"));
    let held = record.caught().await;

    proxy.line_is(line);
    held.release();
    namespace.apply(&application("made"));
    kubelet::ends(&namespace, "ended-driver", 0).await;
    sleep(length).await;
    assert_eq!(namespace.application("made").await["status"], Value::Null);
    assert_eq!(namespace.application("ended").await["status"]["applicationState"]["state"], "RUNNING");
    proxy.line_is(Line::Up);
    let returned = Instant::now();
    for (name, state) in [("ended", "COMPLETED"), ("recorded", "SUBMITTED"), ("made", "SUBMITTED")] {
        namespace.reaches(name, state).await;
    }
    let resumed = returned.elapsed();

    for name in ["made", "recorded"] {
        kubelet::runs(&namespace, &format!("{name}-driver")).await;
        kubelet::ends(&namespace, &format!("{name}-driver"), 0).await;
    }
    for name in ["ended", "made", "recorded"] {
        let completed = namespace.reaches(name, "COMPLETED").await;
        let status = &completed["status"];
        for field in ["executionAttempts", "submissionAttempts", "runOrdinal"] {
            assert_eq!(status[field], 1, "{name}: {field}: {status}");
        }
    }
    sleep(A_WHILE).await;
    let drivers = namespace.drivers_ever().await.len();
    assert_eq!(drivers, 3);
    assert!(operator.is_running());
    operator.stop().await;
    (drivers, resumed)
}
