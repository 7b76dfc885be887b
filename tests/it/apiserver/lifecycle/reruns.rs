//! Proves that the annotation `sparkoperator.k8s.io/rerun` runs a finished application again, once for each new value.

use super::{Namespace, application, edit, ended, running, runs};
use crate::apiserver::{
    kubelet,
    operator::Operator,
    proxy::{Call, Moment, Proxy},
};
use serde_json::{Value, json};

const STATUS_IS_WRITTEN: Call = Call { method: "PATCH", path: "/sparkapplications/pi/status" };

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_finished_application_runs_again_once_for_each_new_value() {
    let namespace = Namespace::new("rerun").await;
    let operator = Operator::start(&namespace).await;
    let mut pi = application("pi", &json!({}));
    // The value at the creation of the application requests nothing.
    pi["metadata"]["annotations"] = json!({"sparkoperator.k8s.io/rerun": "first"});
    namespace.apply(&pi);
    ended(&namespace, "pi", 1, 1).await;
    let failed = namespace.reaches("pi", "FAILED").await;
    assert_eq!(failed["status"]["lastRerun"], "first");

    ask(&namespace, "second");
    ended(&namespace, "pi", 2, 0).await;
    let completed = namespace.reaches("pi", "COMPLETED").await;
    let status = &completed["status"];
    assert_eq!([&status["lastRerun"], &status["executionAttempts"]], [&json!("second"), &json!(1)]);
    assert_eq!(
        runs(&completed),
        [
            json!([1, "Created", "FAILED", "Error", 1]),
            json!([2, "RerunRequested", "COMPLETED", "Completed", 0])
        ]
    );
    operator.stop().await;
    let operator = Operator::start(&namespace).await;
    operator.has_looked_at(1).await;
    edit(&namespace, "pi", &json!({"metadata": {"annotations": {"sparkoperator.k8s.io/rerun": null}}}));
    ask(&namespace, "second");
    operator.has_looked_at(3).await;
    assert_eq!(namespace.application("pi").await["status"]["runOrdinal"], 2);

    // A request while the application runs is remembered, and carried out after the end.
    ask(&namespace, "third");
    running(&namespace, "pi", 3).await;
    ask(&namespace, "fourth");
    kubelet::ends(&namespace, "pi-driver", 0).await;
    ended(&namespace, "pi", 4, 0).await;
    let completed = namespace.reaches("pi", "COMPLETED").await;
    assert_eq!(completed["status"]["lastRerun"], "fourth");
    assert_eq!(namespace.drivers_ever().await.len(), 4);
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_crash_neither_loses_nor_repeats_what_was_asked_for() {
    let namespace = Namespace::new("rerun-crash").await;
    let proxy = Proxy::start().await;
    let mut operator = Operator::with(&namespace).through(&proxy).start().await;
    namespace.apply(&application("pi", &json!({})));
    ended(&namespace, "pi", 1, 0).await;
    namespace.reaches("pi", "COMPLETED").await;
    let mut run = 1;
    for moment in [Moment::Before, Moment::After] {
        // The first write records the request, the second the submission.
        for write in 0..2 {
            run += 1;
            let mut traps: Vec<_> = (0..=write).map(|_| proxy.hold(STATUS_IS_WRITTEN, moment)).collect();
            let last = traps.pop().unwrap();
            ask(&namespace, &run.to_string());
            for trap in traps {
                trap.caught().await.release();
            }
            let held = last.caught().await;
            operator.kill();
            held.close();
            operator = Operator::with(&namespace).through(&proxy).start().await;
            ended(&namespace, "pi", run, 0).await;
            let completed = namespace.reaches("pi", "COMPLETED").await;
            assert_eq!(completed["status"]["lastRerun"], run.to_string());
            assert_eq!(completed["status"]["runOrdinal"], run);
            let looked =
                operator.metric("workqueue_queue_duration_seconds_count{controller=\"sparkapplication\",name=\"sparkapplication\"}").await;
            operator.has_looked_at(looked.unwrap() as usize).await;
            assert_eq!(
                namespace.drivers_ever().await.len(),
                usize::try_from(run).unwrap(),
                "{moment:?} {write}"
            );
        }
    }
    let last = namespace.application("pi").await;
    assert_eq!(last["status"]["applicationState"]["state"], "COMPLETED");
    let causes = last["status"]["runs"].as_array().unwrap().iter().map(|run| run["cause"].as_str().unwrap());
    assert_eq!(
        causes.collect::<Vec<_>>(),
        ["Created", "RerunRequested", "RerunRequested", "RerunRequested", "RerunRequested"]
    );
    assert_ne!(last["status"]["terminationTime"], Value::Null);
}

fn ask(namespace: &Namespace, value: &str) {
    edit(namespace, "pi", &json!({"metadata": {"annotations": {"sparkoperator.k8s.io/rerun": value}}}));
}
