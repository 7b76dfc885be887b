//! Proves that the operator and the client library continue after the API server has been unreachable for a minute, and
//! that the operator's liveness probe does not fail while the API server answers.

use crate::apiserver::{
    client::goes_on_after_a_quiet_minute_and_a_lost_connection, outage::goes_on_after, prelude::*,
};
use tokio::time::Instant;

const LONG: Duration = Duration::from_secs(60);
/// Maximum time until the operator has done all pending work after the outage.
const RESUMED_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn an_operator_continues_after_any_kind_of_outage() {
    for (line, how) in [
        (Line::Refused, "refused"),
        (Line::Silent, "silent"),
        (Line::Dropped, "packets dropped"),
        (Line::Lost, "silent, connections lost"),
    ] {
        let (drivers, resumed) = goes_on_after(line, LONG).await;
        println!(
            "soak: API server away for {} s ({how}): resumed after {:.1} s, {drivers} applications, {drivers} drivers",
            LONG.as_secs(),
            resumed.as_secs_f64()
        );
        assert!(resumed <= RESUMED_WITHIN, "{how}: it took {resumed:?} to resume");
    }
}

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn a_waiting_client_program_continues_after_an_outage() {
    goes_on_after_a_quiet_minute_and_a_lost_connection().await;
    println!("soak: a program that waits goes on after a quiet minute and after a lost connection");
}

/// The kubelet restarts an operator whose liveness probe fails, and the liveness probe fails once a watch has been
/// silent for five minutes. The requests of the operator while a driver waits for its image must not count as such a
/// watch after the driver is gone.
#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn an_operator_stays_alive_after_a_driver_has_waited_for_its_image() {
    const WAITS: Duration = Duration::from_secs(45);
    const AFTERWARDS: Duration = Duration::from_secs(6 * 60);
    let namespace = Namespace::new("soak-image").await;
    let operator = Operator::start(&namespace).await;
    namespace.create::<SparkApplication>(&application("slow")).await;
    namespace.reaches("slow", "SUBMITTED").await;
    let creating = json!({
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "containerStatuses": [{
            "name": "spark-kubernetes-driver", "image": "", "imageID": "",
            "state": {"waiting": {"reason": "ContainerCreating"}},
        }],
    });
    kubelet::says(&namespace, "slow-driver", &creating).await;
    sleep(WAITS).await;
    namespace.delete::<SparkApplication>("slow").await;
    let gone = Instant::now();
    while gone.elapsed() < AFTERWARDS {
        let (status, body) = operator.get(HEALTH, "/healthz").await.unwrap();
        assert_eq!(status, 200, "{} s after the driver is gone: {body}", gone.elapsed().as_secs());
        sleep(Duration::from_secs(10)).await;
    }
    println!(
        "soak: a driver waits {} s for its image and is deleted: the operator is alive {} s later",
        WAITS.as_secs(),
        AFTERWARDS.as_secs()
    );
}
