//! Builds the NetworkPolicy for the ports of the gateway: the port of a server with access `Namespace` is open to the
//! pods of its namespace only.

use crate::Gateway;
use api::{ConnectAccess, ObjectKind, names::label};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the policy for the pods of `gateway`: one rule for each namespace, and one for the ports that are open to
/// all clients. `ports` contains the namespace, the access and the gateway's port of each server behind the gateway.
pub fn gateway_policy(
    name: &str,
    gateway: &Gateway,
    ports: impl IntoIterator<Item = (String, ConnectAccess, i32)>,
) -> Value {
    let mut by_client = BTreeMap::<Option<String>, BTreeSet<i32>>::new();
    for (namespace, access, port) in ports {
        let client = (access == ConnectAccess::Namespace).then_some(namespace);
        by_client.entry(client).or_default().insert(port);
    }
    let rule = |(client, ports): (Option<String>, BTreeSet<i32>)| {
        let ports: Vec<_> = ports.into_iter().map(|port| json!({"port": port, "protocol": "TCP"})).collect();
        match client {
            Some(namespace) => {
                let selector = json!({"matchLabels": {label::NAMESPACE_NAME: namespace}});
                json!({"from": [{"namespaceSelector": selector}], "ports": ports})
            }
            None => json!({"ports": ports}),
        }
    };
    let ObjectKind { api_version, kind } = ObjectKind::NETWORK_POLICY;
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "labels": {label::CREATED_BY: "true"}},
        "spec": {
            "podSelector": {"matchLabels": gateway.labels},
            "policyTypes": ["Ingress"],
            "ingress": by_client.into_iter().map(rule).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_reach_the_ports_of_their_namespace_and_those_with_access_cluster() {
        let labels = [("app".to_owned(), "gateway".to_owned())].into();
        let gateway = Gateway { labels, ..Gateway::default() };
        let server = |namespace: &str, access, port| (namespace.to_owned(), access, port);
        let policy = gateway_policy(
            "ports",
            &gateway,
            [
                server("b", ConnectAccess::Namespace, 20_002),
                server("a", ConnectAccess::Namespace, 20_003),
                server("a", ConnectAccess::Cluster, 20_001),
                server("a", ConnectAccess::Namespace, 20_000),
            ],
        );
        let ports = |numbers: &[i32]| -> Vec<_> {
            numbers.iter().map(|port| json!({"port": port, "protocol": "TCP"})).collect()
        };
        let from = |namespace: &str| json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}]);
        let expected = json!({
            "podSelector": {"matchLabels": {"app": "gateway"}}, "policyTypes": ["Ingress"],
            "ingress": [
                {"ports": ports(&[20_001])},
                {"from": from("a"), "ports": ports(&[20_000, 20_003])},
                {"from": from("b"), "ports": ports(&[20_002])},
            ],
        });
        assert_eq!(policy["spec"], expected);
    }
}
