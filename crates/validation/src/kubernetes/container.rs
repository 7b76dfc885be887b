//! Kubernetes' rules for a container: hooks, mounts, variables, ports and resources.

use super::{LONGEST_PORT_NAME, entries, lacks_name, list};
use api::{names::volume::is_scratch, quantity};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Adds the mistakes of a container; `at` returns the path of one of its fields.
pub(super) fn of_container(
    container: &Value,
    at: impl Fn(&str) -> String,
    add: &mut impl FnMut(String, String),
) {
    if let Some(hooks) = container["lifecycle"].as_object()
        && let Some((hook, _)) = hooks.iter().find(|(_, hook)| hook.as_object().is_some_and(Map::is_empty))
    {
        add(at(&format!("lifecycle.{hook}")), "says nothing to do: write exec, httpGet or sleep".to_owned());
    }
    let mut paths = BTreeMap::new();
    for mount in list(&container["volumeMounts"]) {
        let text = |field: &str| mount[field].as_str().unwrap_or_default();
        let (path, below) = (text("mountPath"), text("subPath"));
        if below.starts_with('/') || below.split('/').any(|part| part == "..") {
            let why = format!(
                "the subPath `{below}` leads out of the volume: write one without `/` first and `..`"
            );
            add(at("volumeMounts"), why);
        }
        if path.is_empty() {
            add(at("volumeMounts"), "a mount has no path".to_owned());
        } else if let Some(other) = paths.insert(path, mount) {
            let is_sparks = is_scratch(mount) || is_scratch(other);
            let why = if is_sparks { ", where Spark has its scratch space," } else { "" };
            let other = other["name"].as_str().unwrap_or_default();
            add(
                at("volumeMounts"),
                format!(
                    "`{other}` and `{}` are both mounted at `{path}`{why}: choose another path",
                    text("name")
                ),
            );
        }
    }
    for variable in list(&container["env"]) {
        let name = variable["name"].as_str().unwrap_or_default();
        let source = &variable["valueFrom"];
        if source.is_object() && variable["value"].as_str().is_some_and(|value| !value.is_empty()) {
            add(at("env"), format!("`{name}` has both value and valueFrom: take one out"));
        } else if source.as_object().is_some_and(Map::is_empty) {
            add(at("env"), format!("valueFrom of `{name}` names nothing"));
        } else if let Some(kind) =
            ["configMapKeyRef", "secretKeyRef"].into_iter().find(|kind| lacks_name(&source[*kind]))
        {
            add(at("env"), format!("valueFrom of `{name}`: {kind} needs a name"));
        } else if let Some(path) = source["fieldRef"]["fieldPath"].as_str().filter(|path| !is_field(path)) {
            add(at("env"), format!("valueFrom of `{name}`: pods have no field `{path}` for variables"));
        } else if let Some(what) =
            source["resourceFieldRef"]["resource"].as_str().filter(|what| !is_resource(what))
        {
            add(
                at("env"),
                format!("valueFrom of `{name}`: there is no `{what}`: write one such as limits.memory"),
            );
        }
        if name.is_empty() || name.contains('=') || !name.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
            add(at("env"), format!("`{name}` cannot be the name of a variable"));
        }
    }
    for source in list(&container["envFrom"]) {
        if source["configMapRef"].is_null() && source["secretRef"].is_null() {
            add(at("envFrom"), "names neither configMapRef nor secretRef".to_owned());
        }
        for kind in ["configMapRef", "secretRef"].into_iter().filter(|kind| lacks_name(&source[*kind])) {
            add(at("envFrom"), format!("{kind} needs a name"));
        }
    }
    let mut port_names = BTreeSet::new();
    for port in list(&container["ports"]) {
        let number = port["containerPort"].as_i64().unwrap_or(1);
        if !(1..=65_535).contains(&number) {
            add(at("ports"), format!("{number} is no port: write 1 to 65535"));
        }
        let protocol = port["protocol"].as_str().unwrap_or_default();
        if !["", "TCP", "UDP", "SCTP"].contains(&protocol) {
            add(at("ports"), format!("`{protocol}` is no protocol: write TCP, UDP or SCTP"));
        }
        let name = port["name"].as_str().unwrap_or_default();
        if name.len() > LONGEST_PORT_NAME {
            let why = format!(
                "`{name}` is too long for the name of a port: write at most {LONGEST_PORT_NAME} characters"
            );
            add(at("ports"), why);
        } else if !name.is_empty() && !port_names.insert(name) {
            add(at("ports"), format!("`{name}` is the name of two ports: choose another"));
        }
    }
    for (list, name, amount) in ["requests", "limits"].into_iter().flat_map(|list| {
        entries(&container["resources"][list]).map(move |(name, amount)| (list, name, amount))
    }) {
        if !name.contains('/') && !RESOURCES.contains(&&**name) && !name.starts_with("hugepages-") {
            let why = format!(
                "`{name}` is no resource of Kubernetes: write its domain too, such as nvidia.com/gpu"
            );
            add(at(&format!("resources.{list}")), why);
        }
        if amount
            .as_str()
            .is_some_and(|amount| quantity::amount(amount.trim()).is_none_or(|amount| amount < 0))
        {
            add(
                at(&format!("resources.{list}.{name}")),
                format!("{amount} is no quantity (try `1` or `1Gi`)"),
            );
        }
    }
}

/// Whether a variable may have its value from the field of the pod at `path`.
fn is_field(path: &str) -> bool {
    let of_metadata = ["metadata.labels['", "metadata.annotations['"];
    of_metadata.iter().any(|prefix| path.starts_with(prefix) && path.ends_with("']"))
        || FIELDS.contains(&path)
}

/// Whether a variable may have its value from this resource of a container.
fn is_resource(name: &str) -> bool {
    let name = name.strip_prefix("limits.").or_else(|| name.strip_prefix("requests."));
    name.is_some_and(|name| RESOURCES.contains(&name) || name.starts_with("hugepages-"))
}

/// The fields of a pod from which variables have their values.
const FIELDS: [&str; 10] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    // What `spec.nodeName` was called.
    "spec.host",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The resources of containers that are Kubernetes' own.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
