//! Tests the contents of the logs and metrics of a working operator.

use super::operator::METRICS;
use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn logs_are_json_with_spans_and_no_secrets_and_metrics_count_correctly() {
    let namespace = Namespace::new("logs").await;
    let _node = SubmissionNode::of(&namespace, &stand_in()).start().await;
    let setup = Operator::with(&namespace).by_spark_submit().argument("--zap-encoder=json");
    let operator = setup.start().await;
    let mut pi = application("pi");
    pi["spec"]["sparkConf"] = json!({"spark.some.conf": "hush-conf"});
    pi["spec"]["hadoopConf"] = json!({"fs.s3a.secret.key": "hush-hadoop"});
    pi["spec"]["arguments"] = json!(["--password", "hush-argument", "token=hush-pair"]);
    pi["spec"]["driver"]["annotations"] = json!({"example.com/a": "hush-annotation"});
    pi["spec"]["driver"]["env"] = json!([{"name": "A", "value": "hush-env"}]);
    pi["spec"]["driver"]["envVars"] = json!({"B": "hush-env-var"});
    namespace.apply(&pi);
    let submission_id = namespace.reaches("pi", "SUBMITTED").await["status"]["submissionID"].clone();
    let driver = namespace.pod("pi-driver").await.unwrap();
    assert!(driver.to_string().contains("hush-env"), "the driver has secret values");

    let log = operator.has_logged("state changed").await;
    assert!(!log.contains("hush"), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let span_of = |target: &str, message: &str| {
        let is_it = |line: &&Value| line["target"] == target && line["message"] == message;
        lines.iter().rev().find(is_it).unwrap_or_else(|| panic!("no {message} in\n{log}"))["span"].clone()
    };
    let here = namespace.name;
    let changed = span_of("spark_operator_controller::reconcile", "state changed");
    let expected = json!({
        "kind": "SparkApplication", "namespace": here, "name": "pi", "state": "",
        "submission_id": submission_id,
    });
    assert_eq!(changed, expected);
    let submitted = span_of("spark_operator_controller::submitter", "submission pod made");
    let expected = json!({"namespace": here, "name": "pi", "submission_id": submission_id, "attempt": 1, "submitter": "spark-submit"});
    assert_eq!(submitted, expected);
    let reviewed = span_of("spark_operator_webhook::review", "admitted");
    let uid = &reviewed["uid"];
    assert!(uid.is_string());
    let expected = json!({
        "uid": uid, "operation": "CREATE", "kind": "Pod", "namespace": here, "name": "pi-driver",
        "outcome": "patched",
    });
    assert_eq!(reviewed, expected);

    let mut denied = driver.clone();
    denied["metadata"] = json!({
        "name": "denied", "labels": {"spark-role": "driver"},
        "annotations": {
            "sparkoperator.k8s.io/tolerations": "[{\"key\": 1}]",
            "sparkoperator.k8s.io/memory-limit": "hush-limit",
        },
    });
    try_kubectl_with(&denied, &["create", "--namespace", here, "-f", "-"]).unwrap_err();
    let line = eventually("the denial is logged", async || {
        let log = operator.log();
        let denied = log.lines().find(|line| line.contains("\"denied\"")).map(str::to_owned);
        denied.ok_or(log)
    })
    .await;
    let line: Value = serde_json::from_str(&line).unwrap();
    assert!(line["message"] == "denied" && line["span"]["uid"].is_string(), "{line}");
    assert_eq!((&line["span"]["name"], &line["span"]["outcome"]), (&json!("denied"), &json!("denied")));
    let reason = "sparkoperator.k8s.io/memory-limit,sparkoperator.k8s.io/tolerations";
    assert_eq!(line["span"]["reason"], reason);
    assert!(!operator.log().contains("hush"), "{line}");
    metrics_count_submissions_reviews_and_writes(&namespace, &operator).await;
}

/// Needs an operator that has submitted the application `pi`.
async fn metrics_count_submissions_reviews_and_writes(namespace: &Namespace, operator: &Operator) {
    // The webhook denies the driver of `taken`, because Spark gives this name to a volume of its own.
    let mut taken = application("taken");
    taken["spec"]["volumes"] = json!([{"name": "spark-conf-volume-driver", "emptyDir": {}}]);
    taken["spec"]["driver"]["volumeMounts"] =
        json!([{"name": "spark-conf-volume-driver", "mountPath": "/x"}]);
    namespace.apply(&taken);
    let why = namespace.failure("taken").await;
    assert!(why.starts_with("failed to run spark-submit: ") && why.contains("denied the request"), "{why}");

    // The status names the Service of the web UI of `pi` a second after the state: the operator collects changes that leave
    // the state as it is.
    let has_web_ui = |pi: &Value| !pi["status"]["driverInfo"]["webUIServiceName"].is_null();
    namespace.until::<SparkApplication>("pi", "has a web UI", has_web_ui).await;
    // The submission of `taken` succeeded too: its submission pod was created.
    // The last reconcile is still active for a moment after its status is written.
    let text = eventually("everything is counted, and the queue is empty", async || {
        let (status, text) = operator.get(METRICS, "/metrics").await?;
        let missing = lacks(&text, "apiserver/metrics.txt");
        seen(status == 200 && missing.is_none(), format!("{status}, no {missing:?} in\n{text}"))
            .map(|()| text)
    })
    .await;
    // Status writes: New → SUBMITTED, New → SUBMISSION_FAILED → FAILED, the web UI of `pi`, and twice for each application
    // the state of its submission pod.
    let patches = "rest_client_requests_total{code=\"200\",method=\"PATCH\",";
    let written = text.lines().find(|line| line.starts_with(patches)).unwrap_or_else(|| panic!("{text}"));
    let written: u32 = written.rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!(
        (4..=9).contains(&written),
        "{written}: three states, the web UI, four reports of pods, and maybe the caBundle"
    );
    // A test in `node` checks the text with Prometheus' own parser.
    let families: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(families.iter().collect::<BTreeSet<_>>().len(), families.len(), "{text}");
}
