//! Proves that all texts of an application reach its pods unchanged through Spark's own `spark-submit`, with any
//! characters. `node::characters` proves it for native submission, with annotations of the largest size.

use super::{
    predicted,
    spark::{executor_template, make_executor},
};
use crate::{apiserver::prelude::*, characters::hard_to_carry};

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn spark_submit_keeps_characters_matches_predictions_and_reports_errors() {
    let namespace = Namespace::new("characters").await;
    let _operator = Operator::with(&namespace).by_spark_submit().start().await;
    every_character_arrives_on_the_driver_and_on_an_executor(&namespace).await;
    predicted::spark_submit_creates_what_was_predicted(&namespace.beside("predicted").await).await;
    let complains = namespace.beside("in-its-words").await;
    errors_of_spark_submit_are_reported_verbatim(&complains).await;
}

async fn errors_of_spark_submit_are_reported_verbatim(namespace: &Namespace) {
    let _node = SubmissionNode::of(namespace, spark_home()).start().await;
    let mut pi = application("pi");
    pi["spec"]["sparkConf"] = json!({"spark.kubernetes.submission.connectionTimeout": "soon"});
    namespace.apply(&pi);
    let why = "failed to run spark-submit: java.lang.IllegalArgumentException: spark.kubernetes.submission.connectionTimeout should be \
               int, but was soon";
    assert_eq!(namespace.failure("pi").await, why);
}

async fn every_character_arrives_on_the_driver_and_on_an_executor(namespace: &Namespace) {
    // The locale of an image that sets none.
    let _node = SubmissionNode::of(namespace, spark_home()).env("LC_ALL", "POSIX").start().await;
    let texts = hard_to_carry();
    // The API server omits an empty value.
    let variable = |(i, text)| json!({"name": format!("HARD_{i}"), "value": text});
    let env: Value = (0..).zip(&texts).skip(1).map(variable).collect();
    let annotations: Map<_, _> =
        (0..).zip(&texts).map(|(i, text)| (format!("hard-{i}"), json!(text))).collect();
    let claim = json!({
        "metadata": {"annotations": annotations},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
    });
    let run = json!({"exec": {"command": texts}});
    // Spark's shell script deletes carriage returns.
    let arguments: Vec<_> = texts.iter().filter(|text| !text.contains('\r')).collect();
    let mut hard = application("hard");
    hard["spec"]["arguments"] = json!(arguments);
    hard["spec"]["volumes"] = json!([{"name": "claim", "ephemeral": {"volumeClaimTemplate": claim}}]);
    for role in Role::ALL {
        let pod = &mut hard["spec"][role.as_str()];
        pod["env"] = env.clone();
        pod["lifecycle"] = json!({"postStart": run, "preStop": run});
        pod["volumeMounts"] = json!([{"name": "claim", "mountPath": "/ä # \"'\\ {{APP_ID}} 🚀"}]);
        pod["sidecars"] =
            json!([{"name": "beside", "image": "none", "command": texts, "args": texts, "env": env}]);
        pod["initContainers"] = json!([{"name": "before", "image": "none", "args": texts}]);
    }
    namespace.apply(&hard);
    let stored = namespace.reaches("hard", "SUBMITTED").await;

    for (role, pod) in pods_of(namespace, &stored).await {
        let (asked, spec) = (&hard["spec"][role.as_str()], &pod["spec"]);
        let [container, beside] = &spec["containers"].as_array().unwrap()[..] else { panic!("{spec}") };
        let has_all = |list: &Value, entries: &Value| {
            let list = list.as_array().unwrap();
            entries.as_array().unwrap().iter().all(|entry| list.contains(entry))
        };
        assert!(has_all(&container["env"], &asked["env"]), "{role:?}: {:#}", container["env"]);
        assert!(has_all(&container["volumeMounts"], &asked["volumeMounts"]), "{role:?}: {container:#}");
        assert!(has_all(&spec["volumes"], &hard["spec"]["volumes"]), "{role:?}: {:#}", spec["volumes"]);
        assert_eq!(container["lifecycle"], asked["lifecycle"], "{role:?}");
        if role == Role::Driver {
            let args = container["args"].as_array().unwrap();
            assert_eq!(json!(args[args.len() - arguments.len()..]), json!(arguments));
        }
        for field in ["command", "args", "env"] {
            assert_eq!(beside[field], asked["sidecars"][0][field], "{role:?}: {field}");
        }
        assert_eq!(spec["initContainers"][0]["args"], asked["initContainers"][0]["args"], "{role:?}");
    }
}

/// Returns the driver of a stored application and an executor that is created as the driver would create it; asserts
/// that both have the expected annotations of the operator.
async fn pods_of(namespace: &Namespace, stored: &Value) -> [(Role, Value); 2] {
    let application: SparkApplication = serde_json::from_value(stored.clone()).unwrap();
    let driver = stored["status"]["driverInfo"]["podName"].as_str().unwrap();
    let driver = namespace.pod(driver).await.unwrap();
    let template = executor_template(namespace, &driver).await;
    let executor = make_executor(namespace, &driver, 1).await;
    let executor = namespace.pod(&executor).await.unwrap();
    for (role, object) in [(Role::Driver, &driver), (Role::Executor, &template), (Role::Executor, &executor)]
    {
        let annotations = &object["metadata"]["annotations"];
        let mut found: BTreeMap<String, String> = serde_json::from_value(annotations.clone()).unwrap();
        found.retain(|key, _| pod_customization::is_of_contract(key));
        assert_eq!(found, pod_customization::annotations(&application, role), "{role:?}");
    }
    [(Role::Driver, driver), (Role::Executor, executor)]
}
