//! Proves that the operator is not restarted long after a driver has waited for its image.

use crate::apiserver::{
    applications::application,
    kubelet,
    namespace::Namespace,
    operator::{HEALTH, Operator},
    proxy::Proxy,
};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;

/// The time that the driver waits for its image: longer than usual, so that the operator looks for a reason.
const PULLED: Duration = Duration::from_secs(45);
/// The minutes for which the liveness probe is sent: ten minutes after the last pod has waited, it ends the watch of
/// events, and a watch that is dead for five minutes fails the liveness probe.
const MINUTES: u32 = 18;

#[tokio::test]
#[ignore = "takes minutes: make soak"]
async fn the_operator_is_alive_long_after_a_driver_has_waited_for_its_image() {
    let namespace = Namespace::new("soak-watches").await;
    let proxy = Proxy::start().await;
    let begun = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&begun);
    proxy.guarded_by(Box::new(move |request| {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        if path == "/api/v1/events" && query.contains("watch=") {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Vec::new()
    }));
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    namespace.apply(&application("pi"));
    namespace.reaches("pi", "SUBMITTED").await;
    let assigned = json!({"conditions": [{"type": "PodScheduled", "status": "True"}]});
    kubelet::says(&namespace, "pi-driver", &assigned).await;
    sleep(PULLED).await;
    namespace.kubectl(&["delete", "sparkapplication", "pi"]);
    namespace.kubectl(&["delete", "pod", "pi-driver", "--ignore-not-found", "--force", "--grace-period=0"]);
    assert!(begun.load(Ordering::Relaxed) > 0, "the operator has looked for the reason among the events");
    for minute in 1..=MINUTES {
        sleep(Duration::from_secs(60)).await;
        let (status, why) = operator.get(HEALTH, "/healthz").await.unwrap();
        assert_eq!(status, 200, "after {minute} minutes: {why}");
    }
    let watches = begun.load(Ordering::Relaxed);
    println!(
        "soak: alive {MINUTES} minutes after a driver has waited for its image; events were watched {watches} times"
    );
    assert!(watches < 15, "the watch of events has ended: {watches}");
}
