//! Compares the installed webhook configurations with the configurations that the operator's flags require.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The fields that decide when a webhook is called. Fields such as `failurePolicy` and `timeoutSeconds` are not
/// compared: what happens if the webhook does not answer, and how long the API server waits for it, is up to the admin.
const DECIDING: [&str; 4] = ["rules", "namespaceSelector", "objectSelector", "matchConditions"];

/// Returns how the `installed` webhooks of a configuration differ from the `expected` webhooks, one sentence for each
/// difference.
pub fn differences(expected: &[Value], installed: &[Value]) -> Vec<String> {
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
    differences.extend(unknown.map(|name| format!("{name} is none of the operator's")));
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
            "name": name,
            "failurePolicy": "Fail",
            "rules": [{"operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": values}]},
        })
    }

    #[test]
    fn what_is_as_it_should_be_is_not_spoken_of() {
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
    fn everything_else_is() {
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
                "d is none of the operator's",
            ]
        );
    }
}
