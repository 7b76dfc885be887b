//! Proves that the annotation `sparkoperator.k8s.io/rerun` runs a finished application again, once for each new value.

use super::{Namespace, application, edit, ended};
use crate::apiserver::{
    operator::Operator,
    proxy::{Call, Moment, Proxy},
};
use serde_json::{Value, json};

const STATUS_IS_WRITTEN: Call = Call { method: "PATCH", path: "/sparkapplications/pi/status" };

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
