//! Reads the resourceVersion of objects, so that two versions of an object can be compared.

use kube_core::ResourceExt;

/// Returns the object's resourceVersion as a number; zero if it is not a number. Resource versions are opaque to
/// clients except for their order, which Kubernetes promises since 1.35 and has always kept.
pub fn version(object: &impl ResourceExt) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}
