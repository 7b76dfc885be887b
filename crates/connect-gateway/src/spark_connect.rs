//! Reads the fields of a SparkConnect that the gateway needs: its name, its port, and the address of its server.

use api::Lenient;
use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind, NotUsed, Object};
use serde_json::Value;
use std::{net::IpAddr, sync::Arc};

/// A SparkConnect as it is read from the API server. Its spec, which may have a megabyte, is not parsed.
pub(crate) type SparkConnect = Lenient<Object<NotUsed, Value>>;
/// The uid of a SparkConnect.
pub(crate) type Uid = Arc<str>;

/// The part of a SparkConnect that is kept in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) created: Timestamp,
    /// `status.gateway.port`, which may be out of range.
    pub(crate) port: Option<i64>,
    /// `status.server.podIp`, while the SparkConnect is `Ready`.
    pub(crate) address: Option<IpAddr>,
}

/// Returns group, version, kind and plural of SparkConnect.
pub(crate) fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("sparkoperator.k8s.io", "v1alpha1", "SparkConnect");
    ApiResource::from_gvk_with_plural(&kind, "sparkconnects")
}

impl Known {
    /// Returns the kept part of `object`. Invalid values in the status are ignored without a log: only the operator
    /// writes it.
    pub(crate) fn of(object: Object<NotUsed, Value>) -> Self {
        let status = object.status.unwrap_or_default();
        let ip = status["server"]["podIp"].as_str().filter(|_| status["state"] == "Ready");
        Self {
            created: object.metadata.creation_timestamp.map_or(Timestamp::MAX, |time| time.0),
            port: status["gateway"]["port"].as_i64(),
            address: ip.and_then(|ip| ip.parse().ok()),
            namespace: object.metadata.namespace.unwrap_or_default(),
            name: object.metadata.name.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_has_an_address_only_while_it_is_ready() {
        type Case = (Value, Option<i64>, Option<IpAddr>);
        let read = |status: Value| {
            let metadata =
                json!({"name": "a", "namespace": "team", "creationTimestamp": "2026-11-28T08:00:00Z"});
            let object = json!({
                "apiVersion": "sparkoperator.k8s.io/v1alpha1", "kind": "SparkConnect",
                "metadata": metadata, "spec": {"sparkVersion": "4.0.1"}, "status": status,
            });
            let read: SparkConnect = serde_json::from_str(&object.to_string()).unwrap();
            Known::of(read.0.unwrap())
        };
        let cases = include_str!("../../../tests/data/connect-addresses.json");
        for (status, port, address) in serde_json::from_str::<Vec<Case>>(cases).unwrap() {
            let (namespace, name) = ("team".to_owned(), "a".to_owned());
            let created = "2026-11-28T08:00:00Z".parse().unwrap();
            let expected = Known { namespace, name, created, port, address };
            assert_eq!(read(status.clone()), expected, "{status}");
        }
    }
}
