//! Tests how the API server stores Spark pods that the webhook has customized.

use super::{rights, sparkctl};
use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn pods_are_stored_as_they_ask_or_refused_and_what_is_rendered_or_restricted_is_admitted() {
    let namespace = Namespace::new("stored-pods").await;
    let _operator = Operator::start(&namespace).await;
    annotations_that_cannot_be_carried_out_are_refused_with_the_place(&namespace);
    let rendered = namespace.beside("rendered").await;
    sparkctl::what_is_rendered_can_be_created_and_arrives_as_it_was_meant(&rendered).await;
    let restricted = namespace.beside("rights-restricted").await;
    rights::the_strictest_level_of_pod_security_lets_everything_run_and_all_ports_are_open(&restricted).await;
    for (file, places) in
        yaml::<BTreeMap<String, BTreeMap<String, Value>>>(&data("apiserver/stored-pods.yaml"))
    {
        let first = namespace.create::<Pod>(&pod(&file)).await;
        is_as_asked(&first, &places);
        let metadata = &first["metadata"];
        let name = metadata["name"].as_str().unwrap();
        namespace.delete::<Pod>(name).await;
        let kept = ["name", "labels", "annotations", "ownerReferences"];
        let kept: Map<_, _> =
            kept.iter().map(|field| ((*field).to_owned(), metadata[*field].clone())).collect();
        let again = json!({"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": first["spec"]});
        let second = namespace.create::<Pod>(&again).await;
        assert_eq!(second["spec"], first["spec"]);
        assert_eq!(second["metadata"]["ownerReferences"], metadata["ownerReferences"]);
    }
}

fn is_as_asked(stored: &Value, places: &BTreeMap<String, Value>) {
    let mut pod = stored.clone();
    let is_own = |toleration: &Value| !toleration["key"].as_str().unwrap().starts_with("node.kubernetes.io/");
    pod["spec"]["tolerations"].as_array_mut().unwrap().retain(is_own);
    for (place, expected) in places {
        assert_eq!(pod.pointer(place).unwrap_or(&Value::Null), expected, "{place}");
    }
    let names = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|one| one["name"].clone()).collect()
    };
    assert_eq!(names(&pod["spec"]["containers"][0]["volumeMounts"]), names(&pod["spec"]["volumes"]));
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
    yaml(&data(&format!("apiserver/{file}.yaml")))
}
