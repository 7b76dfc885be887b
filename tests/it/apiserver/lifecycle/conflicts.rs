//! Proves that the operator goes on where a user has written between its read and its write.

use super::{Namespace, application, complaints};
use crate::apiserver::{
    kubelet,
    operator::Operator,
    proxy::{Call, Moment, Proxy, Trap},
};
use serde_json::json;

/// A user edits the application between the operator's read and its write, at every write.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_conflict_is_nothing_to_complain_of() {
    let namespace = Namespace::new("conflicts").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let status = Call { method: "PATCH", path: "/sparkapplications/pi/status" };
    let interfered = async |trap: Trap, i: usize| {
        let held = trap.caught().await;
        namespace.kubectl(&["annotate", "sparkapplication", "pi", "--overwrite", &format!("look={i}")]);
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
}
