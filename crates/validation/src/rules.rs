//! Checks values by a table of rules, most of them Kubernetes'. A rule is about one value, or about the fields of one object.

use super::names::{is_label_key, is_label_value, is_object_name, is_port_name};
use api::{LONGEST_LABEL, is_segment, quantity};
use core::net::IpAddr;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The rules: for each the kind of value, the path of the checked values, the name of the rule, and the message. The first lines
/// of the file describe these. The file is split once, since an object can have thousands of values to check.
static RULES: LazyLock<Vec<[&str; 4]>> = LazyLock::new(|| {
    let lines = include_str!("rules.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let columns = lines.map(|line| line.splitn(4, ' ').collect::<Vec<_>>());
    columns.map(|columns| columns.try_into().expect("each line has four columns")).collect()
});

/// Kubernetes' limit for the name of a container's port, in characters.
const LONGEST_PORT_NAME: usize = 15;
/// The operators of selectors that need values, and those that take none.
const WITH_VALUES: [&str; 4] = ["In", "NotIn", "Gt", "Lt"];
const WITHOUT_VALUES: [&str; 2] = ["Exists", "DoesNotExist"];
/// The fields of a pod from which variables have their values, besides labels and annotations. (`spec.nodeName` was called
/// `spec.host`.)
const FIELDS: [&str; 10] = [
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.host", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
];

/// Calls `found` for each mistake of a value of this kind: with its path below the value, such as `.ports[0]`, and with what is
/// wrong there.
pub(super) fn check(kind: &str, value: &Value, found: &mut dyn FnMut(String, String)) {
    for [_, path, name, words] in RULES.iter().filter(|[of, ..]| *of == kind) {
        Rule { name, words }.check(value, path, value, found);
    }
}

struct Rule<'r> {
    name: &'r str,
    words: &'r str,
}

impl Rule<'_> {
    /// Checks what is at `path` below `value`. `item` is the last item of a list on the way to `value`.
    fn check(&self, value: &Value, path: &str, item: &Value, found: &mut dyn FnMut(String, String)) {
        if ["", "."].contains(&path) {
            if let Some(why) = self.mistake(value, value.as_str().unwrap_or_default(), item) {
                found(String::new(), why);
            }
            return;
        }
        let (step, rest) = path.split_at(path.find(['.', ':']).unwrap_or(path.len()));
        let (is_in_path, rest) = (!rest.starts_with(':'), rest.get(1..).unwrap_or_default());
        let mut descend = |at: &dyn Fn() -> String, inner: &Value, path: &str, item: &Value| {
            self.check(inner, path, item, &mut |below, why| {
                found(if is_in_path { at() + &below } else { at() }, why);
            });
        };
        match step {
            "*" => {
                for (i, inner) in list(value).enumerate() {
                    descend(&|| format!("[{i}]"), inner, rest, inner);
                }
                for (key, inner) in entries(value) {
                    descend(&|| format!("[{key}]"), inner, rest, item);
                }
            }
            "**" => {
                descend(&String::new, value, rest, value);
                for (i, inner) in list(value).enumerate() {
                    descend(&|| format!("[{i}]"), inner, path, item);
                }
                // The keys in `matchLabels` are no fields, and no field of Kubernetes has a longer name. (The path of each
                // mistake below contains the name.)
                let is_field = |name: &str| name != "matchLabels" && name.len() <= LONGEST_LABEL;
                for (field, inner) in entries(value).filter(|(field, _)| is_field(field)) {
                    descend(&|| format!(".{field}"), inner, path, item);
                }
            }
            "@" => {
                for (key, _) in entries(value) {
                    if let Some(why) = self.mistake(&Value::Null, key, item) {
                        found(format!("[{key}]"), why);
                    }
                }
            }
            fields => {
                for field in fields.split('|') {
                    let inner = &value[field];
                    if rest.is_empty() || !inner.is_null() {
                        descend(&|| format!(".{field}"), inner, rest, item);
                    }
                }
            }
        }
    }

    /// Returns what is wrong with a value, which is `text` if it is a text or a key; `None` if nothing is.
    fn mistake(&self, value: &Value, text: &str, item: &Value) -> Option<String> {
        if is_kept(self.name, value, text) {
            return None;
        }
        let number = value.is_number().then(|| value.to_string());
        // All placeholders are replaced in one pass: the value may itself contain them, thousands of times.
        let words = self.words.split(['<', '>']).map(|word| match word {
            "value" => number.as_deref().unwrap_or(text),
            "name" | "operator" => self::text(item, word),
            word => word,
        });
        Some(words.collect())
    }
}

/// Whether a value, which is `text` if it is a text or a key, keeps the rule of this name.
fn is_kept(rule: &str, value: &Value, text: &str) -> bool {
    if let Some(rule) = rule.strip_prefix('?') {
        return text.is_empty() || is_kept(rule, value, text);
    }
    let of = |field: &str| self::text(value, field);
    let leads_up = || text.split('/').any(|part| part == "..");
    let operator = Some(of("operator")).filter(|_| value["key"].is_string() && value["operator"].is_string());
    let is_one_of = |operators: &[&str]| operator.is_some_and(|operator| operators.contains(&operator));
    let has_values = || value["values"].as_array().is_some_and(|values| !values.is_empty());
    match rule {
        "given" => !text.is_empty(),
        "no-blank" => !text.contains(char::is_whitespace),
        "absent" => value.is_null() || *value == json!([]),
        "filled" => *value != "" && *value != json!([]) && *value != json!({}),
        "object-name" => is_object_name(text),
        "dns-label" => is_port_name(text),
        "port-name" => {
            let has_letter = text.contains(|c: char| c.is_ascii_lowercase());
            text.len() <= LONGEST_PORT_NAME && is_segment(text) && !text.contains("--") && has_letter
        }
        "label-key" => is_label_key(text),
        // Kubernetes checks the keys of annotations in lower case.
        "annotation-key" => is_label_key(&text.to_lowercase()),
        "label-value" => is_label_value(text),
        "address" => is_address(text),
        "amount" => {
            let is_amount = |text: &str| quantity::amount(text.trim()).is_some_and(|amount| amount >= 0);
            value.as_str().is_none_or(is_amount)
        }
        "inside" => !text.is_empty() && !text.starts_with('/') && !leads_up(),
        "host-path" => !text.is_empty() && !leads_up(),
        "absolute" => text.starts_with('/'),
        "variable" => {
            let is_possible = |c: char| c != '=' && (c == ' ' || c.is_ascii_graphic());
            !text.is_empty() && text.chars().all(is_possible)
        }
        "pod-field" => {
            let of_metadata = ["metadata.labels['", "metadata.annotations['"];
            let is_entry = of_metadata.iter().any(|map| text.starts_with(map) && text.ends_with("']"));
            is_entry || FIELDS.contains(&text)
        }
        "resource" => text.contains('/') || is_of_kubernetes(text),
        "container-resource" => {
            let of_list = text.strip_prefix("limits.").or_else(|| text.strip_prefix("requests."));
            of_list.is_some_and(is_of_kubernetes)
        }
        "one-source" => entries(value).filter(|(_, source)| source.is_object()).count() <= 1,
        "value-or-source" => !value["valueFrom"].is_object() || of("value").is_empty(),
        "reference" => !value["configMapRef"].is_null() || !value["secretRef"].is_null(),
        "key-or-exists" => of("operator") == "Exists" || !of("key").is_empty(),
        "exists-without-value" => of("operator") != "Exists" || of("value").is_empty(),
        "seconds-of-no-execute" => of("effect") == "NoExecute" || value["tolerationSeconds"].is_null(),
        "operator" => operator.is_none() || is_one_of(&WITH_VALUES) || is_one_of(&WITHOUT_VALUES),
        "with-values" => !is_one_of(&WITH_VALUES) || has_values(),
        "without-values" => !is_one_of(&WITHOUT_VALUES) || !has_values(),
        words if words.contains('|') => words.split('|').any(|word| word == text),
        bounds => {
            let (least, most) = bounds.split_once("..").unwrap_or_default();
            let bound = |text: &str| text.parse::<i64>().ok();
            let (least, most) = (bound(least).unwrap_or(i64::MIN), bound(most).unwrap_or(i64::MAX));
            value.as_i64().is_none_or(|number| (least..=most).contains(&number))
        }
    }
}

/// Whether Kubernetes takes the text for an IP address: numbers in it may begin with zeros.
fn is_address(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').map(|part| part.trim_start_matches('0')).collect();
    let parts: Vec<_> = parts.iter().map(|part| if part.is_empty() { "0" } else { part }).collect();
    text.parse::<IpAddr>().is_ok() || (!text.contains("..") && parts.join(".").parse::<IpAddr>().is_ok())
}

/// Whether this is a resource of containers that is Kubernetes' own.
fn is_of_kubernetes(name: &str) -> bool {
    ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-")
}

fn entries(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flat_map(Map::iter)
}

pub(super) fn list(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the text of a field; empty if it has none.
pub(super) fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A misspelt name of a rule would accept every value.
    #[test]
    fn every_line_of_the_table_refuses_something() {
        let exists = json!({
            "key": "k", "operator": "Exists", "values": ["v"], "value": "v", "valueFrom": {}, "other": {}, "tolerationSeconds": 1,
        });
        let values = [json!(""), json!(" /.."), json!(-1), json!({}), exists];
        let others = ["In", "in"].map(|operator| json!({"key": "k", "operator": operator}));
        for [kind, path, rule, _] in &*RULES {
            let mut all = values.iter().chain(&others);
            let is_broken = |value: &Value| !is_kept(rule, value, value.as_str().unwrap_or_default());
            assert!(all.any(is_broken), "{kind} {path} {rule}");
        }
    }

    /// Otherwise a name of some hundred kilobytes would make a message of some gigabytes.
    #[test]
    fn placeholders_inside_a_value_are_not_replaced() {
        let name = "<name>".repeat(1000);
        let key = "k".repeat(1000);
        let nodes = vec![json!({"key": "k", "operator": "<operator>"}); 100];
        for (kind, value, expected) in [
            ("Volume", json!({"name": name}), 1),
            ("Container", json!({"name": "a", "env": [{"name": format!("{name}=")}]}), 1),
            ("Pod", json!({"affinity": {"nodeAffinity": nodes}}), 100),
            ("Pod", json!({"affinity": {key: nodes}}), 0),
        ] {
            let mut found = Vec::new();
            check(kind, &value, &mut |path, why| found.push(path + &why));
            assert_eq!(found.len(), expected, "{kind}");
            assert!(found.iter().all(|text| text.len() < 7000), "{kind}");
        }
    }
}
