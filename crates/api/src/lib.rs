//! The kinds of `sparkoperator.k8s.io/v1beta2` as types: what users can write, and what the operator answers in the
//! status.
//!
//! Nothing here talks to a cluster, reads a clock or logs.

#![warn(missing_docs)]

/// Every label, annotation, container, environment variable and configuration key.
pub mod names;
/// Driver or executor.
pub mod role;

/// `SparkApplication` and its spec.
pub mod application;
/// What the driver and the executors have in common, and what each has of its own.
pub mod pod;
/// The status of a `SparkApplication`.
pub mod status;

/// `ScheduledSparkApplication`, its spec and status.
pub mod scheduled;

/// The values of fields that the user left out.
pub mod defaults;

/// The CustomResourceDefinitions of both kinds.
pub mod crds;
/// Pieces of the Kubernetes API inside our own types.
pub mod embedded;
/// Texts that are too long to be shown whole.
pub mod excerpt;
/// Objects of the API server that anybody may have written.
pub mod lenient;
/// Java's sizes of memory, such as `512m`.
pub mod memory;
/// What `spec.monitoring` asks for.
pub mod monitoring;
/// How an explicit `null` is read.
mod nulls;
/// Kubernetes' quantities, such as `1.5Gi`.
pub mod quantity;
/// Counts of looks at the parts of an object, for tests.
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
pub use role::Role;
pub use scheduled::{
    ConcurrencyPolicy, ScheduleState, ScheduledSparkApplication, ScheduledSparkApplicationSpec,
    ScheduledSparkApplicationStatus,
};
pub use status::{ApplicationState, DriverInfo, ExecutorState, RunRecord, SparkApplicationStatus, State};
