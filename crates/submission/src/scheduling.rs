//! Sets the node selector that applies to driver and executors, and adds to a pod what Spark's properties say about its
//! place. The selector of a single role is applied by the webhook.

use super::{Context, Properties, properties::behind};
use api::{Role, conf, submit_conf};
use serde_json::{Value, json};
use spark_client::list_elements;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn node_selector(context: &Context, properties: &mut Properties) {
    properties.set_all(conf::NODE_SELECTOR_PREFIX, &context.spec.node_selector);
}

/// Adds to the spec of a pod of `role` the node selector, scheduler, service account and image pull secrets that Spark's
/// properties set in addition to the template.
pub fn place(spec: &mut Value, role: Role, properties: &BTreeMap<String, String>) {
    for prefix in conf::node_selector_prefixes(role) {
        for (name, value) in behind(properties, &prefix) {
            spec["nodeSelector"][name] = value.into();
        }
    }
    let first = |own: &str, other: &str| properties.get(own).or_else(|| properties.get(other));
    if let Some(scheduler) = first(&conf::kubernetes(role, conf::SCHEDULER), submit_conf::SCHEDULER_NAME) {
        spec["schedulerName"] = scheduler.as_str().into();
    }
    // By default executors have the account of the driver (Spark's `ExecutorKubernetesCredentialsFeatureStep`). Spark asks
    // the template for the older one of the two fields.
    let account = first(&conf::service_account(role), &conf::service_account(Role::Driver));
    if let Some(account) = account.filter(|_| spec["serviceAccount"].is_null()) {
        spec["serviceAccountName"] = account.as_str().into();
    }
    let mut secrets = spec["imagePullSecrets"].as_array().cloned().unwrap_or_default();
    // The entries are compared as complete JSON: an entry that contains more than a name counts as a different entry.
    let mut there: BTreeSet<_> = secrets.iter().map(Value::to_string).collect();
    let names =
        properties.get(conf::IMAGE_PULL_SECRETS).map(|names| list_elements(names)).unwrap_or_default();
    let named = names.into_iter().map(|name| json!({"name": name}));
    secrets.extend(named.filter(|secret| there.insert(secret.to_string())));
    if !secrets.is_empty() {
        spec["imagePullSecrets"] = secrets.into();
    }
}
