//! Proves that the operator stops promptly and cleanly on SIGTERM.

use crate::apiserver::prelude::*;

/// The maximum time for a stop. Kubernetes kills a pod after 30 s, and a stop in these tests needs less than a tenth of
/// that.
const PROMPT: Duration = Duration::from_secs(3);

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_that_still_lists_objects_stops_promptly() {
    let namespace = Namespace::new("stop-early").await;
    for path in ["/v1beta2/sparkapplications", "/v1beta2/scheduledsparkapplications"] {
        let proxy = Proxy::start().await;
        let all_are_listed = proxy.hold(Call { method: "GET", path }, Moment::Before);
        let operator = Operator::with(&namespace).through(&proxy).spawn();
        let _held = all_are_listed.caught().await;
        let asked = Instant::now();
        operator.stop().await;
        assert!(asked.elapsed() < PROMPT, "{path}: {:?}", asked.elapsed());
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_submission_pod_outlives_the_operator_and_the_next_records_its_driver() {
    let namespace = Namespace::new("stop-busy").await;
    let node = SubmissionNode::of(&namespace, &stand_in()).env("STAND_IN_PAUSE", "0.5").start().await;
    let operator = Operator::with(&namespace).by_spark_submit().start().await;
    namespace.apply(&application("pi"));
    // The driver exists, and its ConfigMaps do not yet.
    namespace.there::<Pod>("pi-driver").await;
    let asked = Instant::now();
    operator.stop().await;
    assert!(asked.elapsed() < PROMPT, "{:?}", asked.elapsed());
    assert_eq!(namespace.application("pi").await["status"]["submissionID"], Value::Null);
    node.is_idle().await;

    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    assert_eq!(submitted["status"]["submissionAttempts"], 1);
    namespace.has_no_submission().await;
    sleep(A_WHILE).await;
    assert_eq!(namespace.drivers_ever().await.len(), 1);
    assert_eq!(namespace.submission_pods_ever().await.len(), 1);
}
