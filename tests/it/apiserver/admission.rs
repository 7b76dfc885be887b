//! Tests how the API server stores Spark pods that the webhook has customized.

use super::{rights, sparkctl};
use crate::apiserver::prelude::*;

#[tokio::test]
#[ignore = "needs kube-apiserver: make test"]
async fn customized_rendered_and_restricted_pods_are_stored_as_requested() {
    let namespace = Namespace::new("stored-pods").await;
    let _operator = Operator::start(&namespace).await;
    let rendered = namespace.beside("rendered").await;
    sparkctl::rendered_objects_can_be_created_and_are_stored_unchanged(&rendered).await;
    let restricted = namespace.beside("rights-restricted").await;
    rights::restricted_pod_security_admits_all_pods_and_all_ports_are_open(&restricted).await;
    for (file, places) in
        yaml::<BTreeMap<String, BTreeMap<String, Value>>>(&data("apiserver/stored-pods.yaml"))
    {
        let first = namespace.create::<Pod>(&pod(&file)).await;
        has_requested_values(&first, &places);
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

fn has_requested_values(stored: &Value, places: &BTreeMap<String, Value>) {
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

pub(super) fn pod(file: &str) -> Value {
    yaml(&data(&format!("apiserver/{file}.yaml")))
}
