//! The keys of objects in a namespace: kind and name.

use kube_core::{ApiResource, DynamicObject, GroupVersionKind, Resource};
use serde_json::Value;
use std::{borrow::Cow, fmt};

/// A kind of objects in namespaces, in one version of its API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKind {
    /// API group and version with a slash between them; the version alone in Kubernetes' core group: `v1`.
    pub api_version: Cow<'static, str>,
    /// The kind without its API group: `ConfigMap`.
    pub kind: Cow<'static, str>,
}

/// The kind and name of an object in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The object's kind.
    pub kind: ObjectKind,
    /// The object's name.
    pub name: String,
}

#[expect(missing_docs, reason = "each has the name of its kind")]
impl ObjectKind {
    pub const CONFIG_MAP: Self = Self::new("v1", "ConfigMap");
    pub const ENDPOINT_SLICE: Self = Self::new("discovery.k8s.io/v1", "EndpointSlice");
    pub const INGRESS: Self = Self::new("networking.k8s.io/v1", "Ingress");
    pub const NETWORK_POLICY: Self = Self::new("networking.k8s.io/v1", "NetworkPolicy");
    pub const PERSISTENT_VOLUME_CLAIM: Self = Self::new("v1", "PersistentVolumeClaim");
    pub const POD_DISRUPTION_BUDGET: Self = Self::new("policy/v1", "PodDisruptionBudget");
    pub const SERVICE: Self = Self::new("v1", "Service");
}

impl ObjectKind {
    /// Returns the kind with this API version.
    pub const fn new(api_version: &'static str, kind: &'static str) -> Self {
        Self { api_version: Cow::Borrowed(api_version), kind: Cow::Borrowed(kind) }
    }

    /// Returns the key of the object of this kind with this name.
    pub fn named(self, name: impl Into<String>) -> ObjectKey {
        ObjectKey { kind: self, name: name.into() }
    }

    /// Returns the kind as the type that kube's dynamic clients take.
    pub fn resource(&self) -> ApiResource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &self.kind))
    }

    /// Returns the API server's URL path of the objects of this kind in a namespace.
    pub fn path(&self, namespace: &str) -> String {
        DynamicObject::url_path(&self.resource(), Some(namespace))
    }
}

impl ObjectKey {
    /// Returns the key of `object`; `None` if `object` lacks its API version, kind or name.
    pub fn of(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (api_version, kind) = (text(&object["apiVersion"])?.into(), text(&object["kind"])?.into());
        Some(ObjectKind { api_version, kind }.named(text(&object["metadata"]["name"])?))
    }
}

impl fmt::Display for ObjectKind {
    /// Writes the kind, and the API group after it unless Kubernetes itself has the kind: `PodGroup.scheduling.volcano.sh`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        match self.api_version.split_once('/') {
            Some((group, _)) if !["networking.k8s.io", "policy"].contains(&group) => write!(f, ".{group}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::ObjectKind;

    #[test]
    fn a_kind_has_its_api_path_and_a_unique_text() {
        let kinds = [
            ObjectKind::CONFIG_MAP,
            ObjectKind::INGRESS,
            ObjectKind::NETWORK_POLICY,
            ObjectKind::PERSISTENT_VOLUME_CLAIM,
            ObjectKind::POD_DISRUPTION_BUDGET,
            ObjectKind::SERVICE,
            ObjectKind::new("scheduling.volcano.sh/v1beta1", "PodGroup"),
        ];
        let texts = kinds.map(|kind| format!("{kind} {}\n", kind.path("a")));
        assert_eq!(texts.concat(), include_str!("../../../tests/data/kinds.txt"));
    }
}
