//! What does an installation consist of? The files under `manifests/`, which the binary carries.

use crate::{
    api::crds,
    settings::{ManifestsPart, ManifestsSettings},
};
use serde_json::{Value, json};
use std::fmt::Write;

/// The namespace that the files are written for.
const NAMESPACE: &str = "spark-operator";

/// What the operator may do.
pub const RBAC: &str = include_str!("../manifests/rbac/operator.yaml");
/// What it may do besides where it enforces quotas.
pub const QUOTA_RBAC: &str = include_str!("../manifests/rbac/quota.yaml");
const SPARK_RBAC: &str = include_str!("../manifests/rbac/spark.yaml");
const WEBHOOK_SERVICE: &str = include_str!("../manifests/webhook/service.yaml");
const WEBHOOK_PODS: &str = include_str!("../manifests/webhook/pods.yaml");
const WEBHOOK_APPLICATIONS: &str = include_str!("../manifests/webhook/applications.yaml");
const DEPLOYMENT: &str = include_str!("../manifests/deployment/operator.yaml");

/// The manifests that `settings` ask for, as one YAML stream in the order in which they are to be applied.
#[must_use]
pub fn yaml(settings: &ManifestsSettings) -> String {
    let is_wanted = |part| settings.parts.is_empty() || settings.parts.contains(&part);
    let quotas = settings.quotas.enable_resource_quota_enforcement;
    let is_needed = |file: &str| file != QUOTA_RBAC || quotas;
    let files = [
        (ManifestsPart::Rbac, RBAC),
        (ManifestsPart::Rbac, QUOTA_RBAC),
        (ManifestsPart::Rbac, SPARK_RBAC),
        (ManifestsPart::Webhook, WEBHOOK_SERVICE),
        (ManifestsPart::Webhook, WEBHOOK_PODS),
        (ManifestsPart::Webhook, WEBHOOK_APPLICATIONS),
        (ManifestsPart::Deployment, DEPLOYMENT),
    ];
    let mut stream = if is_wanted(ManifestsPart::Crds) { crds::yaml() } else { String::new() };
    for (_, file) in files.into_iter().filter(|(part, file)| is_wanted(*part) && is_needed(file)) {
        for mut object in objects(file) {
            place(&mut object, settings);
            let yaml = serde_saphyr::to_string(&object).expect("what was YAML is YAML");
            write!(stream, "---\n{yaml}").expect("writing to a String cannot fail");
        }
    }
    stream
}

/// The objects in one of the files.
#[must_use]
pub fn objects(file: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(file).expect("the manifests are YAML: tests/it/manifests.rs reads them all")
}

/// Puts an object into the namespace, and the image into the Deployment.
fn place(object: &mut Value, settings: &ManifestsSettings) {
    if object["kind"] == "Namespace" {
        object["metadata"]["name"] = json!(settings.namespace);
    }
    let webhooks = object["webhooks"].as_array().map_or(0, Vec::len);
    let mut paths = vec!["/metadata/namespace".to_owned(), "/subjects/0/namespace".to_owned()];
    paths.extend((0..webhooks).map(|i| format!("/webhooks/{i}/clientConfig/service/namespace")));
    for path in paths {
        if let Some(namespace) = object.pointer_mut(&path).filter(|namespace| *namespace == NAMESPACE) {
            *namespace = json!(settings.namespace);
        }
    }
    if let Some(container) = object.pointer_mut("/spec/template/spec/containers/0") {
        container["image"] = json!(settings.image);
        if let Some(arguments) = container["args"].as_array_mut() {
            arguments.extend(arguments_of_run(settings).into_iter().map(Value::from));
        }
    }
}

/// What the operator is to run with so that it goes with the rest.
fn arguments_of_run(settings: &ManifestsSettings) -> Vec<String> {
    let quotas = settings.quotas.enable_resource_quota_enforcement;
    quotas.then(|| "--enable-resource-quota-enforcement".to_owned()).into_iter().collect()
}
