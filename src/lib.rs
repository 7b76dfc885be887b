//! A Kubernetes operator for Apache Spark: its API as types, and a [`client`] for programs that use the operator.
//!
//! ```toml
//! spark-operator = { path = "…", default-features = false }
//! ```
//!
//! gives a program [`api`] and [`client`], with their dependencies; [`client`] begins with an example. Everything else
//! belongs to the two programs `spark-operator` and `sparkctl`, which the features `operator` and `ctl` build. It is
//! public for these programs and for `tests/it` only, and may change at any time:
//!
//! | module | what | may use |
//! |---|---|---|
//! | `api` | what users write: kinds, names, defaults, quantities | nothing here |
//! | `client` | applications in a cluster, for programs: build, submit, follow | `api` |
//! | `cron` | schedules, and the moments at which they are due | nothing here |
//! | `spark_client` | the objects that Spark's own submission client creates | `api` |
//! | `pod_customization` | changes a pod as its annotations ask for | `api` |
//! | `plan` | decisions: pure functions from observations to actions and a status | the four crates above |
//! | `certificates` | the webhook's certificates: when they are renewed, how they are made, shared and trusted | `api` |
//! | `leader_election` | which of several replicas drives applications | `api` |
//! | `controller` | observe, decide, act: watches and API calls | `plan` and all that it may use |
//! | `webhook` | HTTPS: admission reviews | `certificates`, `plan` and all that it may use |
//! | `ctl` | the command line `sparkctl` | `plan`, `client`, `api` |
//! | `operator` | `spark-operator run`: all of these parts in one process | all |
//! | `certs` | `spark-operator certs`: the certificates, for an admin | all |
//! | `installation`, `manifests` | checks that the cluster is set up for the operator, and prints the manifests for that | `certificates`, `api` |
//! | `settings`, `api_server`, `admin`, `metrics`, `telemetry`, `shutdown`, `process_limits`, `panics` | what the process as a whole needs | |
//!
//! `controller` and `webhook` never use each other: they communicate only through annotations on pods
//! (`pod_customization`). `api`, `cron`, `spark_client`, `pod_customization`, `plan`, `certificates` and
//! `leader_election` are crates in `crates/`: Cargo enforces the last column for crates, and `tests/it/architecture.rs` for modules.

#![warn(missing_docs)]

pub use api;
pub mod client;

#[cfg(feature = "operator")]
#[doc(hidden)]
pub use certificates;
#[cfg(feature = "plan")]
#[doc(hidden)]
pub use cron;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub use leader_election;
#[cfg(feature = "plan")]
#[doc(hidden)]
pub use plan;
#[cfg(feature = "plan")]
#[doc(hidden)]
pub use pod_customization;
#[cfg(feature = "plan")]
#[doc(hidden)]
pub use spark_client;

#[cfg(feature = "ctl")]
#[doc(hidden)]
pub mod ctl;

#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod admin;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod api_server;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod certs;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod controller;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod installation;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod listen;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod manifests;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod metrics;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod operator;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod panics;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod process_limits;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod settings;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod shutdown;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod telemetry;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod webhook;
