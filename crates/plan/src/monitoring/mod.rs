//! Builds what `spec.monitoring` of an application needs in addition to its pods: a ConfigMap, and advice for the user
//! if the Java agent fails.

mod config_map;
mod java_agent_failure;

pub use config_map::{config_map, possible_child};
pub use java_agent_failure::explained;
