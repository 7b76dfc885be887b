//! Proves that exactly one of several replicas runs applications, and that another takes over from it.

use super::{A_WHILE, applications::hopeless, operator, proxy::Line};
use crate::apiserver::prelude::*;
use jiff::Unit;

/// The duration of the lease in seconds: short, so that tests are fast, but long enough for a busy machine.
const LEASE: u32 = 4;

// In these tests the first operator listens on other ports. The API server calls the webhook of the second operator.

/// With the default settings, 17 s are enough for the lease to expire after 15 s and for the other replica to check the
/// lease again.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn the_work_of_a_killed_leader_is_continued_within_17_seconds() {
    let namespace = Namespace::new("leader-sigkill").await;
    let proxy = Proxy::start().await;
    let candidate = || Operator::with(&namespace).elected();
    let first = candidate().through(&proxy).beside().spawn();
    first.leads().await;
    let second = candidate().start().await;
    let driver = proxy.hold(Call { method: "POST", path: "/pods" }, Moment::Before);
    namespace.apply(&application("pi"));
    let held = driver.caught().await;

    let killed = Instant::now();
    first.kill();
    let renewed = lease_time("renewTime");
    drop(held);
    second.leads().await;
    let leads = killed.elapsed();
    namespace.reaches("pi", "SUBMITTED").await;
    let acquired = lease_time("acquireTime");
    eprintln!(
        "lease taken {:.1} s after its last renewal, the other leads {:.1} s after SIGKILL, the application is submitted after {:.1} s",
        (acquired - renewed).total(Unit::Second).unwrap(),
        leads.as_secs_f64(),
        killed.elapsed().as_secs_f64(),
    );
    assert!(acquired.duration_since(renewed) <= SignedDuration::from_secs(17), "{renewed} {acquired}");
    assert_eq!(namespace.application("pi").await["status"]["submissionAttempts"], 1);
    sleep(A_WHILE).await;
    assert_eq!(namespace.drivers_ever().await.len(), 1);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_cut_off_leader_stops_before_the_next_one_starts_and_can_lead_again() {
    let namespace = Namespace::new("leader-cut-off").await;
    let proxy = Proxy::start().await;
    let setup = Operator::with(&namespace).candidate(LEASE);
    let first = setup.through(&proxy).beside().spawn();
    first.leads().await;
    let second = Operator::with(&namespace).candidate(LEASE).start().await;
    namespace.apply(&hopeless("before"));
    namespace.reaches("before", "FAILED").await;
    changes(&first, 2).await;
    assert!(second.log().contains("standing by") && !second.log().contains("state changed"));
    let driver = proxy.hold(Call { method: "POST", path: "/pods" }, Moment::Before);
    namespace.apply(&application("pi"));
    let held = driver.caught().await;

    proxy.line_is(Line::Silent);
    first.has_logged("the lease is lost").await;
    second.leads().await;
    namespace.reaches("pi", "SUBMITTED").await;
    proxy.line_is(Line::Up);
    held.release();
    eventually("the first stands by", async || {
        let log = first.log();
        let (_, after) = log.split_once("the lease is lost").ok_or_else(|| log.clone())?;
        seen(after.contains("standing by"), after)
    })
    .await;
    sleep(A_WHILE).await;
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMITTED"]);
    assert_eq!(namespace.application("pi").await["status"]["submissionAttempts"], 1);
    assert_eq!(namespace.drivers_ever().await.len(), 1);
    assert_eq!(first.log().matches("state changed").count(), 2, "a deposed leader writes nothing");
    let waiting =
        first.metric("workqueue_depth{controller=\"sparkapplication\",name=\"sparkapplication\"}").await;
    assert_eq!(waiting, Ok(0.0), "a deposed leader keeps no queue");
    let log = second.log();
    assert_eq!(log.matches("state changed").count(), 1, "the new leader does not change `before`");
    assert_eq!(log.matches("admin: ready").count(), 1, "its webhook stayed ready");

    second.stop().await;
    let log = fs::read_to_string(namespace.folder.join("operator.log")).unwrap();
    assert!(log.contains("lease given back"), "{log}");
    namespace.apply(&hopeless("after"));
    namespace.reaches("after", "FAILED").await;
    changes(&first, 4).await;
}

/// Waits until the operator has logged `count` changes of states. It logs a change after the API server has stored it.
async fn changes(operator: &Operator, count: usize) {
    eventually(&format!("{count} changes of states are in the log"), async || {
        let changes = operator.log().matches("state changed").count();
        seen(changes == count, changes)
    })
    .await;
}

/// Returns a time in the operator's lease.
fn lease_time(field: &str) -> Timestamp {
    let lease = calls::get(operator::LEASE).expect("a lease");
    lease["spec"][field].as_str().unwrap().parse().unwrap()
}
