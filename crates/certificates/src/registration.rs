//! Reports, in the log and as a metric, how the installed webhook configurations differ from the configurations that
//! the operator's flags require. Nothing is corrected: a configuration that an admin has installed belongs to the
//! admin.

use super::webhook_configurations::Configurations;
use parking_lot::Mutex;
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tracing::{info, warn};

/// The expected webhook configurations, and the differences that were found in the installed ones.
pub(super) struct Registration {
    expected: Vec<Value>,
    /// The differences that were found last, so that each one is logged once.
    logged: Mutex<Vec<String>>,
    differences: Gauge,
}

impl Registration {
    /// Creates the comparison with `expected`, the webhook configurations as they should be installed. Registers a
    /// gauge of the number of differences in `registry`.
    pub(super) fn new(expected: Vec<Value>, registry: &mut Registry) -> Self {
        let differences = Gauge::default();
        let help = "In how many ways the installed webhook configurations differ from what the flags require";
        registry.register("spark_operator_webhook_registration_differences", help, differences.clone());
        Self { expected, logged: Mutex::default(), differences }
    }

    /// Logs and counts how the installed configurations differ from the expected ones. A ValidatingWebhookConfiguration
    /// that is not installed is no difference: it is optional.
    pub(super) fn compare(&self, configurations: &Configurations) {
        let expected = |kind: &str| self.expected.iter().find(|configuration| configuration["kind"] == kind);
        let mut found = Vec::new();
        for (kind, name, webhooks) in configurations.webhooks() {
            let expected = expected(kind).and_then(|expected| expected["webhooks"].as_array());
            let differences = differences(expected.map_or(&[], Vec::as_slice), webhooks);
            found.extend(differences.into_iter().map(|difference| format!("{kind}/{name}: {difference}")));
        }
        self.differences.set(i64::try_from(found.len()).unwrap_or(i64::MAX));
        let mut logged = self.logged.lock();
        for difference in found.iter().filter(|difference| !logged.contains(difference)) {
            warn!(
                difference,
                help = "spark-operator manifests webhook, with the flags of run, prints what should be there",
                "an installed webhook configuration differs from what the flags require"
            );
        }
        if found.is_empty() && !logged.is_empty() {
            info!("the installed webhook configurations are as the flags require");
        }
        *logged = found;
    }
}

/// The fields that decide when a webhook is called. Fields such as `failurePolicy` and `timeoutSeconds` are not
/// compared: what happens if the webhook does not answer, and how long the API server waits for it, is up to the admin.
const DECIDING: [&str; 4] = ["rules", "namespaceSelector", "objectSelector", "matchConditions"];

/// Returns how the `installed` webhooks of a configuration differ from the `expected` webhooks, one sentence for each
/// difference.
fn differences(expected: &[Value], installed: &[Value]) -> Vec<String> {
    let (expected, installed) = (by_name(expected), by_name(installed));
    let mut differences = Vec::new();
    for (name, wanted) in &expected {
        let Some(there) = installed.get(name) else {
            differences.push(format!("{name} is missing"));
            continue;
        };
        for field in DECIDING {
            let (is, should_be) = (decisive(&there[field]), decisive(&wanted[field]));
            if is != should_be {
                differences.push(format!("{name}: {field} is {is}, not {should_be}"));
            }
        }
    }
    let unknown = installed.keys().filter(|name| !expected.contains_key(*name));
    differences.extend(unknown.map(|name| format!("{name} is not one of the operator's webhooks")));
    differences
}

fn by_name(webhooks: &[Value]) -> BTreeMap<&str, &Value> {
    webhooks.iter().map(|webhook| (webhook["name"].as_str().unwrap_or_default(), webhook)).collect()
}

/// Returns `value` without differences that have no meaning: the API server stores `{}` for a field that is not set,
/// and the order of a selector's values does not matter.
fn decisive(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), decisive(value)));
            let fields: Map<_, _> = fields.filter(|(_, value)| !value.is_null()).collect();
            if fields.is_empty() { Value::Null } else { fields.into() }
        }
        Value::Array(entries) => {
            let mut entries: Vec<_> = entries.iter().map(decisive).collect();
            entries.sort_by_key(Value::to_string);
            if entries.is_empty() { Value::Null } else { json!(entries) }
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(name: &str, values: &[&str]) -> Value {
        json!({
            "name": name, "failurePolicy": "Fail",
            "rules": [{"operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": values}]},
        })
    }

    #[test]
    fn fields_that_do_not_decide_when_a_webhook_is_called_may_differ() {
        let expected = webhook("a", &["x", "y"]);
        let mut installed = webhook("a", &["y", "x"]);
        installed["failurePolicy"] = json!("Ignore");
        installed["timeoutSeconds"] = json!(30);
        installed["objectSelector"] = json!({});
        installed["matchConditions"] = json!([]);
        installed["clientConfig"] = json!({"caBundle": "…"});
        assert_eq!(differences(&[expected], &[installed]), Vec::<String>::new());
    }

    #[test]
    fn missing_unknown_and_differing_webhooks_are_reported() {
        let mut other = webhook("b", &["x"]);
        other["namespaceSelector"].take();
        other["rules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
        let expected = [webhook("a", &["x"]), webhook("b", &["x"]), webhook("c", &["x"])];
        assert_eq!(
            differences(&expected, &[webhook("a", &["x"]), other, webhook("d", &["x"])]),
            [
                r#"b: rules is [{"operations":["CREATE","UPDATE"],"resources":["pods"]}], not [{"operations":["CREATE"],"resources":["pods"]}]"#,
                r#"b: namespaceSelector is null, not {"matchExpressions":[{"key":"team","operator":"In","values":["x"]}]}"#,
                "c is missing",
                "d is not one of the operator's webhooks",
            ]
        );
    }
}
