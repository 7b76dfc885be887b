//! What `spec.monitoring` of an application becomes beside its pods: a ConfigMap, and advice where a Java agent fails.

mod config_map;
mod failure;

pub use config_map::{config_map, possible_child};
pub use failure::explained;
