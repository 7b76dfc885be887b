//! Defines the kinds of `sparkoperator.k8s.io/v1beta2` as values: the specs that users write and the statuses that the
//! operator reports.
//!
//! Nothing in this crate talks to a cluster, reads a clock or logs.

#![warn(missing_docs)]

/// The names of every label, annotation, container, environment variable and configuration key.
pub mod names;
/// The two kinds of pod that Spark runs: driver and executor.
mod pod_role;

/// `SparkApplication` and its spec.
pub mod application;
/// The fields that driver and executors share, and the fields that each has of its own.
pub mod pod;
/// The status of a `SparkApplication`.
pub mod status;

/// `ScheduledSparkApplication`, its spec and status.
pub mod scheduled;

/// The values of fields that the user left out.
pub mod defaults;

/// The CustomResourceDefinitions of both kinds.
pub mod crds;
/// Parts of the Kubernetes API inside our own types, kept as the JSON that the user wrote.
pub mod embedded;
/// Cuts texts that are too long to be shown whole.
pub mod excerpt;
/// Reads objects of the API server that any user may have written.
pub mod lenient;
/// Memory sizes in Java's notation, such as `512m`.
pub mod memory;
/// The settings that `spec.monitoring` asks for.
pub mod monitoring;
/// Reads an explicit `null` as an absent field.
mod nulls;
/// Kubernetes' quantities, such as `1.5Gi`.
pub mod quantity;
mod resource_version;
/// Counts how often parts of an object are looked at, for tests.
#[doc(hidden)]
pub mod steps;

pub use application::{
    ApplicationType, BatchSchedulerOptions, Dependencies, DeployMode, DriverIngressOptions,
    DynamicAllocation, MonitoringSpec, PrometheusSpec, RestartPolicy, RestartPolicyType, SparkApplication,
    SparkApplicationSpec, SparkUiOptions, owner_reference, stated,
};
pub use defaults::{fill_in, with_defaults};
pub use embedded::Embedded;
pub use lenient::Lenient;
pub use pod::{
    DriverSpec, ExecutorSpec, GpuSpec, NameKey, NamePath, Port, SecretInfo, SecretType, SparkPodSpec,
};
pub use pod_role::Role;
pub use resource_version::version;
pub use scheduled::{
    ConcurrencyPolicy, ScheduleState, ScheduledSparkApplication, ScheduledSparkApplicationSpec,
    ScheduledSparkApplicationStatus,
};
pub use status::{ApplicationState, DriverInfo, ExecutorState, RunRecord, SparkApplicationStatus, State};
