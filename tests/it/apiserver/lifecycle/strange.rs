//! Proves that the operator copes with statuses and specs that no reasonable client writes.

use super::{Namespace, application, complaints, ended, running};
use crate::apiserver::{
    applications::hopeless,
    kubelet,
    operator::Operator,
    proxy::{Call, Moment, Proxy, Trap},
};
use serde_json::json;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn what_can_never_work_disturbs_nobody() {
    let namespace = Namespace::new("contradictory").await;
    let operator = Operator::start(&namespace).await;
    namespace.apply(&application("pi", &json!({})));
    running(&namespace, "pi", 1).await;
    namespace.apply(&hopeless("hopeless"));
    let contradictory = json!({"restartPolicy": {
        "type": "Never",
        "onFailureRetries": 7,
        "onFailureRetryInterval": 1_000_000_000_i64,
        "onSubmissionFailureRetries": 7,
    }});
    namespace.apply(&application("contradictory", &contradictory));
    ended(&namespace, "contradictory", 1, 1).await;
    namespace.reaches("contradictory", "FAILED").await;
    let failed = namespace.reaches("hopeless", "FAILED").await;
    let why = failed["status"]["applicationState"]["errorMessage"].as_str().unwrap();
    assert!(why.starts_with("spec.volumes: `spark-local-dir-1` is scratch space"), "{why}");
    kubelet::ends(&namespace, "pi-driver", 0).await;
    namespace.reaches("pi", "COMPLETED").await;
    assert_eq!(complaints(&operator.log()), Vec::<&str>::new());
}

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
