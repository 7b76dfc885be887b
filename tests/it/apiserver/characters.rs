//! Proves that all texts of an application reach its pods unchanged, with any characters and up to the largest size,
//! natively and through Spark's own `spark-submit`.

use super::{
    applications::application,
    namespace::{Namespace, Reviewed},
    operator::{Operator, spark_home},
    spark::{executor_template, make_executor},
    submission_node::SubmissionNode,
};
use crate::characters::{LARGEST, fill, hard_to_carry};
use api::{Role, SparkApplication};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn every_character_arrives_on_the_driver_and_on_an_executor() {
    for submitter in ["native", "spark-submit"] {
        arrives(submitter).await;
    }
}

async fn arrives(submitter: &str) {
    let namespace = Namespace::new("characters").await;
    // The locale of an image that sets none.
    let _node = SubmissionNode::of(&namespace, spark_home()).env("LC_ALL", "POSIX").start().await;
    let _operator = Operator::with(&namespace).env("SPARK_OPERATOR_SUBMITTER", submitter).start().await;
    let mut texts = hard_to_carry();
    if submitter == "native" {
        // No process can receive this text, but a pod's specification can contain it.
        texts.push("a\0b".to_owned());
    }
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
    // Spark's shell script deletes carriage returns, and arguments on Linux contain no zero bytes.
    let arguments: Vec<_> = texts.iter().filter(|text| !text.contains(['\r', '\0'])).collect();
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

    for (role, pod) in pods_of(&namespace, &stored).await {
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

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn annotations_arrive_up_to_the_last_byte_that_kubernetes_allows_and_are_refused_beyond() {
    let namespace = Namespace::new("annotations-full").await;
    let _reviewed = Reviewed::begin();
    let _operator = Operator::start(&namespace).await;
    let mut full = application("full");
    // Escaping makes these characters grow most: the first in annotations, the second in the pod template that Spark
    // gives to the driver.
    fill(&mut full, Role::Driver, "\u{1}");
    fill(&mut full, Role::Executor, "\u{80}");
    // `kubectl apply` would store a copy in an annotation, for which there is no room.
    namespace.create::<SparkApplication>(&full).await;
    let stored = namespace.reaches("full", "SUBMITTED").await;
    for (role, pod) in pods_of(&namespace, &stored).await {
        let annotations = pod["metadata"]["annotations"].as_object().unwrap();
        let size =
            annotations.iter().map(|(key, value)| key.len() + value.as_str().unwrap().len()).sum::<usize>();
        assert_eq!(size, LARGEST, "{role:?}");
    }

    // The new name has the same length, because the driver's annotations contain the name of its owner.
    full["metadata"]["name"] = json!("over");
    for role in Role::ALL {
        let name = &mut full["spec"][role.as_str()]["env"][0]["name"];
        *name = json!(format!("{}_", name.as_str().unwrap()));
    }
    let object: DynamicObject = serde_json::from_value(full).unwrap();
    let refused = namespace.api::<SparkApplication>().create(&PostParams::default(), &object).await;
    let refused = refused.unwrap_err().to_string();
    for role in Role::ALL {
        let said = format!(
            "spec.{}: makes {} bytes of annotations, most of it `sparkoperator.k8s.io/env`, and Kubernetes allows \
             {LARGEST}: move large values into ConfigMaps",
            role.as_str(),
            LARGEST + 1
        );
        assert!(refused.contains(&said), "no `{said}` in {refused}");
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
