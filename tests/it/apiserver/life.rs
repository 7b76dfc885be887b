//! Tests the states, the status, the objects and the events of an application that succeeds.

use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_application_is_submitted_followed_and_completed() {
    let namespace = Namespace::new("life").await;
    let _operator = Operator::start(&namespace).await;
    for mut object in documents("manifests/examples/spark-pi-configmap.yaml") {
        object["metadata"]["namespace"] = json!(namespace.name);
        namespace.apply(&object);
    }

    // The application is submitted.
    namespace.reaches("spark-pi-configmap", "SUBMITTED").await;
    let is_known = |application: &Value| {
        let status = &application["status"];
        status["sparkApplicationId"].is_string() && status["driverInfo"]["webUIAddress"].is_string()
    };
    let what = "has an id and a web UI";
    let submitted = namespace.until::<SparkApplication>("spark-pi-configmap", what, is_known).await;
    let status = &submitted["status"];
    let id = status["submissionID"].as_str().unwrap();
    let driver = namespace
        .pod("spark-pi-configmap-driver")
        .await
        .expect("SUBMITTED means that the driver's pod exists");
    assert_eq!(
        *status,
        json!({
            "applicationState": {"state": "SUBMITTED"},
            "driverInfo": {
                "podName": "spark-pi-configmap-driver", "webUIServiceName": "spark-pi-configmap-ui-svc",
                "webUIPort": 4040, "webUIAddress": status["driverInfo"]["webUIAddress"],
            },
            "executionAttempts": 1, "submissionAttempts": 1, "submissionID": id,
            "sparkApplicationId": driver["metadata"]["labels"]["spark-app-selector"], "runOrdinal": 1,
            "observedGeneration": 1, "specHash": status["specHash"],
            "lastSubmissionAttemptTime": status["lastSubmissionAttemptTime"],
            "runs": [{
                "ordinal": 1, "cause": "Created", "operator": "spark-operator/spark-operator",
                "submissionID": id, "submittedTime": status["lastSubmissionAttemptTime"],
            }],
            "conditions": status["conditions"],
        })
    );
    assert_eq!(
        conditions(status),
        [
            ("Submitted", "True", "DriverCreated"),
            ("Running", "False", "Submitted"),
            ("Succeeded", "False", "Submitted"),
            ("Failed", "False", "Submitted"),
            ("Reconciling", "True", "Submitted"),
        ]
    );
    assert!(status["specHash"].is_string() && status["lastSubmissionAttemptTime"].is_string(), "{status}");
    for (label, value) in [
        ("sparkoperator.k8s.io/app-name", "spark-pi-configmap"),
        ("sparkoperator.k8s.io/submission-id", id),
        ("sparkoperator.k8s.io/launched-by-spark-operator", "true"),
        ("spark-role", "driver"),
    ] {
        assert_eq!(driver["metadata"]["labels"][label], value, "{label}");
    }
    assert_eq!(driver["metadata"]["ownerReferences"], owned_by(&submitted));
    let writers = submitted["metadata"]["managedFields"].as_array().unwrap().iter();
    let mut writers = writers.filter(|entry| entry["subresource"] == "status").map(|entry| &entry["manager"]);
    assert!(writers.all(|manager| manager == "spark-operator"), "{submitted}");

    // The application runs, with two executors as Spark creates them.
    namespace.runs("spark-pi-configmap").await;
    let first = spark::make_executor(&namespace, &driver, 1).await;
    namespace.events_up_to("SparkExecutorPending").await;
    kubelet::runs(&namespace, &first).await;
    namespace.events_up_to("SparkExecutorRunning").await;
    // An executor that starts at once is reported as running only.
    let second = spark::make_executor(&namespace, &driver, 2).await;
    kubelet::runs(&namespace, &second).await;
    let both = json!({"executorState": {&first: "RUNNING", &second: "RUNNING"}});
    let running = namespace.status_has("spark-pi-configmap", &both).await;
    let spark_id = namespace.pod(&first).await.unwrap()["metadata"]["labels"]["spark-app-selector"].take();
    assert_eq!(running["status"]["sparkApplicationId"], spark_id);
    assert_eq!(running["status"]["applicationState"], json!({"state": "RUNNING"}));

    // The application completes. Spark deletes executors that it does not need any more; the last one may outlive the
    // driver.
    kubelet::ends(&namespace, &first, 0).await;
    namespace.events_up_to("SparkExecutorCompleted").await;
    namespace.completes("spark-pi-configmap").await;
    namespace.delete::<Pod>(&second).await;
    let both = json!({"executorState": {&first: "COMPLETED", &second: "COMPLETED"}});
    let completed = namespace.status_has("spark-pi-configmap", &both).await;
    let mut expected = status.clone();
    expected["applicationState"] = json!({"state": "COMPLETED"});
    expected["executorState"] = completed["status"]["executorState"].clone();
    expected["sparkApplicationId"] = spark_id;
    expected["terminationTime"] = completed["status"]["terminationTime"].clone();
    let run = &mut expected["runs"][0];
    run["state"] = json!("COMPLETED");
    run["reason"] = json!("Completed");
    run["exitCode"] = json!(0);
    run["finishedTime"] = completed["status"]["terminationTime"].clone();
    expected["conditions"] = completed["status"]["conditions"].clone();
    assert_eq!(completed["status"], expected);
    assert_eq!(
        conditions(&expected),
        [
            ("Submitted", "True", "DriverCreated"),
            ("Running", "False", "Completed"),
            ("Succeeded", "True", "Completed"),
            ("Failed", "False", "Completed"),
        ]
    );
    assert_eq!(
        namespace.states_ever("spark-pi-configmap").await,
        ["", "SUBMITTED", "RUNNING", "SUCCEEDING", "COMPLETED"]
    );
    assert_eq!(namespace.drivers_ever().await, [driver["metadata"]["uid"].as_str().unwrap()]);

    // `kubectl` shows users the state and the times in Kubeflow's columns, and all events.
    let table = namespace.kubectl(&["get", "sparkapp"]);
    let [header, row] = table.lines().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(
        header.split_whitespace().collect::<Vec<_>>(),
        ["NAME", "SUSPEND", "STATUS", "ATTEMPTS", "START", "FINISH", "AGE"]
    );
    let text = |field: &str| expected[field].as_str().unwrap();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>()[..5],
        ["spark-pi-configmap", "COMPLETED", "1", text("lastSubmissionAttemptTime"), text("terminationTime")]
    );
    let told: Vec<[String; 3]> = yaml(&data("apiserver/told.yaml"));
    let events = namespace.events_up_to("SparkApplicationCompleted").await;
    let expected = |[reason, action, note]: &[String; 3]| ["Normal", reason, action, note].map(str::to_owned);
    assert_eq!(events, told.iter().map(expected).collect::<Vec<_>>());
    for event in namespace.operator_events().await {
        let regarding = &event["regarding"];
        assert_eq!(regarding["kind"], "SparkApplication");
        assert_eq!(regarding["uid"], completed["metadata"]["uid"]);
        assert_eq!(event["reportingController"], "spark-application-controller");
    }
    let shown =
        namespace.kubectl(&["events", "--for", "sparkapplication/spark-pi-configmap", "--no-headers"]);
    for [reason, _, note] in &told {
        let line = shown.lines().filter(|line| line.contains(reason) && line.ends_with(note)).count();
        assert_eq!(line, 1, "{reason} {note}\n{shown}");
    }
}

/// Returns type, status and reason of each condition.
fn conditions(status: &Value) -> Vec<(&str, &str, &str)> {
    let conditions = status["conditions"].as_array().unwrap().iter();
    conditions
        .map(|condition| ["type", "status", "reason"].map(|field| condition[field].as_str().unwrap()).into())
        .collect()
}
