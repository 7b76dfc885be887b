//! A Kubernetes operator for Apache Spark.

pub mod api;
