//! Reads the name, the namespace and the uid of an object.

use kube_core::Resource;

/// The name, the uid and, unless it belongs to the whole cluster, the namespace of an object. The API server sets all of
/// them in the objects that it stores; in other objects they may be empty. This is a trait so that objects of all kinds
/// are read in the same way, including those that were read in part only.
pub trait Identity: Resource {
    /// Returns the object's name.
    fn own_name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace that contains the object; empty if the object belongs to the whole cluster.
    fn own_namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    /// Returns the object's uid.
    fn own_uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }
}

impl<K: Resource> Identity for K {}
