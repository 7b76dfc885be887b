//! Kubernetes' own rules for the objects that a run consists of, as far as a user's spec can break them: names, labels,
//! annotations, volumes, mounts, variables, ports and quantities (`k8s.io/kubernetes/pkg/apis/core/validation`). Only what
//! every version of Kubernetes refuses counts, and what no webhook of the cluster adds: a volume may be one of theirs.

use super::names::{LONGEST_LABEL, is_label_value, is_object_name, is_port_name};
use api::{names::volume, quantity};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
};

/// A place in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
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

impl Display for Place {
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

type Mistakes = Vec<(Place, String)>;

/// Returns the mistakes of an object.
pub(super) fn mistakes(object: &Value) -> Mistakes {
    let mut mistakes = Vec::new();
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    if !is_object_name(name) {
        let why = "write lower-case letters, digits, `-` and `.`, at most 253";
        mistakes
            .push((Place::Name(name.to_owned()), format!("`{name}` cannot be the name of an object: {why}")));
    }
    for (key, value) in entries(&metadata["labels"]) {
        let value = value.as_str().unwrap_or_default();
        if let Some(why) = wrong_key(key) {
            mistakes.push((Place::Label(key.clone()), why));
        } else if !value.is_empty() && !is_label_value(value) {
            let why = format!(
                "`{value}` cannot be the value of a label: write at most {LONGEST_LABEL} letters, digits, `-`, `_` and `.`, a letter or \
                 a digit first and last"
            );
            mistakes.push((Place::Label(key.clone()), why));
        }
    }
    for (key, _) in entries(&metadata["annotations"]) {
        // Kubernetes looks at the keys of annotations in lower case.
        mistakes.extend(wrong_key(&key.to_lowercase()).map(|why| (Place::Annotation(key.clone()), why)));
    }
    if object["kind"] == "Pod" {
        of_pod(&object["spec"], &mut mistakes);
    }
    mistakes
}

fn of_pod(spec: &Value, mistakes: &mut Mistakes) {
    let mut volumes = BTreeSet::new();
    for name in list(&spec["volumes"]).map(|volume| volume["name"].as_str().unwrap_or_default()) {
        let why = if !volumes.insert(name) {
            "there are two of that name".to_owned()
        } else if is_port_name(name) {
            continue;
        } else {
            format!("write lower-case letters, digits and `-`, at most {LONGEST_LABEL}")
        };
        mistakes.push((Place::Volume(name.to_owned()), why));
    }
    let mut add = |path: String, why: String| mistakes.push((Place::Field(path), why));
    for key in entries(&spec["nodeSelector"]).filter_map(|(key, _)| wrong_key(key)) {
        add("nodeSelector".to_owned(), key);
    }
    let kinds = ["initContainers", "containers"];
    for (kind, i, container) in
        kinds.iter().flat_map(|kind| list(&spec[*kind]).enumerate().map(move |(i, c)| (kind, i, c)))
    {
        let at = |field: &str| format!("{kind}[{i}].{field}");
        let mut paths = BTreeMap::new();
        for mount in list(&container["volumeMounts"]) {
            let text = |field: &str| mount[field].as_str().unwrap_or_default();
            let (name, path) = (text("name"), text("mountPath"));
            if path.is_empty() {
                add(at("volumeMounts"), "a mount has no path".to_owned());
            } else if let Some(other) = paths.insert(path, name) {
                let is_sparks = [name, other].iter().any(|name| name.starts_with(volume::LOCAL_DIR_PREFIX));
                let why = if is_sparks { ", where Spark has its scratch space," } else { "" };
                add(
                    at("volumeMounts"),
                    format!("`{other}` and `{name}` are both mounted at `{path}`{why}: choose another path"),
                );
            }
        }
        for name in list(&container["env"]).map(|variable| variable["name"].as_str().unwrap_or_default()) {
            if name.is_empty()
                || name.contains('=')
                || !name.chars().all(|c| c == ' ' || c.is_ascii_graphic())
            {
                add(at("env"), format!("`{name}` cannot be the name of a variable"));
            }
        }
        for port in list(&container["ports"]).filter_map(|port| port["containerPort"].as_i64()) {
            if !(1..=65_535).contains(&port) {
                add(at("ports"), format!("{port} is no port: write 1 to 65535"));
            }
        }
        for (list, name, amount) in ["requests", "limits"].into_iter().flat_map(|list| {
            entries(&container["resources"][list]).map(move |(name, amount)| (list, name, amount))
        }) {
            if amount.as_str().is_some_and(|amount| quantity::amount(amount).is_none_or(|amount| amount < 0))
            {
                add(
                    at(&format!("resources.{list}.{name}")),
                    format!("{amount} is no quantity (try `1` or `1Gi`)"),
                );
            }
        }
    }
}

/// Returns why `key` cannot be the key of a label or an annotation; none if it can.
fn wrong_key(key: &str) -> Option<String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_key = prefix.is_none_or(is_object_name) && is_label_value(name);
    (!is_key).then(|| {
        format!(
            "`{key}` cannot be the key of a label or an annotation: write at most {LONGEST_LABEL} letters, digits, `-`, `_` and `.`, \
             behind the name of a domain and `/` if you like"
        )
    })
}

fn entries(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flat_map(Map::iter)
}

fn list(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_kubernetes_refuses_is_found_with_its_place() {
        let good = json!({
            "kind": "Pod",
            "metadata": {
                "name": "pi-driver", "labels": {"a.example.com/b": "", "x": "A_1.b"}, "annotations": {"a/B": "any: thing"},
            },
            "spec": {
                "volumes": [{"name": "a"}], "nodeSelector": {"kubernetes.io/os": "linux"},
                "containers": [{
                    "name": "c", "volumeMounts": [{"name": "a", "mountPath": "/a"}], "env": [{"name": "A.b-c"}],
                    "ports": [{"containerPort": 1}], "resources": {"limits": {"memory": "1Gi"}},
                }],
            },
        });
        assert_eq!(mistakes(&good), []);
        for (pointer, value, expected) in [
            ("/metadata/name", json!("Pi_1"), "the name `Pi_1`"),
            ("/metadata/labels/x", json!("a b"), "the label `x`"),
            ("/metadata/labels", json!({"a b": "c"}), "the label `a b`"),
            ("/metadata/annotations", json!({"/x": "c"}), "the annotation `/x`"),
            ("/spec/volumes/0/name", json!("a.b"), "the volume `a.b`"),
            ("/spec/volumes", json!([{"name": "a"}, {"name": "a"}]), "the volume `a`"),
            ("/spec/nodeSelector", json!({"a b": "c"}), "nodeSelector"),
            ("/spec/containers/0/volumeMounts/0/mountPath", json!(""), "containers[0].volumeMounts"),
            ("/spec/containers/0/env/0/name", json!("a=b"), "containers[0].env"),
            ("/spec/containers/0/ports/0/containerPort", json!(0), "containers[0].ports"),
            (
                "/spec/containers/0/resources/limits/memory",
                json!("-1"),
                "containers[0].resources.limits.memory",
            ),
        ] {
            let mut pod = good.clone();
            *pod.pointer_mut(pointer).unwrap() = value;
            let found = mistakes(&pod);
            assert_eq!(
                found.first().map(|(place, _)| place.to_string()).as_deref(),
                Some(expected),
                "{found:?}"
            );
        }
    }
}
