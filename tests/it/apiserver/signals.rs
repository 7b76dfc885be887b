//! How does the operator end when it is asked to?

use super::{
    applications::application,
    eventually,
    namespace::Namespace,
    operator::{Operator, is_group_alive, spark_home},
    proxy::{Call, Moment, Proxy},
};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Kubernetes kills a pod after 30 s; nothing here has a reason to take a tenth of that.
const PROMPT: Duration = Duration::from_secs(3);

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_idle_operator_stops_promptly() {
    let namespace = Namespace::new("stop-idle").await;
    let operator = Operator::start(&namespace).await;
    let asked = Instant::now();
    operator.stop().await;
    assert!(asked.elapsed() < PROMPT, "{:?}", asked.elapsed());
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_that_has_not_seen_everything_yet_stops_promptly() {
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
async fn a_spark_submit_ends_with_the_operator_and_is_repeated_by_the_next() {
    let namespace = Namespace::new("stop-busy").await;
    let operator = Operator::with(&namespace).spark_home(spark_home()).start().await;
    namespace.apply(&application("pi"));
    let spark_submit = operator.submits().await;
    let files = files_of_the_submission(&operator).await;
    assert!(files.exists(), "{}", files.display());
    let asked = Instant::now();
    operator.stop().await;
    assert!(asked.elapsed() < PROMPT, "{:?}", asked.elapsed());
    assert!(!is_group_alive(spark_submit));
    assert!(!files.exists(), "{} may hold secrets", files.display());
    assert_eq!(namespace.application("pi").await["status"], serde_json::Value::Null);

    let _operator = Operator::with(&namespace).spark_home(spark_home()).start().await;
    let submitted = namespace.reaches("pi", "SUBMITTED").await;
    assert_eq!(submitted["status"]["submissionAttempts"], 1);
}

/// The folder of the only submission that the operator has told of.
async fn files_of_the_submission(operator: &Operator) -> PathBuf {
    eventually("the operator tells of a submission", async || {
        let log = operator.log();
        let (_, after) = log.split_once("/tmp/spark/").ok_or_else(|| log.clone())?;
        let id = after.split('/').next().unwrap_or_default();
        Ok(Path::new("/tmp/spark").join(id))
    })
    .await
}
