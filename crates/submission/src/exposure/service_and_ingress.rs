//! Builds the objects by which a port of a driver can be reached: a Service, and an Ingress if the port has a URL
//! outside the cluster.

use super::{ExposedPort, Exposure, SERVICE_TYPE, all};
use crate::owned::owned;
use api::{SparkApplication, SparkApplicationStatus, annotation, label, role, stated, without_nulls};
use serde_json::{Value, json};

/// The regular expression that is appended to the path of an Ingress, so that it matches the path and everything below
/// it. The second group is the part below the path.
const BELOW: &str = "(/|$)(.*)";
/// An escaped dot in the path before [`BELOW`]: without the backslash, it would match any character, and the Ingress
/// also paths of other applications. No other character that a path may contain has a meaning in a regular expression.
const DOT: &str = r"\.";
/// The rewrite target: the second group of [`BELOW`].
const REST: &str = "/$2";

/// Returns all Services and Ingresses that should exist for the present run. A port whose URL is invalid gets no
/// Ingress; [`super::without_address`] returns why.
pub fn wanted(
    application: &SparkApplication,
    status: &SparkApplicationStatus,
    admins: &Exposure,
) -> Vec<Value> {
    let of_exposed = |exposed: ExposedPort| {
        let ingress = ingress(application, status, &exposed);
        [service(application, &exposed)].into_iter().chain(ingress)
    };
    // The user's labels of the same names are replaced: the operator finds and deletes the objects by its own labels.
    let own = |object| owned(object, application, status.submission_id.as_deref(), label::CREATED_BY);
    all(application, admins).flat_map(of_exposed).map(own).collect()
}

fn service(application: &SparkApplication, exposed: &ExposedPort) -> Value {
    let options = &exposed.options;
    let mut metadata = json!({"name": exposed.service, "labels": options.service_labels});
    if !options.service_annotations.is_empty() {
        metadata["annotations"] = json!(options.service_annotations);
    }
    let name = stated(&options.service_port_name).map_or(&*exposed.default_name, String::as_str);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": stated(&options.service_type).map_or(SERVICE_TYPE, String::as_str),
            "ports": [{"name": name, "port": exposed.port, "targetPort": exposed.target_port}],
            "selector": {label::APP_NAME: application.metadata.name, label::SPARK_ROLE: role::DRIVER},
        },
    })
}

/// Returns the Ingress of an exposed port, without its owner and labels; `None` if the port has no valid URL outside
/// the cluster.
pub fn ingress(
    application: &SparkApplication,
    status: &SparkApplicationStatus,
    exposed: &ExposedPort,
) -> Option<Value> {
    let url = exposed.url(application, status.spark_application_id.as_deref()).ok().flatten()?;
    let own = &exposed.options.ingress_annotations;
    let mut annotations = if own.is_empty() { &exposed.admins.ingress_annotations } else { own }.clone();
    let backend = json!({"service": {"name": exposed.service, "port": {"number": exposed.port}}});
    let mut path = json!({"pathType": "ImplementationSpecific", "backend": backend});
    if !url.path.is_empty() {
        path["path"] = format!("{}{BELOW}", url.path.replace('.', DOT)).into();
        annotations.insert(annotation::REWRITE_TARGET.to_owned(), REST.to_owned());
    }
    let annotations = Some(annotations).filter(|annotations| !annotations.is_empty());
    // The host is written without a port: an Ingress has no field for a port.
    let rules = json!([{"host": url.host, "http": {"paths": [path]}}]);
    let tls = Some(exposed.ingress_tls()).filter(|tls| !tls.is_empty());
    Some(without_nulls(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": exposed.ingress, "annotations": annotations},
        "spec": {"rules": rules, "tls": tls, "ingressClassName": exposed.admins.ingress_class},
    })))
}

/// Returns the name of the Service to which an Ingress of the operator leads; `None` for an object of another kind.
pub fn backend(object: &Value) -> Option<&str> {
    object["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"].as_str()
}

/// Returns the URLs of an Ingress without their scheme: each host with a path, as in `ui.example.com/team-a/pi`. The
/// object may be a merge patch.
pub fn addresses<'a>(ingress: &'a Value) -> Vec<String> {
    let items = |list: &'a Value| list.as_array().into_iter().flatten();
    let of_rule = |rule: &'a Value| {
        let host = rule["host"].as_str().unwrap_or_default();
        items(&rule["http"]["paths"]).map(move |path| {
            let path = path["path"].as_str().unwrap_or_default();
            let of_expression = path.strip_suffix(BELOW).map(|expression| expression.replace(DOT, "."));
            format!("{host}{}", of_expression.as_deref().unwrap_or(path))
        })
    };
    items(&ingress["spec"]["rules"]).flat_map(of_rule).collect()
}
