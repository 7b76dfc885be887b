//! Builds what `spec.monitoring` of an application needs: properties, a ConfigMap, and advice for the user if the Java agent
//! fails.

mod config_map;
mod java_agent_failure;
mod properties;

pub use config_map::{config_map, possible_child};
pub use java_agent_failure::explained;
pub(crate) use properties::metrics;
