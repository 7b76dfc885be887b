//! Proves that an operator can be installed and started while no webhook answers, although the webhook's failure policy
//! refuses requests then.

use super::admission::pod;
use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn an_operator_can_be_installed_and_started_while_its_webhook_is_down() {
    let namespace = Namespace::new("bootstrap").await;
    let _reviewed = reviewed();
    // As at the first installation: no caBundle, and no pod behind the Service.
    let create = |object: &Value, namespace: &str| calls::tried_in(namespace, object).unwrap();
    let mut deployment: Value = yaml(Path::new("manifests/deployment/operator.yaml"));
    let mut replica = deployment["spec"]["template"].clone();
    replica["apiVersion"] = json!("v1");
    replica["kind"] = json!("Pod");
    replica["metadata"]["name"] = json!("replica");
    deployment["metadata"]["name"] = json!("another");
    for here in [NAMESPACE, namespace.name] {
        deployment["metadata"]["namespace"] = json!(here);
        create(&deployment, here);
        // The pod that Kubernetes' controllers create for the Deployment.
        create(&replica, here);
    }
    // Other pods, and Spark pods without annotations of the operator, do not depend on the webhook either.
    create(&plain_pod(&json!({"name": "plain"})), namespace.name);
    for file in ["driver-pod", "executor-pod"] {
        for annotations in [json!({"team": "data"}), Value::Null] {
            let mut of_spark = pod(file);
            of_spark["metadata"]["annotations"] = annotations;
            create(&of_spark, namespace.name);
        }
    }

    for (object, webhook) in [
        (application("pi"), "mutate-sparkoperator-k8s-io-v1beta2-sparkapplication.sparkoperator.k8s.io"),
        (pod("driver-pod"), "mutate--v1-pod.sparkoperator.k8s.io"),
        (pod("executor-pod"), "mutate--v1-pod.sparkoperator.k8s.io"),
    ] {
        let refused = calls::tried_in(namespace.name, &object).unwrap_err();
        assert!(refused.contains(&format!("failed calling webhook \"{webhook}\"")), "{refused}");
    }
}
