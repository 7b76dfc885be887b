//! Kubernetes' own rules for the objects that a run consists of, as far as a user's spec can break them: names, labels,
//! annotations, volumes, mounts, variables, ports and quantities (`k8s.io/kubernetes/pkg/apis/core/validation`). Only what
//! every version of Kubernetes refuses counts, and what no webhook of the cluster adds: a volume may be one of theirs.

mod container;
mod volume;

use super::names::{is_label_key, is_label_value, is_object_name, is_port_name};
use api::{LONGEST_LABEL, quantity};
use core::net::IpAddr;
use serde_json::{Map, Value};
use std::{collections::BTreeSet, fmt};

/// A place in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The name of the object.
    Name(String),
    /// The label with this key.
    Label(String),
    /// The annotation with this key.
    Annotation(String),
    /// The volume of this name.
    Volume(String),
    /// The path of another field.
    Field(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "the name `{name}`"),
            Self::Label(key) => write!(f, "the label `{key}`"),
            Self::Annotation(key) => write!(f, "the annotation `{key}`"),
            Self::Volume(name) => write!(f, "the volume `{name}`"),
            Self::Field(path) => f.write_str(path),
        }
    }
}

/// The mistakes of an object: where each is, and what is wrong there.
pub type Mistakes = Vec<(Place, String)>;

/// Returns the mistakes of an object.
pub fn mistakes(object: &Value) -> Mistakes {
    let mut mistakes = Vec::new();
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    let name = text(metadata, "name");
    if !is_object_name(name) {
        let like = "write lower-case letters, digits, `-` and `.`, at most 253";
        let why = format!("`{name}` cannot be the name of an object: {like}");
        mistakes.push((Place::Name(name.to_owned()), why));
    }
    for (key, value) in entries(&metadata["labels"]) {
        let of_value = |value: &str| {
            format!(
                "`{value}` cannot be the value of a label: write at most {LONGEST_LABEL} letters, digits, `-`, `_` and `.`, a letter or \
                 a digit first and last"
            )
        };
        let why = wrong_key(key).or_else(|| wrong_value(value).map(of_value));
        mistakes.extend(why.map(|why| (Place::Label(key.clone()), why)));
    }
    for (key, _) in entries(&metadata["annotations"]) {
        // Kubernetes looks at the keys of annotations in lower case.
        mistakes.extend(wrong_key(&key.to_lowercase()).map(|why| (Place::Annotation(key.clone()), why)));
    }
    match object["kind"].as_str() {
        Some("Pod") => of_pod(spec, &mut mistakes),
        Some("Service") => {
            let mut numbers = BTreeSet::new();
            let all = list(&spec["ports"]).filter_map(|port| port["port"].as_i64());
            for number in all.filter(|number| !numbers.insert(*number)) {
                let why = format!("{number} twice: choose another port for one");
                mistakes.push((Place::Field("ports".to_owned()), why));
            }
        }
        Some("PersistentVolumeClaim") => {
            let place = "resources.requests.storage";
            let why = spec["resources"]["requests"]["storage"].as_str().and_then(no_size);
            mistakes.extend(why.map(|why| (Place::Field(place.to_owned()), why)));
        }
        _ => {}
    }
    mistakes
}

fn of_pod(spec: &Value, mistakes: &mut Mistakes) {
    let mut volumes = BTreeSet::new();
    for volume in list(&spec["volumes"]) {
        let name = text(volume, "name");
        let of_name = if !volumes.insert(name) {
            Some(format!("there are two volumes `{name}`"))
        } else {
            let like = format_args!("write lower-case letters, digits and `-`, at most {LONGEST_LABEL}");
            (!is_port_name(name)).then(|| format!("`{name}` cannot be the name of a volume: {like}"))
        };
        let all = of_name.into_iter().chain(volume::of_source(volume));
        mistakes.extend(all.map(|why| (Place::Volume(name.to_owned()), why)));
    }
    let mut add = |path: String, why: String| mistakes.push((Place::Field(path), why));
    for (key, value) in entries(&spec["nodeSelector"]) {
        if let Some(why) = wrong_key(key) {
            add("nodeSelector".to_owned(), why);
        } else if let Some(value) = wrong_value(value) {
            let why = format!("`{value}` cannot be the value of a label, and no node has it");
            add(format!("nodeSelector[{key}]"), why);
        }
    }
    for (i, toleration) in list(&spec["tolerations"]).enumerate() {
        if let Some(why) = of_toleration(toleration) {
            add(format!("tolerations[{i}]"), why.to_owned());
        }
    }
    let account = text(spec, "serviceAccountName");
    if !account.is_empty() && !is_object_name(account) {
        add("serviceAccountName".to_owned(), format!("`{account}` cannot be the name of an account"));
    }
    let servers = list(&spec["dnsConfig"]["nameservers"]).enumerate();
    let servers = servers.map(|(i, address)| (format!("dnsConfig.nameservers[{i}]"), address));
    let aliases = list(&spec["hostAliases"]).enumerate();
    let aliases = aliases.map(|(i, alias)| (format!("hostAliases[{i}].ip"), &alias["ip"]));
    for (path, address) in servers.chain(aliases) {
        if address.as_str().is_some_and(|address| !is_address(address)) {
            add(path, format!("{address} is no IP address"));
        }
    }
    of_affinity(&spec["affinity"], "affinity", &mut add);
    let mut names = BTreeSet::new();
    for kind in ["initContainers", "containers"] {
        for (i, container) in list(&spec[kind]).enumerate() {
            let mut add = |field: &str, why: String| add(format!("{kind}[{i}].{field}"), why);
            let name = text(container, "name");
            if !is_port_name(name) {
                let like = "write lower-case letters, digits and `-`";
                add("name", format!("`{name}` cannot be the name of a container: {like}"));
            } else if !names.insert(name) {
                add("name", format!("`{name}` is the name of another container: choose another"));
            }
            container::of_container(container, &mut add);
        }
    }
}

/// Whether Kubernetes takes the text for an IP address: numbers in it may begin with zeros.
fn is_address(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').map(|part| part.trim_start_matches('0')).collect();
    let parts: Vec<_> = parts.iter().map(|part| if part.is_empty() { "0" } else { part }).collect();
    text.parse::<IpAddr>().is_ok() || (!text.contains("..") && parts.join(".").parse::<IpAddr>().is_ok())
}

/// Adds what is wrong with the selectors of an affinity.
fn of_affinity(value: &Value, path: &str, add: &mut impl FnMut(String, String)) {
    let has_values = value["values"].as_array().is_some_and(|values| !values.is_empty());
    if let (Some(operator), true) = (value["operator"].as_str(), value["key"].is_string()) {
        let why = match operator {
            "In" | "NotIn" | "Gt" | "Lt" if !has_values => format!("{operator} needs values"),
            "Exists" | "DoesNotExist" if has_values => format!("{operator} takes no values"),
            "In" | "NotIn" | "Gt" | "Lt" | "Exists" | "DoesNotExist" => return,
            _ => format!("there is no operator `{operator}`: write In, NotIn, Exists or DoesNotExist"),
        };
        add(path.to_owned(), why);
    }
    for (field, inner) in entries(value).filter(|(field, _)| *field != "matchLabels") {
        let path = format!("{path}.{field}");
        match field.as_str() {
            "weight" if inner.as_i64().is_some_and(|weight| !(1..=100).contains(&weight)) => {
                add(path.clone(), format!("is {inner}: write 1 to 100"));
            }
            "topologyKey" if inner == "" => {
                let like = "the label of nodes that makes a place, such as kubernetes.io/hostname";
                add(path.clone(), format!("is empty: write {like}"));
            }
            "nodeSelectorTerms" if inner.as_array().is_none_or(Vec::is_empty) => {
                add(path.clone(), "is empty, so that no node fits: write a term".to_owned());
            }
            _ => {}
        }
        of_affinity(inner, &path, add);
        for (i, item) in list(inner).enumerate() {
            of_affinity(item, &format!("{path}[{i}]"), add);
        }
    }
}

/// Returns what is wrong with a toleration. Newer versions of Kubernetes know further operators.
fn of_toleration(toleration: &Value) -> Option<&'static str> {
    let text = |field: &str| text(toleration, field);
    let (effect, operator) = (text("effect"), text("operator"));
    let is_effect = ["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect);
    let is_operator = ["", "Equal", "Exists", "Lt", "Gt"].contains(&operator);
    let (exists, has_seconds) = (operator == "Exists", !toleration["tolerationSeconds"].is_null());
    let rules = [
        (is_effect, "there is no such effect: write NoSchedule, PreferNoSchedule or NoExecute"),
        (is_operator, "there is no such operator: write Equal or Exists"),
        (
            !exists || text("value").is_empty(),
            "with operator Exists there is no value: take it out, or write Equal",
        ),
        (
            exists || !text("key").is_empty(),
            "without a key the operator is Exists: write a key, or `operator: Exists`",
        ),
        (effect == "NoExecute" || !has_seconds, "tolerationSeconds needs the effect NoExecute"),
    ];
    rules.into_iter().find_map(|(is_kept, why)| (!is_kept).then_some(why))
}

/// Returns why `key` cannot be the key of a label or an annotation; none if it can.
fn wrong_key(key: &str) -> Option<String> {
    (!is_label_key(key)).then(|| {
        format!(
            "`{key}` cannot be the key of a label or an annotation: write at most {LONGEST_LABEL} letters, digits, `-`, `_` and `.`, \
             behind the name of a domain and `/` if you like"
        )
    })
}

/// Returns the text of a value that no label can have.
fn wrong_value(value: &Value) -> Option<&str> {
    value.as_str().filter(|value| !value.is_empty() && !is_label_value(value))
}

/// Returns why a text is no size; none if it is one.
fn no_size(size: &str) -> Option<String> {
    quantity::amount(size.trim()).is_none().then(|| format!("`{size}` is no size (try `10Gi`)"))
}

/// Returns why a path cannot lead to a file in a volume; none if it can.
fn leading_out(path: &str) -> Option<String> {
    let leads_out = path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == "..");
    leads_out.then(|| format!("`{path}` leads out of the volume: write one without `/` first and `..`"))
}

/// Whether this is a reference to a ConfigMap or a Secret without the name that Kubernetes demands, also if `optional`. The
/// definitions let it be missing.
fn lacks_name(reference: &Value) -> bool {
    reference.is_object() && text(reference, "name").is_empty()
}

fn entries(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flat_map(Map::iter)
}

fn list(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the text of a field; empty if it has none.
fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_refuses_is_found_with_its_place() {
        let good: Value =
            serde_json::from_str(include_str!("../../../../tests/data/kubernetes/good.json")).unwrap();
        assert_eq!(mistakes(&good), []);
        let cases = include_str!("../../../../tests/data/kubernetes/refused.json");
        for (pointer, value, expected) in serde_json::from_str::<Vec<(String, Value, String)>>(cases).unwrap()
        {
            let mut pod = good.clone();
            *pod.pointer_mut(&pointer).unwrap() = value;
            let found = mistakes(&pod);
            assert_eq!(found.first().map(|(place, _)| place.to_string()), Some(expected), "{found:?}");
        }
    }
}
