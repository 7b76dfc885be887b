//! Proves that nothing of an application runs while it is suspended, and that it runs again when resumed.

use super::{Namespace, application, edit_spec, running, runs};
use crate::apiserver::{eventually, kubelet, operator::Operator, seen, spark};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use serde_json::{Value, json};

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_running_application_is_suspended_when_all_of_it_is_gone() {
    let namespace = Namespace::new("suspended").await;
    let operator = Operator::with(&namespace).argument("--enable-ui-service=false").start().await;
    namespace.apply(&application("pi", &json!({})));
    running(&namespace, "pi", 1).await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    let first = spark::make_executor(&namespace, &driver, 1).await;
    kubelet::runs(&namespace, &first).await;
    let pending = spark::make_executor(&namespace, &driver, 2).await;
    kubelet::takes_its_time(&namespace, &pending);

    edit_spec(&namespace, "pi", &json!({"suspend": true}));
    namespace.reaches("pi", "SUSPENDING").await;
    eventually("all but one pod is gone", async || {
        let pods = namespace.list::<Pod>().await;
        let leaving = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        seen(pods.len() == 1 && leaving(&pods[0]), pods)
    })
    .await;
    // A further reconcile must not change the state while a pod still exists.
    let looked =
        operator.metric("workqueue_queue_duration_seconds_count{controller=\"sparkapplication\",name=\"sparkapplication\"}").await.unwrap();
    namespace.kubectl(&["annotate", "sparkapplication", "pi", "look=again"]);
    operator.has_looked_at(looked as usize + 1).await;
    assert_eq!(namespace.application("pi").await["status"]["applicationState"]["state"], "SUSPENDING");
    kubelet::is_done(&namespace, &pending);
    let suspended = namespace.reaches("pi", "SUSPENDED").await;
    has_nothing(&namespace).await;
    let status = &suspended["status"];
    assert_eq!([&status["executorState"], &status["sparkApplicationId"]], [&Value::Null, &Value::Null]);
    assert_eq!(runs(&suspended), [json!([1, "Created", "SUSPENDED", "Suspended", null])]);

    edit_spec(&namespace, "pi", &json!({"suspend": false}));
    let resumed = running(&namespace, "pi", 2).await;
    assert_eq!(
        runs(&resumed),
        [json!([1, "Created", "SUSPENDED", "Suspended", null]), json!([2, "Resumed", null, null, null])]
    );
    let [first, second] = [0_usize, 1].map(|run| &resumed["status"]["runs"][run]["submissionID"]);
    assert_eq!(*second, resumed["status"]["submissionID"]);
    assert_ne!(first, second, "each run has its own id");
    assert_eq!(namespace.drivers_ever().await.len(), 2);
    assert_eq!(
        namespace.states_ever("pi").await,
        ["", "SUBMITTED", "RUNNING", "SUSPENDING", "SUSPENDED", "RESUMING", "SUBMITTED", "RUNNING"]
    );
    assert_eq!(super::complaints(&operator.log()), Vec::<&str>::new());
}

async fn has_nothing(namespace: &Namespace) {
    assert_eq!(namespace.list::<Pod>().await, Vec::<Value>::new());
    assert_eq!(namespace.list::<ConfigMap>().await, Vec::<Value>::new());
    assert_eq!(namespace.list::<Service>().await, Vec::<Value>::new());
}
