//! Proves that the operator continues by itself after the API server has been unreachable for a while.

use crate::apiserver::prelude::*;

/// The length of an outage in `make test`; in `make soak` an outage lasts a minute.
const SHORT: Duration = Duration::from_secs(5);

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_continues_after_an_outage_and_after_a_partition() {
    let namespace = Namespace::new("outage").await;
    let cut_off = namespace.beside("outage-cut-off").await;
    let proxy = Proxy::start().await;
    let operator = elected(&namespace, &proxy).await;
    goes_on(&namespace, &proxy, &operator, Line::Refused, SHORT).await;
    goes_on(&cut_off, &proxy, &operator, Line::Silent, SHORT).await;
    operator.stop().await;
}

/// The operator writes the status of the application `recorded`.
const RECORD: Call = Call { method: "PATCH", path: "/sparkapplications/recorded/status" };

/// As [`goes_on`], with an operator of its own.
pub(crate) async fn goes_on_after(line: Line, length: Duration) -> (usize, Duration) {
    let namespace = Namespace::new("outage").await;
    let proxy = Proxy::start().await;
    let operator = elected(&namespace, &proxy).await;
    let found = goes_on(&namespace, &proxy, &operator, line, length).await;
    operator.stop().await;
    found
}

/// Starts an operator. With the default settings, a leader that is cut off for a minute loses its lease.
async fn elected(namespace: &Namespace, proxy: &Proxy) -> Operator {
    let operator = Operator::with(namespace).through(proxy).elected().start().await;
    operator.leads().await;
    operator
}

/// Makes the API server unreachable. Meanwhile one application is created, the driver of another ends, and the status
/// write of a third is under way. Returns the number of drivers ever created, and the time from the API server's
/// return until the operator has handled all three.
async fn goes_on(
    namespace: &Namespace,
    proxy: &Proxy,
    operator: &Operator,
    line: Line,
    length: Duration,
) -> (usize, Duration) {
    namespace.apply(&application("ended"));
    namespace.reaches("ended", "SUBMITTED").await;
    namespace.runs("ended").await;
    let record = proxy.hold(RECORD, Moment::Before);
    namespace.apply(&application("recorded"));
    let held = record.caught().await;

    proxy.line_is(line);
    held.release();
    namespace.apply(&application("made"));
    kubelet::ends(namespace, "ended-driver", 0).await;
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
        kubelet::runs(namespace, &format!("{name}-driver")).await;
        kubelet::ends(namespace, &format!("{name}-driver"), 0).await;
    }
    for name in ["ended", "made", "recorded"] {
        namespace.reaches_at_once(name, "COMPLETED").await;
    }
    sleep(A_WHILE).await;
    let drivers = namespace.drivers_ever().await.len();
    assert_eq!(drivers, 3);
    operator.leads().await;
    (drivers, resumed)
}
