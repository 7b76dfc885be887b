//! Tests how the API server stores Spark pods that the webhook has customized.

use super::reinvocation;
use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn a_pod_is_stored_as_its_annotations_ask_and_not_changed_once_more_or_refused_with_the_place() {
    let namespace = Namespace::new("stored-pods").await;
    let operator = Operator::start(&namespace).await;
    annotations_that_cannot_be_carried_out_are_refused_with_the_place(&namespace);
    let reinvoked = namespace.beside("reinvoked").await;
    reinvocation::a_second_call_after_a_sidecar_was_injected_and_images_were_mirrored_changes_nothing(
        &reinvoked, &operator,
    )
    .await;
    for file in ["driver-pod", "executor-pod"] {
        let first = namespace.create::<Pod>(&pod(file)).await;
        if file == "driver-pod" {
            is_a_driver_as_asked(&first)
        } else {
            is_an_executor_as_asked(&first)
        }
        let name = first["metadata"]["name"].as_str().unwrap();
        namespace.delete::<Pod>(name).await;
        let again = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "labels": first["metadata"]["labels"],
                "annotations": first["metadata"]["annotations"],
                "ownerReferences": first["metadata"]["ownerReferences"],
            },
            "spec": first["spec"],
        });
        let second = namespace.create::<Pod>(&again).await;
        assert_eq!(second["spec"], first["spec"]);
        assert_eq!(second["metadata"]["ownerReferences"], first["metadata"]["ownerReferences"]);
    }
}

fn is_a_driver_as_asked(driver: &Value) {
    let owner = json!({
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "name": "pi",
        "uid": "6d8a2c1e-0000-4000-8000-000000000001", "controller": true, "blockOwnerDeletion": true,
    });
    assert_eq!(driver["metadata"]["ownerReferences"], json!([owner]));
    let spec = &driver["spec"];
    let ssd = json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ssd]}});
    assert_eq!(spec["affinity"], json!({"nodeAffinity": required}));
    // The other two tolerations are Kubernetes' own.
    let dedicated =
        json!({"key": "dedicated", "operator": "Equal", "value": "spark", "effect": "NoSchedule"});
    assert_eq!(
        spec["tolerations"].as_array().unwrap().iter().filter(|toleration| **toleration == dedicated).count(),
        1
    );
    assert_eq!(spec["tolerations"].as_array().unwrap().len(), 3);
    assert_eq!(
        spec["volumes"],
        json!([
            {"name": "config", "configMap": {"name": "pi-config", "defaultMode": 420}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        ])
    );
    let [container, proxy] = &spec["containers"].as_array().unwrap()[..] else { panic!("{spec}") };
    assert_eq!(
        container["volumeMounts"],
        json!([
            {"name": "config", "mountPath": "/etc/pi", "readOnly": true},
            {"name": "memory", "mountPath": "/memory"},
        ])
    );
    assert_eq!(
        container["env"],
        json!([
            {"name": "SPARK_USER", "value": "root"},
            {"name": "COLOUR", "value": "blue"},
            {"name": "NODE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
        ])
    );
    assert_eq!(proxy["ports"], json!([{"containerPort": 8080, "protocol": "TCP"}]));
}

fn is_an_executor_as_asked(executor: &Value) {
    let spec = &executor["spec"];
    assert_eq!(spec["nodeSelector"], json!({"disk": "ssd"}));
    assert_eq!(spec["securityContext"], json!({"fsGroup": 185, "runAsNonRoot": true}));
    assert_eq!(spec["terminationGracePeriodSeconds"], json!(60));
    let volume =
        json!({"configMap": {"name": "pi.config", "defaultMode": 420}, "name": spec["volumes"][0]["name"]});
    assert_eq!(spec["volumes"], json!([volume]));
    let container = &spec["containers"][0];
    assert_eq!(
        container["volumeMounts"],
        json!([{"name": volume["name"], "mountPath": "/etc/pi", "readOnly": true}])
    );
    assert_eq!(container["envFrom"], json!([{"configMapRef": {"name": "pi-env"}}]));
    assert_eq!(
        container["resources"],
        json!({"requests": {"cpu": "1", "memory": "896Mi"}, "limits": {"memory": "2Gi"}})
    );
}

fn annotations_that_cannot_be_carried_out_are_refused_with_the_place(namespace: &Namespace) {
    for (annotation, value, complaint) in [
        (
            "tolerations",
            r#"[{"key": "a", "tolerationSeconds": "soon"}]"#,
            "annotation sparkoperator.k8s.io/tolerations at [0].tolerationSeconds: invalid type: string \"soon\", expected i64",
        ),
        (
            "volume-mounts",
            r#"[{"name": "config", "mountPath": "/x", "readOnly": "yes"}]"#,
            "annotation sparkoperator.k8s.io/volume-mounts at [0].readOnly: invalid type: string \"yes\", expected a boolean",
        ),
    ] {
        let mut pod = pod("driver-pod");
        pod["metadata"]["annotations"][format!("sparkoperator.k8s.io/{annotation}")] = json!(value);
        assert_eq!(
            try_kubectl_with(&pod, &["create", "--namespace", namespace.name, "-f", "-"]).unwrap_err(),
            format!(
                "Error from server (Forbidden): error when creating \"STDIN\": admission webhook \
                 \"mutate--v1-pod.sparkoperator.k8s.io\" denied the request: {complaint}"
            )
        );
    }
}

pub(super) fn pod(file: &str) -> Value {
    let yaml = fs::read_to_string(format!("tests/data/apiserver/{file}.yaml")).unwrap();
    serde_saphyr::from_str(&yaml).unwrap()
}
