//! Kubernetes' rules for a container: hooks, mounts, variables, ports and resources.

use super::{entries, lacks_name, leading_out, list, text};
use crate::monitoring::LONGEST_PORT_NAME;
use api::{quantity, volume::is_scratch};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Calls `add` with the field and the explanation of each mistake of a container.
pub(super) fn of_container(container: &Value, add: &mut impl FnMut(&str, String)) {
    let mut hooks = entries(&container["lifecycle"]);
    if let Some((hook, _)) = hooks.find(|(_, hook)| hook.as_object().is_some_and(Map::is_empty)) {
        add(&format!("lifecycle.{hook}"), "says nothing to do: write exec, httpGet or sleep".to_owned());
    }
    let mut paths = BTreeMap::new();
    for mount in list(&container["volumeMounts"]) {
        let (name, path, below) = (text(mount, "name"), text(mount, "mountPath"), text(mount, "subPath"));
        if let Some(why) = leading_out(below).filter(|_| !below.is_empty()) {
            add("volumeMounts", format!("the subPath {why}"));
        }
        if path.is_empty() {
            add("volumeMounts", "a mount has no path".to_owned());
        } else if let Some(other) = paths.insert(path, mount) {
            let is_sparks = is_scratch(mount) || is_scratch(other);
            let why = if is_sparks { ", where Spark has its scratch space," } else { "" };
            let first = text(other, "name");
            let both =
                format!("`{first}` and `{name}` are both mounted at `{path}`{why}: choose another path");
            add("volumeMounts", both);
        }
    }
    for variable in list(&container["env"]) {
        let (name, source) = (text(variable, "name"), &variable["valueFrom"]);
        if source.is_object() && !text(variable, "value").is_empty() {
            add("env", format!("`{name}` has both value and valueFrom: take one out"));
        } else if source.as_object().is_some_and(Map::is_empty) {
            add("env", format!("valueFrom of `{name}` names nothing"));
        } else if let Some(why) = of_source(source) {
            add("env", format!("valueFrom of `{name}`: {why}"));
        }
        if name.is_empty() || name.contains('=') || !name.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
            add("env", format!("`{name}` cannot be the name of a variable"));
        }
    }
    for source in list(&container["envFrom"]) {
        if source["configMapRef"].is_null() && source["secretRef"].is_null() {
            add("envFrom", "names neither configMapRef nor secretRef".to_owned());
        }
        for kind in ["configMapRef", "secretRef"].into_iter().filter(|kind| lacks_name(&source[*kind])) {
            add("envFrom", format!("{kind} needs a name"));
        }
    }
    let mut port_names = BTreeSet::new();
    for port in list(&container["ports"]) {
        let (name, protocol) = (text(port, "name"), text(port, "protocol"));
        let number = port["containerPort"].as_i64().unwrap_or(1);
        if !(1..=65_535).contains(&number) {
            add("ports", format!("{number} is no port: write 1 to 65535"));
        }
        if !["", "TCP", "UDP", "SCTP"].contains(&protocol) {
            add("ports", format!("`{protocol}` is no protocol: write TCP, UDP or SCTP"));
        }
        if name.len() > LONGEST_PORT_NAME {
            let most = format_args!("write at most {LONGEST_PORT_NAME} characters");
            add("ports", format!("`{name}` is too long for the name of a port: {most}"));
        } else if !name.is_empty() && !port_names.insert(name) {
            add("ports", format!("`{name}` is the name of two ports: choose another"));
        }
    }
    for kind in ["requests", "limits"] {
        for (name, amount) in entries(&container["resources"][kind]) {
            if !name.contains('/') && !is_of_kubernetes(name) {
                let why = "is no resource of Kubernetes: write its domain too, such as nvidia.com/gpu";
                add(&format!("resources.{kind}"), format!("`{name}` {why}"));
            }
            let is_wrong = |text: &str| quantity::amount(text.trim()).is_none_or(|amount| amount < 0);
            if amount.as_str().is_some_and(is_wrong) {
                let why = format!("{amount} is no quantity (try `1` or `1Gi`)");
                add(&format!("resources.{kind}.{name}"), why);
            }
        }
    }
}

/// Returns what is wrong with where a variable has its value from.
fn of_source(source: &Value) -> Option<String> {
    let mut references = ["configMapKeyRef", "secretKeyRef"].into_iter();
    if let Some(kind) = references.find(|kind| lacks_name(&source[*kind])) {
        return Some(format!("{kind} needs a name"));
    }
    if let Some(path) = source["fieldRef"]["fieldPath"].as_str().filter(|path| !is_field(path)) {
        return Some(format!("pods have no field `{path}` for variables"));
    }
    let name = source["resourceFieldRef"]["resource"].as_str()?;
    let of_list = name.strip_prefix("limits.").or_else(|| name.strip_prefix("requests."));
    let is_known = of_list.is_some_and(is_of_kubernetes);
    (!is_known).then(|| format!("there is no `{name}`: write one such as limits.memory"))
}

/// Whether a variable may have its value from the field of the pod at `path`.
fn is_field(path: &str) -> bool {
    let of_metadata = ["metadata.labels['", "metadata.annotations['"];
    of_metadata.iter().any(|prefix| path.starts_with(prefix) && path.ends_with("']"))
        || FIELDS
            .iter()
            .any(|(part, fields)| path.strip_prefix(*part).is_some_and(|field| fields.contains(&field)))
}

/// The fields of a pod from which variables have their values. (`spec.nodeName` was called `spec.host`.)
const FIELDS: [(&str, &[&str]); 3] = [
    ("metadata.", &["name", "namespace", "uid"]),
    ("spec.", &["host", "nodeName", "serviceAccountName"]),
    ("status.", &["hostIP", "hostIPs", "podIP", "podIPs"]),
];

/// Whether this is a resource of containers that is Kubernetes' own.
fn is_of_kubernetes(name: &str) -> bool {
    ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-")
}
