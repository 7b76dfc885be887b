//! The keys of objects in a namespace.

use serde_json::Value;

/// The kind and name of an object. A kind that several API groups have has the group after it, as kubectl takes it:
/// `PodGroup.scheduling.volcano.sh`; if the version depends on the cluster, with the version between them:
/// `PodGroup.v1beta1.scheduling.k8s.io`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The kind, as above.
    pub kind: String,
    /// The name of the object in its namespace.
    pub name: String,
}

impl ObjectKey {
    /// The kinds that several API groups have.
    const AMBIGUOUS: [&str; 2] = ["PodGroup", "Workload"];
    /// The API group whose version depends on the cluster.
    const VERSIONED: &str = "scheduling.k8s.io";

    /// Returns the kind and name of `object`; `None` if one of them is missing.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut kind = text(&object["kind"])?;
        if Self::AMBIGUOUS.contains(&&*kind)
            && let Some((group, version)) = object["apiVersion"].as_str()?.split_once('/')
        {
            let version = if group == Self::VERSIONED { format!("{version}.") } else { String::new() };
            kind = format!("{kind}.{version}{group}");
        }
        Some(Self { kind, name: text(&object["metadata"]["name"])? })
    }
}
