//! What if the API server goes away for a while? The operator goes on where it was, by itself.

use super::{
    applications::application,
    kubelet,
    namespace::Namespace,
    operator::Operator,
    proxy::{Call, Line, Moment, Proxy},
};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// As long as a `make test` has time for; `make soak` takes a minute.
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

/// The operator writes the status of `recorded`.
const RECORD: Call = Call { method: "PATCH", path: "/sparkapplications/recorded/status" };

/// While the API server is away, one application is made, the driver of another ends, and the answer to a
/// third's status write is on its way. Gives how many drivers there were, and how long it took from the API server's
/// return until all of that was seen to.
pub(crate) async fn goes_on_after(line: Line, length: Duration) -> (usize, Duration) {
    let namespace = Namespace::new("outage").await;
    let proxy = Proxy::start().await;
    // By the operator's own settings, a leader that is away for a minute has lost its lease.
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
    let drivers = namespace.drivers_ever().await.len();
    assert_eq!(drivers, 3);
    assert!(operator.is_running());
    // So that whoever comes next need not wait for the end of its lease.
    operator.stop().await;
    (drivers, resumed)
}
