//! A Kubernetes operator for Apache Spark, and where in it things are.
//!
//! | module | what | may use |
//! |---|---|---|
//! | [`api`] | what users write: kinds, names, defaults | nothing here |
//! | [`plan`] | what is to be done: pure functions and values | `api` |
//! | [`controller`] | observe, decide, act: watches, API calls, `spark-submit` | `plan`, `api` |
//! | [`webhook`] | HTTPS: admission reviews, certificates | `plan`, `api` |
//! | [`ctl`] | the command line `sparkctl` | `plan`, `api` |
//! | [`operator`] | `spark-operator run`: all of them in one process | all |
//! | [`certs`] | `spark-operator certs`: the certificates, for an admin | all |
//! | [`installation`], [`manifests`] | is the cluster set up for it, and what that takes | `webhook`, `api` |
//! | [`settings`], [`api_server`], [`admin`], [`metrics`], [`telemetry`], [`shutdown`], [`kernel`] | what the process as a whole needs | |
//!
//! `controller` and `webhook` never use each other: all that they have to tell each other stands in
//! annotations on pods ([`plan::customization`]). `tests/it/architecture.rs` keeps it so.

pub mod admin;
pub mod api;
pub mod api_server;
pub mod certs;
pub mod controller;
pub mod ctl;
pub mod installation;
pub mod kernel;
pub mod manifests;
pub mod metrics;

pub mod operator;
pub mod plan;
pub mod settings;
pub mod shutdown;
pub mod telemetry;
pub mod webhook;

/// Reviews, watches and statuses are trees of small objects, made by one thread and dropped by another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
