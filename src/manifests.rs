//! Prints the manifests of an installation: the files under `manifests/`, which are compiled into the program, changed
//! as the flags require.

use crate::{
    api::crds,
    plan::namespaces::Namespaces,
    settings::{FailurePolicy, InstallationSettings, ManifestsPart, ManifestsSettings},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};
use std::fmt::Write;

/// The namespace in the files, which is replaced by that of the settings.
const NAMESPACE: &str = "spark-operator";

const RBAC: &str = include_str!("../manifests/rbac/operator.yaml");
const QUOTA_RBAC: &str = include_str!("../manifests/rbac/quota.yaml");
const NAMESPACES_RBAC: &str = include_str!("../manifests/rbac/namespaces.yaml");
const SPARK_RBAC: &str = include_str!("../manifests/rbac/spark.yaml");
const WEBHOOK_SERVICE: &str = include_str!("../manifests/webhook/service.yaml");
const WEBHOOK_PODS: &str = include_str!("../manifests/webhook/pods.yaml");
const WEBHOOK_APPLICATIONS: &str = include_str!("../manifests/webhook/applications.yaml");
const DEPLOYMENT: &str = include_str!("../manifests/deployment/operator.yaml");

/// Returns the manifests that `settings` ask for, as one YAML stream in the order in which to apply them.
#[must_use]
pub fn yaml(settings: &ManifestsSettings) -> String {
    let is_wanted = |part| settings.parts.is_empty() || settings.parts.contains(&part);
    let of_files = |files: &[&str]| files.iter().flat_map(|file| objects(file)).collect::<Vec<_>>();
    let has_webhook = settings.installation.webhook;
    let webhook = if has_webhook { &[WEBHOOK_SERVICE][..] } else { &[] };
    let configurations =
        if has_webhook { webhook_configurations(&settings.installation.namespaces()) } else { Vec::new() };
    let parts = [
        (ManifestsPart::Rbac, [operator_roles(&settings.installation), of_files(&[SPARK_RBAC])].concat()),
        (ManifestsPart::Webhook, of_files(webhook)),
        (ManifestsPart::Webhook, configurations),
        (ManifestsPart::Deployment, of_files(&[DEPLOYMENT])),
    ];
    let mut stream = if is_wanted(ManifestsPart::Crds) { crds::yaml() } else { String::new() };
    for (_, objects) in parts.into_iter().filter(|(part, _)| is_wanted(*part)) {
        for mut object in objects {
            fill_in(&mut object, settings);
            let yaml = serde_saphyr::to_string(&object).expect("what was YAML is YAML");
            write!(stream, "---\n{yaml}").expect("writing to a String cannot fail");
        }
    }
    stream
}

/// Returns the operator's account and its roles, with only the permissions that the settings require.
#[must_use]
pub fn operator_roles(settings: &InstallationSettings) -> Vec<Value> {
    let quotas = settings.enable_resource_quota_enforcement.then_some(QUOTA_RBAC);
    let namespaces = settings.namespaces().depends_on_labels().then_some(NAMESPACES_RBAC);
    let mut roles: Vec<_> =
        [Some(RBAC), quotas, namespaces].into_iter().flatten().flat_map(objects).collect();
    if !settings.webhook {
        for rules in roles.iter_mut().filter_map(|role| role["rules"].as_array_mut()) {
            rules.retain(|rule| !is_for_webhook(rule));
        }
    }
    roles
}

/// Returns whether a rule covers only the webhook's certificates and the webhook configurations that trust them.
fn is_for_webhook(rule: &Value) -> bool {
    let is_theirs = |resource: &Value| {
        resource.as_str().is_some_and(|name| name == "secrets" || name.ends_with("webhookconfigurations"))
    };
    rule["resources"].as_array().is_some_and(|resources| resources.iter().all(is_theirs))
}

/// Returns the webhook configurations of an operator that works in these namespaces. They decide when the API server
/// calls the webhook.
#[must_use]
pub fn webhook_configurations(namespaces: &Namespaces) -> Vec<Value> {
    let mut configurations: Vec<_> =
        [WEBHOOK_PODS, WEBHOOK_APPLICATIONS].into_iter().flat_map(objects).collect();
    let selectors = namespaces.selectors();
    for webhooks in configurations.iter_mut().filter_map(|object| object["webhooks"].as_array_mut()) {
        if !selectors.is_empty() {
            *webhooks = webhooks.iter().flat_map(|webhook| for_each(webhook, &selectors)).collect();
        }
    }
    configurations
}

/// Returns a copy of the webhook for each selector, because a webhook has only one namespace selector. Where two
/// selectors match the same namespace, the API server calls the webhook twice, which has the same result as once.
fn for_each(webhook: &Value, selectors: &[LabelSelector]) -> Vec<Value> {
    let one = |(i, selector): (usize, &LabelSelector)| {
        let mut one = webhook.clone();
        one["namespaceSelector"] = json!(selector);
        if let (1.., Some(name)) = (i, webhook["name"].as_str()) {
            one["name"] = json!(format!("labelled.{name}"));
        }
        one
    };
    selectors.iter().enumerate().map(one).collect()
}

/// Returns the objects in a file of manifests.
fn objects(file: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(file).expect("the manifests are YAML: tests/it/manifests.rs reads them all")
}

/// Writes the namespace of the settings into an object, and the other settings into the fields that they belong to.
fn fill_in(object: &mut Value, settings: &ManifestsSettings) {
    if object["kind"] == "Namespace" {
        object["metadata"]["name"] = json!(settings.namespace);
    }
    let mut paths = vec!["/metadata/namespace".to_owned(), "/subjects/0/namespace".to_owned()];
    if let Some(webhooks) = object.pointer_mut("/webhooks").and_then(Value::as_array_mut) {
        for webhook in &mut *webhooks {
            webhook["failurePolicy"] = json!(match settings.failure_policy {
                FailurePolicy::Fail => "Fail",
                FailurePolicy::Ignore => "Ignore",
            });
            webhook["timeoutSeconds"] = json!(settings.timeout_seconds);
        }
        paths.extend((0..webhooks.len()).map(|i| format!("/webhooks/{i}/clientConfig/service/namespace")));
    }
    for path in paths {
        if let Some(namespace) = object.pointer_mut(&path).filter(|namespace| *namespace == NAMESPACE) {
            *namespace = json!(settings.namespace);
        }
    }
    if let Some(container) = object.pointer_mut("/spec/template/spec/containers/0") {
        container["image"] = json!(settings.image);
        if let Some(arguments) = container["args"].as_array_mut() {
            arguments.extend(settings.installation.arguments().into_iter().map(Value::from));
        }
    }
}
