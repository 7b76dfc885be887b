//! Defines the Rust types for the kinds of `sparkoperator.k8s.io`: the specs that users write and the statuses that the
//! operator writes.
//!
//! This crate has no client, reads no clock and writes no log.

#![warn(missing_docs)]

/// The names of all labels, annotations, containers, environment variables and configuration keys. Its modules are
/// re-exported: `api::conf`.
pub mod names;
/// Finds the section of a spec and the container of a pod that belong to a role (driver or executor).
mod pod_role;

/// `SparkApplication` and its spec.
pub mod application;
/// The spec fields of driver and executors, shared and separate.
pub mod pod;
/// The status of a `SparkApplication`.
pub mod status;

/// `ScheduledSparkApplication`, its spec and status.
pub mod scheduled;

/// `SparkConnect`, its spec and status.
pub mod connect;

/// The default values of fields that the user did not set.
pub mod defaults;

/// Limits the cost of parsing objects that any user may have written.
pub mod bounds;
/// The status fields that installed CustomResourceDefinitions must not drop.
pub mod crds;
/// Parts of the Kubernetes API inside our own types, kept as the JSON that the user wrote.
pub mod embedded;
/// Shortens texts that are too long to be shown completely.
pub mod excerpt;
mod identity;
/// Parses objects that any user of the cluster may have written.
pub mod lenient;
/// The settings for `spec.monitoring`.
pub mod monitoring;
/// Reads an explicit `null` as an absent field.
mod nulls;
mod object_key;
mod object_name;
/// Kubernetes' quantities, such as `1.5Gi`.
pub mod quantity;
mod resource_version;
/// Enums whose variants each have a fixed text.
mod words;
pub use application::*;
pub use bounds::{Bounds, Excess};
pub use connect::*;
pub use defaults::{fill_in, with_defaults};
pub use embedded::Embedded;
pub use identity::Identity;
pub use lenient::Lenient;
pub use names::{role::Role, *};
pub use nulls::without_nulls;
pub use object_key::{ObjectKey, ObjectKind};
pub use object_name::{LONGEST_LABEL, LONGEST_NAME, is_object_name, is_segment};
pub use pod::*;
pub use pod_role::{spark_container, spark_container_of};
pub use resource_version::version;
pub use scheduled::*;
pub use status::*;

/// Whether a field has its default, so that it need not be written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
