//! Proves that an edit of the spec runs an application again, exactly once, whenever the edit is made.

use super::{Namespace, application, edit_spec, ended, running, runs, submitted};
use crate::apiserver::{
    A_WHILE, kubelet,
    operator::{Operator, stand_in},
    proxy::{Call, Moment, Proxy},
    spark,
    submission_node::SubmissionNode,
};
use api::SparkApplication;
use serde_json::{Value, json};
use tokio::time::sleep;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_edit_in_any_state_runs_the_application_anew() {
    let namespace = Namespace::new("edited").await;
    let operator = Operator::start(&namespace).await;
    let names = ["submitted", "running", "failed", "completed", "retrying", "refused"];
    let retry = json!({"restartPolicy": {"type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 3600}});
    for name in names {
        let spec = match name {
            "retrying" => &retry,
            "refused" => &json!({"mode": "client"}),
            _ => &json!({}),
        };
        namespace.apply(&application(name, spec));
    }
    submitted(&namespace, "submitted", 1).await;
    running(&namespace, "running", 1).await;
    let driver = namespace.pod("running-driver").await.unwrap();
    let executor = spark::make_executor(&namespace, &driver, 1).await;
    kubelet::runs(&namespace, &executor).await;
    ended(&namespace, "failed", 1, 1).await;
    namespace.reaches("failed", "FAILED").await;
    ended(&namespace, "completed", 1, 0).await;
    namespace.reaches("completed", "COMPLETED").await;
    ended(&namespace, "retrying", 1, 1).await;
    namespace.reaches("retrying", "FAILING").await;
    namespace.reaches("refused", "FAILED").await;
    namespace
        .becomes("running", "its executor is known", |application| {
            application["status"]["executorState"] == json!({&executor: "RUNNING"})
        })
        .await;

    for name in names {
        let before = namespace.pod(&format!("{name}-driver")).await.map(|pod| pod["metadata"]["uid"].clone());
        edit_spec(&namespace, name, &json!({"arguments": ["edited"], "mode": "cluster"}));
        let again = submitted(&namespace, name, 2).await;
        let status = &again["status"];
        assert_eq!(status["applicationState"], json!({"state": "SUBMITTED"}), "{name}");
        for field in ["executionAttempts", "submissionAttempts"] {
            assert_eq!(status[field], 1, "{name} {field}");
        }
        assert_eq!(status["observedGeneration"], again["metadata"]["generation"], "{name}");
        for field in ["executorState", "terminationTime"] {
            assert_eq!(status[field], Value::Null, "{name} {field}");
        }
        assert_eq!(runs(&again)[1], json!([2, "SpecEdited", null, null, null]), "{name}");
        let driver = namespace.pod(&format!("{name}-driver")).await.unwrap();
        assert_ne!(Some(&driver["metadata"]["uid"]), before.as_ref(), "{name}");
        let arguments = driver["spec"]["containers"][0]["args"].as_array().unwrap();
        assert_eq!(arguments.last(), Some(&json!("edited")), "{name}");
        let [.., edited, rerun, last] = &namespace.states_ever(name).await[..] else { panic!("{name}") };
        assert_eq!([&**edited, rerun, last], ["INVALIDATING", "PENDING_RERUN", "SUBMITTED"], "{name}");
    }
    assert_eq!(namespace.pod(&executor).await, None, "the old run's executor");
    assert_eq!(
        runs(&namespace.application("running").await)[0],
        json!([1, "Created", "INVALIDATING", "SpecEdited", null])
    );
    for name in names {
        let uid = &namespace.application(name).await["metadata"]["uid"].clone();
        let pods = namespace.list::<k8s_openapi::api::core::v1::Pod>().await;
        let owned = pods.iter().filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == *uid);
        assert_eq!(owned.count(), 1, "{name}");
    }
    assert_eq!(super::complaints(&operator.log()), Vec::<&str>::new());
}

/// When the submission is recorded, the spec is no longer the one that was submitted.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_edit_before_the_submission_is_recorded_is_not_lost() {
    let namespace = Namespace::new("edited-early").await;
    let proxy = Proxy::start().await;
    let operator = Operator::with(&namespace).through(&proxy).start().await;
    let status = Call { method: "PATCH", path: "/sparkapplications/pi/status" };
    let trap = proxy.hold(status, Moment::Before);
    namespace.apply(&application("pi", &json!({})));
    let held = trap.caught().await;
    edit_spec(&namespace, "pi", &json!({"arguments": ["edited"]}));
    held.release();
    running(&namespace, "pi", 2).await;
    let driver = namespace.pod("pi-driver").await.unwrap();
    assert_eq!(driver["spec"]["containers"][0]["args"].as_array().unwrap().last(), Some(&json!("edited")));
    kubelet::ends(&namespace, "pi-driver", 0).await;
    let completed = namespace.reaches("pi", "COMPLETED").await;
    assert_eq!(completed["status"]["observedGeneration"], 2);
    // The edit causes a conflict when the operator writes the status. A conflict is normal, and not logged as a
    // warning.
    assert_eq!(super::complaints(&operator.log()), Vec::<&str>::new());
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_edit_while_a_submission_pod_works_ends_it_before_another_is_made() {
    let namespace = Namespace::new("edited-meanwhile").await;
    let proxy = Proxy::start().await;
    let node = SubmissionNode::of(&namespace, &stand_in()).through(&proxy).start().await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    // The driver is half made.
    let configuration_is_made =
        proxy.hold(Call { method: "PATCH", path: "/configmaps/spark-drv-" }, Moment::Before);
    namespace.apply(&application("pi", &json!({})));
    let held = configuration_is_made.caught().await;
    let first = namespace.submission_pod(&[]).await;
    let first = first["metadata"]["name"].as_str().unwrap();
    kubelet::takes_its_time(&namespace, first);
    edit_spec(&namespace, "pi", &json!({"arguments": ["edited"]}));
    node.is_idle().await;
    held.close();
    namespace.becomes("pi", "the run is over", |it| !it["status"]["runs"].is_null()).await;
    sleep(A_WHILE).await;
    assert_eq!(namespace.submission_pods_ever().await.len(), 1);
    kubelet::is_done(&namespace, first);
    let submitted = submitted(&namespace, "pi", 2).await;
    assert_eq!(submitted["status"]["observedGeneration"], 2);
    let driver = namespace.pod("pi-driver").await.unwrap();
    assert_eq!(driver["spec"]["containers"][0]["args"].as_array().unwrap().last(), Some(&json!("edited")));
    ended(&namespace, "pi", 2, 0).await;
    let completed = namespace.reaches("pi", "COMPLETED").await;
    assert_eq!(
        runs(&completed),
        [
            json!([1, "Created", "INVALIDATING", "SpecEdited", null]),
            json!([2, "SpecEdited", "COMPLETED", "Completed", 0])
        ]
    );
    assert_eq!(namespace.drivers_ever().await.len(), 2);
}

/// An operator of another version has recorded no hash of the spec, or one that cannot be compared.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_edit_while_there_is_no_operator_counts_unless_another_version_has_recorded_the_spec() {
    let namespace = Namespace::new("upgraded").await;
    let operator = Operator::start(&namespace).await;
    let (ours, others) = (["running", "completed"], ["unrecorded", "incomparable", "finished"]);
    for name in ours.into_iter().chain(others) {
        namespace.apply(&application(name, &json!({})));
        running(&namespace, name, 1).await;
    }
    for name in ["completed", "finished"] {
        kubelet::ends(&namespace, &format!("{name}-driver"), 0).await;
        namespace.reaches(name, "COMPLETED").await;
    }
    operator.stop().await;
    for name in others {
        let recorded = if name == "incomparable" {
            json!({"specHash": "v0:an older version's"})
        } else {
            json!({"specHash": null, "observedGeneration": null})
        };
        namespace.patch_status::<SparkApplication>(name, &recorded).await;
    }
    for name in ours.into_iter().chain(others) {
        edit_spec(&namespace, name, &json!({"arguments": ["edited"]}));
    }
    let _operator = Operator::start(&namespace).await;
    for name in ours {
        let again = submitted(&namespace, name, 2).await;
        assert_eq!(again["status"]["observedGeneration"], 2, "{name}");
    }
    for name in others {
        let seen = namespace
            .becomes(name, "its spec is recorded", |application| {
                let status = &application["status"];
                status["observedGeneration"] == 2
                    && status["specHash"].as_str().is_some_and(|hash| hash.starts_with("v1:"))
            })
            .await;
        let state = if name == "finished" { "COMPLETED" } else { "RUNNING" };
        assert_eq!(seen["status"]["applicationState"]["state"], state, "{name}");
        assert_eq!(seen["status"]["runOrdinal"], 1, "{name}");
    }
    assert_eq!(namespace.drivers_ever().await.len(), 2 * ours.len() + others.len());
    // From now on an edit is recognized.
    edit_spec(&namespace, "unrecorded", &json!({"arguments": ["again"]}));
    submitted(&namespace, "unrecorded", 2).await;
}
