//! Proves that the operator continues if a user has edited an application between the operator's read and its write.

use super::{application, complaints, edit, exposure};
use crate::apiserver::{metrics, prelude::*, proxy::Trap};

/// A user edits the application between the operator's read and its write, at every write.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn conflicts_log_no_warning_and_a_lost_response_is_counted_once() {
    let namespace = Namespace::new("conflicts").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let status = Call { method: "PATCH", path: "/sparkapplications/pi/status" };
    let interfered = async |trap: Trap, i: usize| {
        let held = trap.caught().await;
        edit(&namespace, "pi", &json!({"metadata": {"annotations": {"look": i.to_string()}}}));
        held.release();
    };
    let trap = || proxy.hold(status, Moment::Before);
    let first = trap();
    namespace.apply(&application("pi", &json!({})));
    interfered(first, 1).await;
    namespace.reaches("pi", "SUBMITTED").await;
    let second = trap();
    kubelet::runs(&namespace, "pi-driver").await;
    interfered(second, 2).await;
    namespace.reaches("pi", "RUNNING").await;
    let (third, fourth) = (trap(), trap());
    kubelet::ends(&namespace, "pi-driver", 0).await;
    interfered(third, 3).await;
    interfered(fourth, 4).await;
    namespace.reaches("pi", "COMPLETED").await;
    assert_eq!(namespace.drivers_ever().await.len(), 1);
    assert_eq!(namespace.states_ever("pi").await, ["", "SUBMITTED", "RUNNING", "SUCCEEDING", "COMPLETED"]);
    assert_eq!(complaints(&operator.log()), Vec::<&str>::new());

    let unanswered = namespace.beside("unanswered").await;
    metrics::a_status_write_with_a_lost_response_is_counted_once(&unanswered, &operator, &proxy).await;
    let slow = namespace.beside("slow-exposure").await;
    exposure::no_application_waits_for_a_slow_ui_service(&slow, &proxy).await;
}
