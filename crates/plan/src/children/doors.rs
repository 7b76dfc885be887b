//! Makes the objects by which a port of a driver can be reached: a Service, and an Ingress if the port has an address
//! from outside.

use super::exposure::{Door, others, ui};
use crate::Policy;
use api::{
    SparkApplication, SparkApplicationStatus,
    names::{annotation, label, role},
    owner_reference,
};
use serde_json::{Map, Value, json};

pub(super) const SERVICE: &str = "Service";
pub(super) const INGRESS: &str = "Ingress";

/// Appended to the path of an Ingress, so that the path and all below it match. The second group is the part below the
/// path.
const BELOW: &str = "(/|$)(.*)";
/// The rewrite target: the second group of [`BELOW`].
const REST: &str = "/$2";

/// Returns all Services and Ingresses that should exist for the present run. If an address cannot be made, there is no
/// Ingress, and [`super::without_address`] returns why.
pub(super) fn wanted(
    application: &SparkApplication,
    status: &SparkApplicationStatus,
    policy: &Policy,
) -> Vec<Value> {
    let doors = ui(application, policy).into_iter().chain(others(application, policy));
    let of_door = |door: Door| {
        let ingress = ingress(application, status, &door, policy);
        [Some(service(application, status, &door)), ingress].into_iter().flatten()
    };
    doors.flat_map(of_door).collect()
}

fn service(application: &SparkApplication, status: &SparkApplicationStatus, door: &Door) -> Value {
    let mut metadata = metadata(application, status, &door.service);
    for (name, value) in door.service_labels.iter() {
        // The operator's own labels take precedence: the object is found and deleted by them.
        if metadata["labels"][name].is_null() {
            metadata["labels"][name] = value.as_str().into();
        }
    }
    if !door.service_annotations.is_empty() {
        metadata["annotations"] = json!(door.service_annotations);
    }
    json!({
        "apiVersion": "v1",
        "kind": SERVICE,
        "metadata": metadata,
        "spec": {
            "type": door.service_type,
            "ports": [{"name": door.port_name, "port": door.port, "targetPort": door.target_port}],
            "selector": {label::APP_NAME: application.metadata.name, label::SPARK_ROLE: role::DRIVER},
        },
    })
}

fn ingress(
    application: &SparkApplication,
    status: &SparkApplicationStatus,
    door: &Door,
    policy: &Policy,
) -> Option<Value> {
    let url = door.url(application, status.spark_application_id.as_deref()).ok().flatten()?;
    let mut metadata = metadata(application, status, &door.ingress);
    let mut annotations = door.ingress_annotations.clone();
    let backend = json!({"service": {"name": door.service, "port": {"number": door.port}}});
    let mut path = json!({"pathType": "ImplementationSpecific", "backend": backend});
    if !url.path.is_empty() {
        path["path"] = format!("{}{BELOW}", url.path).into();
        annotations.insert(annotation::REWRITE_TARGET.to_owned(), REST.to_owned());
    }
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    // The host is written without the port: an Ingress has no field for a port.
    let mut spec = json!({"rules": [{"host": url.host, "http": {"paths": [path]}}]});
    if let Some(class) = &policy.exposure.ingress_class {
        spec["ingressClassName"] = class.as_str().into();
    }
    if !door.ingress_tls.is_empty() {
        spec["tls"] = json!(door.ingress_tls);
    }
    Some(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": INGRESS,
        "metadata": metadata,
        "spec": spec,
    }))
}

fn metadata(application: &SparkApplication, status: &SparkApplicationStatus, name: &str) -> Value {
    let mut labels = Map::new();
    labels.insert(label::APP_NAME.to_owned(), json!(application.metadata.name));
    labels.insert(label::CREATED_BY.to_owned(), "true".into());
    if let Some(id) = &status.submission_id {
        labels.insert(label::SUBMISSION_ID.to_owned(), id.as_str().into());
    }
    json!({"name": name, "labels": labels, "ownerReferences": [owner_reference(application)]})
}
